"""Orders crash states: those that differ most come first."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle

from dbcheck.explore.states import Timeline
from dbcheck.model.cut import CrashState

# "all" is not among them: of a single drive it is "none" at the next moment.
KINDS = (
    "none",
    "but-one",
    "suffix",
    "writes",
    "pages",
    "blocks",
    "random",
    "torn",
    "prefix",
)
_REPEATED_MAX = 3000  # draws in a row that gave nothing new: there is not much more


def name_of(moment: int, kinds: Sequence[str], seed: int) -> str:
    """Return the name of a state that is drawn so."""
    return f"{moment}.{'+'.join(kinds)}.{seed}"


def kinds_in(name: str) -> str:
    """Return the kinds of survivors in such a name, joined by "+"."""
    return name.split(".")[1]


def drawn_by_name(timeline: Timeline, name: str) -> CrashState | None:
    """Return the state that name_of() named, None if no state has that name."""
    moment, _, rest = name.partition(".")
    kinds, _, seed = rest.partition(".")
    each = kinds.split("+")
    known = moment.isdecimal() and seed.isdecimal() and set(each) <= {*KINDS, "all"}
    if not known or int(moment) >= len(timeline.moments):
        return None
    if len(each) != len(timeline.recordings):
        return None
    return timeline.drawn(int(moment), each, int(seed))


def states(
    timeline: Timeline, stakes: Sequence[int], edges: Sequence[int], seed: int
) -> Iterator[tuple[str, CrashState]]:
    """Yield states with their names, each once, as *seed* draws them.

    stakes: by moment, how many acks its writes bear on.  edges: moments in the midst of
    a chore, or at its end.  Every other state comes from a walk over all moments, so
    that each is visited before one comes again; the others from moments with many
    writes at risk, many acks at stake, or from those edges.
    Ends if hardly anything new is left.
    """
    draw = random.Random(f"explore {seed}")
    seen: set[tuple[object, ...]] = set()
    visits, repeated, number = _visits(timeline, stakes, edges, draw), 0, 0
    while repeated < _REPEATED_MAX:
        number += 1
        moment = next(visits)
        kinds = _kinds(draw, len(timeline.recordings))
        state = timeline.drawn(moment, kinds, number)
        repeated += 1
        if state.drives not in seen:
            seen.add(state.drives)
            repeated = 0
            yield name_of(moment, kinds, number), state


def _kinds(draw: random.Random, drives: int) -> tuple[str, ...]:
    """Draw the kind of survivors of each drive; one of several may lose nothing."""
    kinds = KINDS if drives == 1 else (*KINDS, "all")
    return tuple(draw.choice(kinds) for _ in range(drives))


def _visits(
    timeline: Timeline,
    stakes: Sequence[int],
    edges: Sequence[int],
    draw: random.Random,
) -> Iterator[int]:
    """Yield the moments to visit, without end."""
    numbers = range(len(timeline.moments))
    risks = list(accumulate(moment.writes for moment in timeline.moments))
    stake = list(accumulate(1 + stake for stake in stakes))
    walk = _walk(numbers, draw)
    for turn in cycle(("walk", "risk", "walk", "stake", "walk", "edge")):
        if turn == "risk" and risks[-1]:
            yield draw.choices(numbers, cum_weights=risks)[0]
        elif turn == "stake":
            yield draw.choices(numbers, cum_weights=stake)[0]
        elif turn == "edge" and edges:
            yield draw.choice(edges)
        else:
            yield next(walk)


def _walk(numbers: Sequence[int], draw: random.Random) -> Iterator[int]:
    """Yield all *numbers* in one order after the other, without end."""
    while True:
        yield from draw.sample(numbers, len(numbers))
