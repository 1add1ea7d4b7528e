"""Reduces failing crash states to the fewest lost writes, and names the files hit.

States that fail in the same way are one finding, of which one state is reduced.  The
method is ddmin: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
input", IEEE Transactions on Software Engineering 28(2), 2002.  The result is
1-minimal: with any one of its lost parts on the drive, the state no longer fails.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from dbcheck.explore.folder import Line
from dbcheck.explore.oracle import Oracle
from dbcheck.explore.states import Timeline
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.storage.blocks import FileBlocks
from dbcheck.model.cut import CrashState, Part
from dbcheck.model.explored import LostBlock, StateJudgement
from dbcheck.model.verdict import Verdict


class Places:
    """Map from bytes of some drives to the files that they belong to."""

    def __init__(self, files: Sequence[FileBlocks] | None) -> None:
        """files: as a lab lists them; None: the filesystem cannot be mounted."""
        self._no_file = None if files is None else ""
        self._extents: dict[int, list[tuple[int, int, int, str]]] = {}
        for file in files or ():
            own = self._extents.setdefault(file.drive, [])
            for extent in file.extents:
                own.append((extent.place, extent.length, extent.at, file.path))
        for extents in self._extents.values():
            extents.sort()
        self._begins = {
            drive: [place for place, *_ in extents]
            for drive, extents in self._extents.items()
        }

    def blocks(
        self, drive: int, recording: Recording, part: Part, cut_us: int
    ) -> list[LostBlock]:
        """Return the lost blocks of a *part* of a write, one for each file.

        cut_us: when the cut comes, on the recording's clock.
        """
        number, begin, length = part
        age_ms = (cut_us - recording.times_us[number]) / 1e3
        place = recording.offsets[number] + begin
        return [
            LostBlock(drive, number, age_ms, where, size, file, at)
            for where, size, file, at in self._split(drive, place, place + length)
        ]

    def _split(
        self, drive: int, place: int, end: int
    ) -> Iterator[tuple[int, int, str | None, int]]:
        extents = self._extents.get(drive, [])
        begins = self._begins.get(drive, [])
        while place < end:
            next_one = bisect_right(begins, place)
            if next_one and place < sum(extents[next_one - 1][:2]):
                begin, length, at, file = extents[next_one - 1]
                stop = min(end, begin + length)
                yield place, stop - place, file, at + place - begin
            else:
                following = begins[next_one] if next_one < len(begins) else end
                stop = min(end, following)
                yield place, stop - place, self._no_file, -1
            place = stop


T = TypeVar("T")
TRIES_MAX, TRY_S = 120, 300.0  # of one reduction
Lost = tuple[int, Part]  # the number of a drive, and a part that it lacks
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)


def find_smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a subset of *parts* that still fails, of which no part can be left out.

    parts: all together fail, as the caller knows, so they are not tried again.
    fails: returns whether a subset fails; called for many subsets.  It can end the
    search by returning False from then on: the smallest failing subset is returned.
    """
    smallest, pieces = list(parts), 2
    while len(smallest) > 1:
        size = -(-len(smallest) // pieces)
        chunks = [smallest[at : at + size] for at in range(0, len(smallest), size)]
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            smallest, pieces = smaller, 2
            continue
        rests = (
            [part for chunk in chunks if chunk is not left_out for part in chunk]
            for left_out in (chunks if len(chunks) > 2 else [])
        )
        smaller = next((rest for rest in rests if fails(rest)), None)
        if smaller is not None:
            smallest, pieces = smaller, max(len(chunks) - 1, 2)
        elif size == 1:
            break
        else:
            pieces = min(len(smallest), 2 * len(chunks))
    return smallest


def describe_manner(judged: StateJudgement) -> str:
    """Return in which way a state fails: its kinds of loss.

    If it did not come back, also the reason without its numbers, whose first line says
    which part did not come back, and whose second line says why.
    """
    words = _NUMBERS.sub("#", " ".join(judged.reason.splitlines()[:2]))
    kinds = sorted(judged.losses)
    return f"{kinds} {words}" if "unrecoverable" in kinds else str(kinds)


def group_by_manner(failed: Iterable[Line], timeline: Timeline) -> list[list[Line]]:
    """Return the failed states, grouped by manner; the largest group comes first.

    In each group the state that lacks the fewest bytes comes first.
    """
    groups: dict[str, list[Line]] = {}
    for line in failed:
        groups.setdefault(describe_manner(line.judgement), []).append(line)

    def count_lost_bytes(line: Line) -> int:
        parts = chain(*timeline.lost(line.state))
        return sum(length for _, _, length in parts)

    in_order = sorted(groups.values(), key=len, reverse=True)
    return [sorted(group, key=count_lost_bytes) for group in in_order]


class Reduction:
    """Reduces one state that fails, on one lab.

    tries: how many states were judged for the reduction.
    stopped: the reduction ended early, so a state that lacks less may fail, too.
    """

    def __init__(
        self, oracle: Oracle, timeline: Timeline, ended: Callable[[], bool]
    ) -> None:
        """ended: returns whether the labs are to end, which ends the reduction."""
        self._oracle, self._timeline, self._ended = oracle, timeline, ended
        self._until_s = time.monotonic() + TRY_S
        self._judgements: dict[object, StateJudgement] = {}
        self.tries, self.stopped = 0, False

    def judged(self, state: CrashState) -> StateJudgement:
        """Judge *state*, once."""
        if state.drives not in self._judgements:
            self.tries += 1
            self._judgements[state.drives] = self._oracle.judge(state)
        return self._judgements[state.drives]

    def reduce(self, state: CrashState, manner: str) -> CrashState:
        """Return a state that lacks as little as possible and fails in that manner.

        A state that lacks less may be of a later cut, by which more had been written.
        If the state of that cut that has all later writes fails in that manner, it is
        returned; else the smaller state is reduced in turn.
        """

        def fails(tried: CrashState) -> bool:
            is_late = time.monotonic() > self._until_s
            if self._ended() or is_late or self.tries >= TRIES_MAX:
                self.stopped = True
                return False
            judgement = self.judged(tried)
            return (
                judgement.verdict is Verdict.FAIL
                and describe_manner(judgement) == manner
            )

        while True:
            lost = self._find_smallest_loss(state, fails)
            smaller = self._make_state_without(state.moment, lost)
            if smaller.moment == state.moment:
                return smaller
            at_last = self._make_state_without(
                self._timeline.find_last_moment(lost), lost
            )
            if fails(at_last):
                return at_last
            state = smaller

    def _find_smallest_loss(
        self, state: CrashState, fails: Callable[[CrashState], bool]
    ) -> list[Lost]:
        """Return the fewest parts that *state* lacks with which its moment still fails.

        First the state that lacks nothing is tried, then fewer whole writes, then fewer
        parts of these writes.
        """

        def fails_without(groups: Sequence[Sequence[Lost]]) -> bool:
            return fails(self._make_state_without(state.moment, chain(*groups)))

        if fails_without([]):
            return []
        by_write: dict[tuple[int, int], list[Lost]] = {}
        for drive, parts in enumerate(self._timeline.lost(state)):
            for part in parts:
                by_write.setdefault((drive, part[0]), []).append((drive, part))
        writes = find_smallest(list(by_write.values()), fails_without)
        pieces = find_smallest(
            [[each] for group in writes for each in group], fails_without
        )
        return [each for group in pieces for each in group]

    def _make_state_without(self, moment: int, lost: Iterable[Lost]) -> CrashState:
        by_drive: list[list[Part]] = [[] for _ in self._timeline.recordings]
        for drive, part in lost:
            by_drive[drive].append(part)
        return self._timeline.without(moment, by_drive)
