"""Lists the crash states that a recording holds; those that differ most come first.

A cut may come between any two requests.  A write that no completed flush covers may
then be on the drive, in part or as a whole, or not.  A state may lack a write until the
flush of that write is answered; and the later the cut, the more acks a state is judged
by.  So only the moments just before the end of a flush matter, and a state is judged at
the last moment at which the first write that it lacks could still be lost.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle

from dbcheck.lab.drive.model import choose_surviving_parts
from dbcheck.lab.drive.recording import Recording
from dbcheck.model.cut import CrashState, Part


@dataclass(frozen=True, slots=True)
class AtRisk:
    """Contents of a drive at one moment.

    stable:  number of writes, from the first on, that a completed flush covered.
    arrived: number of writes that had come; the ones after *stable* may be lost.
    """

    stable: int
    arrived: int

    @property
    def writes(self) -> int:
        """Number of writes that may be lost."""
        return self.arrived - self.stable


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The moment just before a flush of a drive, or the recording, ended.

    drives: the contents of each drive.
    """

    time_us: int
    drives: tuple[AtRisk, ...]

    @property
    def writes(self) -> int:
        """Number of writes that may be lost, of all drives together."""
        return sum(drive.writes for drive in self.drives)


class Timeline:
    """The moments of a recording, of one drive or of several with caches of their own.

    moments: in the order of time, from the first one at *since_us* or later on.
    """

    def __init__(
        self, recordings: Sequence[Recording], *, honest: bool, since_us: int
    ) -> None:
        """honest: flushes make stable the writes that they cover; else nothing does."""
        self.recordings = recordings
        self._drives = [_Drive(recording, honest) for recording in recordings]
        ended_us = min(recording.ended_us for recording in recordings)
        found = [
            (time_us, number, at)
            for number, drive in enumerate(self._drives)
            for at, time_us in enumerate(drive.ends_us)
            if since_us <= time_us < ended_us
        ]
        found.append((ended_us, -1, -1))
        self.moments = [self._make_moment(*each) for each in sorted(found)]
        self._stable = [
            self._find_stable_writes(number) for number in range(len(recordings))
        ]

    def _find_stable_writes(self, number: int) -> list[int]:
        """Return for each moment how many writes of a drive are stable from then on.

        If flushes of two drives ended in the same microsecond, their order is unknown,
        so at one moment more writes may count as stable than at the next.
        """
        stable = [moment.drives[number].stable for moment in reversed(self.moments)]
        return list(accumulate(stable, min))[::-1]

    def _make_moment(self, time_us: int, own: int, at: int) -> CrashPoint:
        """Return the moment just before the end *at* of drive *own*, -1 for none."""
        contents = (
            drive.before(at) if number == own else drive.at(time_us)
            for number, drive in enumerate(self._drives)
        )
        return CrashPoint(time_us, tuple(contents))

    def drawn(self, moment: int, kinds: Sequence[str], seed: int) -> CrashState:
        """Return the state that survivors of these *kinds*, one for each drive, leave.

        moment: number of the moment of the cut; the state's own moment may be later.
        """
        drives = [
            self._draw_survivors(number, moment, kind, seed + number)
            for number, kind in enumerate(kinds)
        ]
        return self.state(drives)

    def without(self, moment: int, lost: Sequence[Iterable[Part]]) -> CrashState:
        """Return the state of a moment that lacks only the parts *lost*, by drive.

        All other writes that had arrived by that moment are whole.
        """
        drives = []
        for number, parts in enumerate(lost):
            arrived = self.moments[moment].drives[number].arrived
            drives.append(self._list_all_but(number, arrived, parts))
        return self.state(drives)

    def everything(self, moment: int) -> CrashState:
        """Return the state that has all writes that had arrived by a moment."""
        return self.without(moment, [[] for _ in self.recordings])

    def find_last_moment(self, lost: Iterable[tuple[int, Part]]) -> int:
        """Return the last moment at which all of *lost* could be lost.

        lost: pairs of a drive's number and a part that the drive lacks.
        """
        return min(
            (
                bisect_right(self._stable[drive], write) - 1
                for drive, (write, *_) in lost
            ),
            default=len(self.moments) - 1,
        )

    def lost(self, state: CrashState) -> list[list[Part]]:
        """Return for each drive the parts that it lacks at the moment of *state*."""
        return [
            self._list_lost_parts(number, whole, parts, state.moment)
            for number, (whole, parts) in enumerate(state.drives)
        ]

    def state(self, drives: Sequence[tuple[int, Sequence[Part]]]) -> CrashState:
        """Return the state of drives with these contents, in its canonical form."""
        contents = tuple(
            self._merge_to_canonical(number, whole, parts)
            for number, (whole, parts) in enumerate(drives)
        )
        first_lost = [
            (drive, (whole, 0, 0)) for drive, (whole, _) in enumerate(contents)
        ]
        return CrashState(self.find_last_moment(first_lost), contents)

    def _draw_survivors(
        self, number: int, moment: int, kind: str, seed: int
    ) -> tuple[int, list[Part]]:
        at_risk, recording = (
            self.moments[moment].drives[number],
            self.recordings[number],
        )
        numbers = range(at_risk.stable, at_risk.arrived)
        writes = [recording.write(each) for each in numbers]
        survivors = choose_surviving_parts(
            kind, [(w.offset, w.content) for w in writes], seed
        )
        parts = [
            (each, offset - write.offset, len(content))
            for each, write, pieces in zip(numbers, writes, survivors, strict=True)
            for offset, content in pieces
        ]
        return at_risk.stable, parts

    def _merge_to_canonical(
        self, number: int, whole: int, parts: Sequence[Part]
    ) -> tuple[int, tuple[Part, ...]]:
        """Return drive contents with the most whole writes, and other parts merged."""
        lengths = self.recordings[number].lengths
        merged: list[Part] = []
        for write, begin, length in sorted(parts):
            if merged and merged[-1][0] == write and sum(merged[-1][1:]) == begin:
                begin, length = merged[-1][1], merged[-1][2] + length
                merged.pop()
            merged.append((write, begin, length))
        done = 0
        while done < len(merged) and merged[done] == (whole, 0, lengths[whole]):
            whole, done = whole + 1, done + 1
        return whole, tuple(merged[done:])

    def _list_all_but(
        self, number: int, arrived: int, lost: Iterable[Part]
    ) -> tuple[int, list[Part]]:
        lengths = self.recordings[number].lengths
        gaps: dict[int, list[tuple[int, int]]] = {}
        for write, begin, length in sorted(lost):
            gaps.setdefault(write, []).append((begin, length))
        first = min(gaps, default=arrived)
        parts: list[Part] = []
        for write in range(first, arrived):
            at = 0
            for begin, length in [*gaps.get(write, []), (lengths[write], 0)]:
                if begin > at:
                    parts.append((write, at, begin - at))
                at = begin + length
        return first, parts

    def _list_lost_parts(
        self, number: int, whole: int, parts: Sequence[Part], moment: int
    ) -> list[Part]:
        arrived = self.moments[moment].drives[number].arrived
        held: dict[int, list[Part]] = {}
        for part in parts:
            held.setdefault(part[0], []).append(part)
        lengths = self.recordings[number].lengths
        lost: list[Part] = []
        for write in range(whole, arrived):
            at = 0
            for _, begin, length in [*held.get(write, []), (write, lengths[write], 0)]:
                if begin > at:
                    lost.append((write, at, begin - at))
                at = begin + length
        return lost


