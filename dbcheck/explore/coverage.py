"""Counts how much of what a cut could have left was looked at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from dbcheck.explore.states import Timeline
from dbcheck.judge.results import Coverage
from dbcheck.model.cut import CrashState


def coverage(timeline: Timeline, states: Iterable[CrashState]) -> Coverage:
    """Return what *states*, which were judged, cover of *timeline*."""
    visited: set[int] = set()
    lost: set[tuple[int, int]] = set()
    whole = 0
    for state in states:
        visited.add(state.moment)
        lacking = timeline.lost(state)
        lost.update(
            (drive, write) for drive, parts in enumerate(lacking) for write, *_ in parts
        )
        whole += _is_of_whole_writes(timeline, state)
    drives = range(len(timeline.recordings))
    return Coverage(
        moments=len(timeline.moments),
        visited=len(visited),
        at_risk=max(moment.writes for moment in timeline.moments),
        writes=sum(_writes(timeline, drive) for drive in drives),
        lost=len(lost),
        possible=_possible(timeline) if len(drives) == 1 else None,
        whole=whole,
    )


def _writes(timeline: Timeline, drive: int) -> int:
    """Return how many writes of a drive could be lost at any moment."""
    found: set[int] = set()
    for moment in timeline.moments:
        held = moment.drives[drive]
        found.update(range(held.stable, held.arrived))
    return len(found)


def _is_of_whole_writes(timeline: Timeline, state: CrashState) -> bool:
    return all(
        begin == 0 and length == recording.lengths[write]
        for recording, (_, parts) in zip(timeline.recordings, state.drives, strict=True)
        for write, begin, length in parts
    )


def _possible(timeline: Timeline) -> float:
    """Return the number of states of whole writes of the one drive, its logarithm.

    The first write that a state lacks decides at which moment it is judged; each later
    write that had come by then is there or not.
    """
    later: Counter[int] = Counter()
    for moment in timeline.moments:
        (held,) = moment.drives
        for first in range(held.stable, held.arrived):
            later[first] = held.arrived - first - 1
    count = 1 + sum(1 << writes for writes in later.values())
    return _log10(count)


def _log10(count: int) -> float:
    """Return the logarithm of an integer of any size."""
    shift = max(0, count.bit_length() - 64)
    return math.log10(count >> shift) + shift * math.log10(2)
