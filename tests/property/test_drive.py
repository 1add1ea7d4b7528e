"""The model of a drive: what a flush promises and what a cut takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.lab.drive.model import Drive, DriveState, Mark, choose_surviving_parts
from dbcheck.lab.spec import KEPT_WRITES, PERSONALITIES, SECTOR_BYTES, DriveSpec

SIZE = 1 << 20
SECTORS = 12  # of the drive are used, so that writes overlap


def make(personality: str = "honest", age_s: float = 0.0, cache: int = SIZE) -> Drive:
    return Drive(
        DriveSpec(
            personality=personality,
            size_bytes=SIZE,
            destage_age_s=age_s,
            cache_bytes=cache,
        )
    )


def flush(drive: Drive) -> None:
    drive.end_flush(drive.begin_flush(), 0.0)


def content(drive: Drive) -> bytes:
    return bytes(drive.read(0, SECTORS * SECTOR_BYTES))


@dataclass(frozen=True)
class Write:
    """Fill whole sectors with one value."""

    sector: int
    count: int
    value: int

    def to(self, drive: Drive, now: float = 0.0) -> None:
        data = bytes([self.value]) * (self.count * SECTOR_BYTES)
        drive.write(self.sector * SECTOR_BYTES, data, now)

    @property
    def sectors(self) -> range:
        return range(self.sector, self.sector + self.count)


@dataclass(frozen=True)
class Begin:
    """A flush arrives."""


@dataclass(frozen=True)
class End:
    """The flush that arrived first is answered."""


Step = Write | Begin | End
writes = st.builds(
    Write, st.integers(0, SECTORS - 4), st.integers(1, 4), st.integers(1, 255)
)
histories = st.lists(st.one_of(writes, st.just(Begin()), st.just(End())), max_size=30)
seeds = st.integers(0, 2**32)


def play(drive: Drive, history: Sequence[Step]) -> list[list[int]]:
    """Apply *history*; return for each sector what an honest drive may hold.

    The first value is the one that the last completed flush made stable; each later
    one was written after that flush arrived.
    """
    legal = [[0] for _ in range(SECTORS)]
    flights: list[tuple[Mark, list[int]]] = []
    for step in history:
        if isinstance(step, Write):
            step.to(drive)
            for sector in step.sectors:
                legal[sector].append(step.value)
        elif isinstance(step, Begin):
            flights.append((drive.begin_flush(), [len(v) for v in legal]))
        elif flights:
            mark, lengths = flights.pop(0)
            drive.end_flush(mark, 0.0)
            for values, length in zip(legal, lengths, strict=True):
                del values[: length - 1]
            gone = [length - 1 for length in lengths]
            flights = [
                (m, [a - b for a, b in zip(later, gone, strict=True)])
                for m, later in flights
            ]
    return legal


@given(histories, st.sampled_from(KEPT_WRITES), seeds)
def test_a_sector_holds_what_was_written_at_or_after_its_last_flush(
    history: list[Step], kept_writes: str, seed: int
) -> None:
    drive = make()
    legal = play(drive, history)
    drive.cut(0.0, kept_writes, seed)
    after = content(drive)
    for sector, values in enumerate(legal):
        held = after[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]
        assert len(set(held)) == 1, "a sector is written whole or not at all"
        assert held[0] in values


@given(histories)
def test_without_survivors_exactly_the_flushed_is_left(history: list[Step]) -> None:
    drive = make()
    legal = play(drive, history)
    drive.cut(0.0, "none", 0)
    assert content(drive)[::SECTOR_BYTES] == bytes(values[0] for values in legal)


@given(histories)
def test_a_lying_drive_loses_everything_flushed_or_not(history: list[Step]) -> None:
    drive = make("lying")
    play(drive, history)
    drive.cut(0.0, "none", 0)
    assert not any(content(drive))


@given(histories, st.sampled_from(PERSONALITIES), seeds)
def test_if_all_survives_a_cut_changes_nothing(
    history: list[Step], personality: str, seed: int
) -> None:
    drive = make(personality)
    play(drive, history)
    before = content(drive)
    report = drive.cut(0.0, "all", seed)
    assert content(drive) == before
    assert report.lost_sectors == 0


@given(histories, st.sampled_from(KEPT_WRITES), seeds)
def test_a_write_through_drive_loses_nothing(
    history: list[Step], kept_writes: str, seed: int
) -> None:
    drive = make("write-through")
    play(drive, history)
    before = content(drive)
    assert drive.cut(0.0, kept_writes, seed).cached_writes == 0
    assert content(drive) == before


@given(histories, st.sampled_from(KEPT_WRITES), seeds)
def test_the_same_seed_leaves_the_same(
    history: list[Step], kept_writes: str, seed: int
) -> None:
    drives = make(), make()
    reports = []
    for drive in drives:
        play(drive, history)
        reports.append(drive.cut(0.0, kept_writes, seed))
    assert content(drives[0]) == content(drives[1])
    assert reports[0] == reports[1]


@given(histories, st.sampled_from(KEPT_WRITES), seeds)
def test_a_report_counts_every_cached_sector_once(
    history: list[Step], kept_writes: str, seed: int
) -> None:
    drive = make()
    play(drive, history)
    cached = drive.counters(0.0).cached_bytes
    report = drive.cut(0.0, kept_writes, seed)
    assert report.cached_bytes == cached
    assert (report.kept_sectors + report.lost_sectors) * SECTOR_BYTES == cached
    assert drive.counters(0.0).cached_bytes == 0


@given(histories, histories, st.sampled_from(KEPT_WRITES), seeds)
def test_a_drive_goes_on_after_a_cut_as_a_drive_with_that_content(
    first: list[Step], second: list[Step], kept_writes: str, seed: int
) -> None:
    drive = make()
    play(drive, first)
    drive.cut(0.0, kept_writes, seed)
    drive.power_on()
    twin = make()
    twin.write(0, content(drive), 0.0)
    twin.flush_all()
    for one in (drive, twin):
        play(one, second)
        one.cut(0.0, kept_writes, seed)
    assert content(drive) == content(twin)


@given(st.lists(st.integers(1, 255), min_size=1, max_size=8, unique=True), seeds)
def test_the_newest_survivor_of_a_sector_is_the_one_that_is_read(
    values: list[int], seed: int
) -> None:
    drive = make()
    for value in values:
        Write(0, 1, value).to(drive)
    blocks = [(0, bytes([value]) * SECTOR_BYTES) for value in values]
    left = [
        each
        for of_one in choose_surviving_parts("random", blocks, seed)
        for each in of_one
    ]
    kept_writes = [block[0] for _, block in left]
    drive.cut(0.0, "random", seed)
    assert content(drive)[0] == (kept_writes[-1] if kept_writes else 0)


def test_a_flush_does_not_cover_what_came_after_it_arrived() -> None:
    drive = make()
    Write(0, 1, 1).to(drive)
    mark = drive.begin_flush()
    Write(1, 1, 2).to(drive)
    drive.end_flush(mark, 0.0)
    drive.cut(0.0, "none", 0)
    assert content(drive)[::SECTOR_BYTES] == bytes([1, *[0] * (SECTORS - 1)])


def test_an_old_write_becomes_stable_by_itself() -> None:
    drive = make("lying", age_s=1.0)
    Write(0, 1, 1).to(drive, now=10.0)
    Write(1, 1, 2).to(drive, now=10.5)
    drive.cut(11.0, "none", 0)
    assert content(drive)[: 2 * SECTOR_BYTES : SECTOR_BYTES] == bytes([1, 0])


def test_time_without_power_makes_nothing_stable() -> None:
    drive = make("lying", age_s=1.0)
    Write(0, 1, 1).to(drive, now=10.0)
    drive.freeze(10.5)
    drive.freeze(99.0)
    drive.fail()
    assert drive.counters(99.0).cached_writes == 1
    assert drive.cut(99.0, "none", 0).lost_sectors == 1


def test_a_full_cache_destages_the_oldest() -> None:
    drive = make(cache=2 * SECTOR_BYTES)
    for sector in range(3):
        Write(sector, 1, sector + 1).to(drive)
    assert drive.counters(0.0).cached_writes == 2
    drive.cut(0.0, "none", 0)
    assert content(drive)[: 3 * SECTOR_BYTES : SECTOR_BYTES] == bytes([1, 0, 0])


def test_a_cut_turns_the_drive_away_from_on_until_it_is_powered() -> None:
    drive = make()
    states: list[DriveState] = []
    for step in (
        lambda: drive.cut(0.0, "none", 0),
        drive.fail,
        lambda: drive.cut(0.0, "none", 0),
        drive.power_on,
    ):
        step()
        states.append(drive.state)
    on, frozen, off = DriveState.ON, DriveState.FROZEN, DriveState.OFF
    assert states == [frozen, off, off, on]


def test_settled_writes_survive_a_lying_drive() -> None:
    drive = make("lying")
    Write(3, 2, 7).to(drive)
    drive.flush_all()
    drive.cut(0.0, "none", 0)
    assert content(drive)[3 * SECTOR_BYTES : 5 * SECTOR_BYTES] == b"\7" * 1024


def test_counters_tell_an_honest_drive_from_a_lying_one() -> None:
    for personality, honoured in (("honest", 2), ("lying", 0), ("write-through", 2)):
        drive = make(personality)
        Write(0, 2, 1).to(drive)
        flush(drive)
        flush(drive)
        drive.read(0, 1)
        counters = drive.counters(0.0)
        assert (counters.reads, counters.writes) == (1, 1)
        assert counters.write_bytes == 2 * SECTOR_BYTES
        assert (counters.flushes, counters.flushes_honoured) == (2, honoured)


def test_zeros_are_written_only_where_something_is() -> None:
    drive = make()
    Write(0, 4, 9).to(drive)
    drive.flush_all()
    drive.zero(0, SIZE, 0.0)
    assert not any(content(drive))
    assert drive.counters(0.0).cached_writes == 1
    drive.zero(0, SIZE, 0.0)
    assert drive.counters(0.0).cached_writes == 1
    drive.cut(0.0, "none", 0)
    assert content(drive)[: 4 * SECTOR_BYTES] == b"\11" * (4 * SECTOR_BYTES)


def test_a_write_beyond_the_end_is_refused_and_changes_nothing() -> None:
    drive = make()
    with pytest.raises(ValueError, match="lvalue and rvalue"):
        drive.write(SIZE - 1, b"ab", 0.0)
    assert drive.counters(0.0).writes == drive.counters(0.0).cached_writes == 0
    assert bytes(drive.read(SIZE - 1, 5)) == b"\0"
