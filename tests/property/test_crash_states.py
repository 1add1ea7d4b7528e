"""Crash states are those that a cut could leave, each judged at its last moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbcheck.explore.opened import compute_coverage
from dbcheck.explore.states import KINDS, Timeline, draw_by_name, draw_states
from dbcheck.model.cut import CrashState
from tests.kit.recordings import Came, Flushed, recording_of

Events = list[Came | Flushed]


@st.composite
def histories(draw: st.DrawFn, first_us: int = 1, step: int = 1) -> Events:
    """Writes and flushes; a flush covers what had come when it arrived, not later."""
    events: Events = []
    at_us, writes, arrived = first_us, 0, list[int]()
    for kind in draw(st.lists(st.sampled_from("wwwbe"), max_size=25)):
        at_us += step * draw(st.integers(1, 3))
        if kind == "w":
            sector, count = draw(st.integers(0, 8)), draw(st.integers(1, 4))
            events.append(Came(at_us, sector * 512, count * 512))
            writes += 1
        elif kind == "b":
            arrived.append(writes)
        elif arrived:
            events.append(Flushed(at_us, arrived.pop(0)))
    return events


def timeline(
    drives: Sequence[Events], *, honest: bool = True, since_us: int = 0
) -> Timeline:
    end_us = max((event.at_us for events in drives for event in events), default=1) + 1
    with TemporaryDirectory() as folder:
        recordings = [
            recording_of(events, end_us, Path(folder, f"{number}.drive"))
            for number, events in enumerate(drives)
        ]
    return Timeline(recordings, honest=honest, since_us=since_us)


def bounds(events: Events, before_us: int) -> tuple[int, int]:
    """Return how many writes were stable, and had come, just before that time."""
    past = [event for event in events if event.at_us < before_us]
    covered = [event.covered for event in past if isinstance(event, Flushed)]
    return max(covered, default=0), sum(isinstance(event, Came) for event in past)


def is_legal(state: CrashState, drives: Sequence[Events], before_us: int) -> bool:
    """Say whether a cut just before that time could leave *state*."""
    for (whole, parts), events in zip(state.drives, drives, strict=True):
        stable, arrived = bounds(events, before_us)
        newest = max((write for write, *_ in parts), default=whole - 1)
        if whole < stable or newest >= arrived:
            return False
    return True


def ends(drives: Sequence[Events]) -> list[int]:
    """Return the times at which flushes end, and the end of all."""
    times = {e.at_us for events in drives for e in events if isinstance(e, Flushed)}
    last = max((event.at_us for events in drives for event in events), default=1) + 1
    return sorted({*times, last})


def check(drawn: CrashState, drives: Sequence[Events], line: Timeline) -> None:
    at_us = line.moments[drawn.moment].time_us
    assert is_legal(drawn, drives, at_us)
    later = [time_us for time_us in ends(drives) if time_us > at_us]
    assert not any(is_legal(drawn, drives, time_us) for time_us in later)
    assert line.without(drawn.moment, line.lost(drawn)) == drawn


@given(histories(), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_a_state_is_one_that_a_cut_leaves_and_no_later_one_does(
    events: Events, seed: int, kind: str
) -> None:
    line = timeline([events])
    for moment in range(len(line.moments)):
        check(line.drawn(moment, [kind], seed), [events], line)


def of_two(line: Timeline, seed: int) -> Iterator[tuple[int, CrashState]]:
    """Yield a state of two drives for each moment, with the moment."""
    kinds = (*KINDS, "all")
    for moment in range(len(line.moments)):
        of_both = [kinds[(seed + moment) % 10], kinds[(seed // 10 + moment) % 10]]
        yield moment, line.drawn(moment, of_both, seed)


@given(
    histories(first_us=0, step=2), histories(first_us=1, step=2), st.integers(0, 2**32)
)
def test_drives_with_caches_of_their_own_lose_writes_of_one_moment(
    data: Events, log: Events, seed: int
) -> None:
    line = timeline([data, log])
    for _, state in of_two(line, seed):
        check(state, [data, log], line)


@given(histories(), histories(), st.integers(0, 2**32))
def test_flushes_of_two_drives_that_end_at_once_make_no_state_too_early(
    data: Events, log: Events, seed: int
) -> None:
    """Which of them was first is not known, and a state is legal either way."""
    line = timeline([data, log])
    for moment, state in of_two(line, seed):
        assert state.moment >= moment
        assert is_legal(state, [data, log], line.moments[state.moment].time_us)


@given(histories())
def test_a_drive_that_lies_may_lose_each_write_until_the_end(events: Events) -> None:
    line = timeline([events], honest=False)
    for moment in range(len(line.moments)):
        state = line.drawn(moment, ["none"], 1)
        assert state == CrashState(len(line.moments) - 1, ((0, ()),))


@settings(max_examples=20)  # each ends only once 3,000 draws gave nothing new
@given(histories(), st.integers(0, 1000))
def test_states_are_named_so_that_they_come_again_and_none_comes_twice(
    events: Events, seed: int
) -> None:
    line = timeline([events])
    risks = [moment.writes for moment in line.moments]
    found = list(islice(draw_states(line, risks, [0], seed), 30))
    assert found == list(islice(draw_states(line, risks, [0], seed), 30))
    assert len({state.drives for _, state in found}) == len(found)
    for name, state in found:
        assert draw_by_name(line, name) == state


@given(histories())
def test_all_states_of_whole_writes_are_counted(events: Events) -> None:
    line = timeline([events])
    possible = set()
    for moment in line.moments:
        (held,) = moment.drives
        numbers = range(held.stable, held.arrived)
        if len(numbers) > 6:
            return
        for chosen in range(1 << len(numbers)):
            lost = [
                (number, 0, line.recordings[0].lengths[number])
                for bit, number in enumerate(numbers)
                if chosen >> bit & 1
            ]
            possible.add(line.without(line.moments.index(moment), [lost]).drives)
    seen = compute_coverage(line, [])
    assert seen.possible is not None
    assert round(10**seen.possible) == len(possible)


@pytest.mark.parametrize(
    "name", ["", "finding-1", "0", "0.none", "0.none.x", "9.none.1", "0.some.1"]
)
def test_other_names_name_no_state(name: str) -> None:
    line = timeline([[Came(1, 0, 512)]])
    assert draw_by_name(line, "0.none.1") is not None
    assert draw_by_name(line, name) is None


def test_what_came_before_the_load_is_no_moment_to_judge() -> None:
    events: Events = [Came(1, 0, 512), Flushed(3, 1), Came(5, 0, 512), Flushed(8, 2)]
    assert [m.time_us for m in timeline([events]).moments] == [3, 8, 9]
    assert [m.time_us for m in timeline([events], since_us=4).moments] == [8, 9]
    # What the first flush made stable stays so.
    assert timeline([events], since_us=4).drawn(0, ["none"], 1).drives == ((1, ()),)
