"""States that fail, one of each kind, reduced to what they must lack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from dbcheck.core.crashstate import CrashState, Part
from dbcheck.core.verdict import Verdict
from dbcheck.explore.oracle import Oracle
from dbcheck.explore.reduce import smallest
from dbcheck.explore.states import Timeline
from dbcheck.judge.explored import StateJudgement

TRIES_MAX = 120  # of one reduction
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)


def manner(judged: StateJudgement) -> str:
    """Return in which way a state fails: what went wrong, but for numbers."""
    words = _NUMBERS.sub("#", judged.reason.splitlines()[0]) if judged.reason else ""
    kinds = sorted(judged.losses)
    return f"{kinds} {words}" if "unrecoverable" in kinds else str(kinds)


def first_of_each(
    failed: Iterable[tuple[str, CrashState, StateJudgement]], timeline: Timeline
) -> list[list[tuple[str, CrashState, StateJudgement]]]:
    """Return the failed states by their manner, that of the most states first.

    In each, the one that lacks least comes first.
    """
    groups: dict[str, list[tuple[str, CrashState, StateJudgement]]] = {}
    for name, state, judged in failed:
        groups.setdefault(manner(judged), []).append((name, state, judged))

    def lacking(each: tuple[str, CrashState, StateJudgement]) -> int:
        parts = timeline.lost(each[1])
        return sum(length for drive in parts for _, _, length in drive)

    in_order = sorted(groups.values(), key=len, reverse=True)
    return [sorted(group, key=lacking) for group in in_order]


class Reduction:
    """Reduces one state that fails, on one lab."""

    def __init__(
        self,
        oracle: Oracle,
        timeline: Timeline,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """ended: whether to be content with what is found by now."""
        self._oracle, self._timeline, self._ended = oracle, timeline, ended
        self._known: dict[object, StateJudgement] = {}
        self.tries = 0

    def judged(self, state: CrashState) -> StateJudgement:
        """Judge *state*, once."""
        if state.drives not in self._known:
            self.tries += 1
            self._known[state.drives] = self._oracle.judge(state)
        return self._known[state.drives]

    def reduce(self, state: CrashState, manner_of_it: str) -> CrashState:
        """Return a state that lacks as little as possible and fails in that manner.

        First nothing is to be lacking, then fewer whole writes, then parts of those
        that are left.
        """
        moment = state.moment
        lacking = [
            (drive, part)
            for drive, parts in enumerate(self._timeline.lost(state))
            for part in parts
        ]
        by_write: dict[tuple[int, int], list[tuple[int, Part]]] = {}
        for drive, part in lacking:
            by_write.setdefault((drive, part[0]), []).append((drive, part))

        def of(groups: Sequence[Sequence[tuple[int, Part]]]) -> CrashState:
            lost: list[list[Part]] = [[] for _ in self._timeline.recordings]
            for group in groups:
                for drive, part in group:
                    lost[drive].append(part)
            return self._timeline.without(moment, lost)

        def fails(groups: Sequence[Sequence[tuple[int, Part]]]) -> bool:
            if self._ended() or self.tries >= TRIES_MAX:
                return False
            judged = self.judged(of(groups))
            return judged.verdict is Verdict.FAIL and manner(judged) == manner_of_it

        if fails([]):
            return of([])
        writes = smallest(list(by_write.values()), fails)
        pieces = [[part] for group in writes for part in group]
        return of(smallest(pieces, fails))