class _Drive:
    """The flushes of one recording: when each ended, and what was stable before."""

    def __init__(self, recording: Recording, honest: bool) -> None:
        self._times_us = recording.times_us
        self.ends_us = [time_us for time_us, _, _ in recording.flushes]
        self._written = [written for _, _, written in recording.flushes]
        self._stable = [0]  # before each flush, and after the last
        for _, covered, _ in recording.flushes:
            self._stable.append(max(self._stable[-1], covered if honest else 0))

    def before(self, flush: int) -> AtRisk:
        """Return the drive's contents just before the end of a flush of its own."""
        return AtRisk(self._stable[flush], self._written[flush])

    def at(self, time_us: int) -> AtRisk:
        """Return the drive's contents at a time, as far as times show.

        If a flush ended in the same microsecond, its arrived writes count as stable:
        they had come before the cut, so they may be on the drive.
        """
        arrived = bisect_left(self._times_us, time_us)
        stable = self._stable[bisect_right(self.ends_us, time_us)]
        return AtRisk(min(stable, arrived), arrived)


# Without "all", which for a single drive gives the state of "none" at the next moment.
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
_REPEATED_MAX = 3000  # draws in a row without a new state, after which few are left


def format_name(moment: int, kinds: Sequence[str], seed: int) -> str:
    """Return the name of the state that is drawn by these values."""
    return f"{moment}.{'+'.join(kinds)}.{seed}"


def parse_kinds(name: str) -> str:
    """Return the kinds of survivors in a state's name, joined by "+"."""
    return name.split(".")[1]


def draw_by_name(timeline: Timeline, name: str) -> CrashState | None:
    """Return the state that format_name() named, None if no state has that name."""
    moment, _, kinds_and_seed = name.partition(".")
    kinds, _, seed = kinds_and_seed.partition(".")
    drive_kinds = kinds.split("+")
    is_well_formed = (
        moment.isdecimal() and seed.isdecimal() and set(drive_kinds) <= {*KINDS, "all"}
    )
    if not is_well_formed or int(moment) >= len(timeline.moments):
        return None
    if len(drive_kinds) != len(timeline.recordings):
        return None
    return timeline.drawn(int(moment), drive_kinds, int(seed))


def draw_states(
    timeline: Timeline, stakes: Sequence[int], edges: Sequence[int], seed: int
) -> Iterator[tuple[str, CrashState]]:
    """Yield states with their names, each once, as *seed* draws them.

    stakes: for each moment, how many acks its writes bear on.  edges: moments in the
    midst of a task, or at its end.  Every second state comes from a walk over all
    moments, which visits each before it repeats one; the others come from moments with
    many writes at risk, many acks at stake, or from the edges.
    Ends once hardly any draw gives a new state.
    """
    draw = random.Random(f"explore {seed}")
    seen: set[tuple[object, ...]] = set()
    visits, repeated, number = _draw_visits(timeline, stakes, edges, draw), 0, 0
    while repeated < _REPEATED_MAX:
        number += 1
        moment = next(visits)
        kinds = _draw_kinds(draw, len(timeline.recordings))
        state = timeline.drawn(moment, kinds, number)
        repeated += 1
        if state.drives not in seen:
            seen.add(state.drives)
            repeated = 0
            yield format_name(moment, kinds, number), state


def _draw_kinds(draw: random.Random, drives: int) -> tuple[str, ...]:
    """Draw the kind of survivors of each drive; one of several may lose nothing."""
    kinds = KINDS if drives == 1 else (*KINDS, "all")
    return tuple(draw.choice(kinds) for _ in range(drives))


def _draw_visits(
    timeline: Timeline,
    stakes: Sequence[int],
    edges: Sequence[int],
    draw: random.Random,
) -> Iterator[int]:
    """Yield the moments to visit, without end."""
    numbers = range(len(timeline.moments))
    risks = list(accumulate(moment.writes for moment in timeline.moments))
    stake = list(accumulate(1 + stake for stake in stakes))
    walk = _walk_forever(numbers, draw)
    for turn in cycle(("walk", "risk", "walk", "stake", "walk", "edge")):
        if turn == "risk" and risks[-1]:
            yield draw.choices(numbers, cum_weights=risks)[0]
        elif turn == "stake":
            yield draw.choices(numbers, cum_weights=stake)[0]
        elif turn == "edge" and edges:
            yield draw.choice(edges)
        else:
            yield next(walk)


def _walk_forever(numbers: Sequence[int], draw: random.Random) -> Iterator[int]:
    """Yield all *numbers* in one order after the other, without end."""
    while True:
        yield from draw.sample(numbers, len(numbers))
