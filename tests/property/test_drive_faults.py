"""Drives with one fault, beside a model so plain that it can be read at a glance.

The plain model keeps every write for ever, in pieces of one sector, with a note of
whether it is stable; a cut plays the stable ones again, in order, on an empty drive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab.drive.model import Drive, Mark
from dbcheck.lab.spec import KEPT_WRITES, SECTOR_BYTES, DriveSpec
from tests.kit.refusals import refused

SIZE = 1 << 20
SECTORS = 80  # of the drive are used, so that writes overlap
FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "lying": {"personality": "lying"},
    "write-through": {"personality": "write-through"},
    "reordering": {"personality": "reordering", "newest_bytes": 8192},
    "reordering, one write": {"personality": "reordering", "newest_bytes": 0},
    "failing": {"personality": "failing", "honest_flushes": 2},
    "above 4096": {"lost_above_bytes": 4096},
    "above 16384": {"lost_above_bytes": 16384},
    "above 4096, no cache": {
        "personality": "write-through",
        "lost_above_bytes": 4096,
    },
    "torn at 512": {"tear_bytes": 512},
    "torn at 4096": {"tear_bytes": 4096},
    "torn at 16384": {"tear_bytes": 16384},
    "torn at 4096, no cache": {"personality": "write-through", "tear_bytes": 4096},
    "forgets": {"forget_at_bytes": 8 * SECTOR_BYTES, "forget_bytes": 4096},
}


@dataclass(frozen=True)
class Write:
    """Fill whole sectors with one value."""

    sector: int
    count: int
    value: int


@dataclass(frozen=True)
class Begin:
    """A flush arrives."""


@dataclass(frozen=True)
class End:
    """The flush that arrived first is answered."""


Step = Write | Begin | End
writes = st.builds(
    Write,
    st.integers(0, SECTORS - 40),
    st.sampled_from([1, 2, 7, 8, 9, 16, 31, 32, 33, 40]),
    st.integers(1, 255),
)
histories = st.lists(st.one_of(writes, st.just(Begin()), st.just(End())), max_size=25)
faults = st.sampled_from(sorted(FAULTS))
seeds = st.integers(0, 2**32)


def spec_of(fault: str) -> DriveSpec:
    return replace(DriveSpec(size_bytes=SIZE, destage_age_s=0), **FAULTS[fault])


def play(drive: Drive, history: Sequence[Step]) -> None:
    marks: list[Mark] = []
    for step in history:
        if isinstance(step, Write):
            data = bytes([step.value]) * (step.count * SECTOR_BYTES)
            drive.write(step.sector * SECTOR_BYTES, data, 0.0)
        elif isinstance(step, Begin):
            marks.append(drive.begin_flush())
        elif marks:
            drive.end_flush(marks.pop(0), 0.0)


def played(fault: str, history: Sequence[Step]) -> Drive:
    drive = Drive(spec_of(fault))
    drive.count_flushes()
    play(drive, history)
    return drive


def content(drive: Drive) -> bytes:
    return bytes(drive.read(0, SECTORS * SECTOR_BYTES))[::SECTOR_BYTES]


@dataclass
class Plain:
    """The plain model; each write: (its sectors, its value, those that are stable)."""

    spec: DriveSpec
    writes: list[tuple[range, int, set[int]]] = field(default_factory=list)
    flights: list[int] = field(default_factory=list)
    flushes: int = 0
    flushed: int = 0  # writes that came before a flush

    def about(self, of: range) -> set[int]:
        """Return the sectors of a write that this drive's flush is about."""
        spec = self.spec
        if spec.lost_above_bytes and len(of) * SECTOR_BYTES > spec.lost_above_bytes:
            return set()
        unit = spec.tear_bytes // SECTOR_BYTES
        return {one for one in of if not unit or one // unit == of[0] // unit}

    def play(self, history: Sequence[Step]) -> None:
        for step in history:
            if isinstance(step, Write):
                of = range(step.sector, step.sector + step.count)
                through = self.spec.personality == "write-through"
                stable = self.about(of) if through else set()
                self.writes.append((of, step.value, stable))
            elif isinstance(step, Begin):
                self.flights.append(len(self.writes))
            elif self.flights:
                self.flush(self.flights.pop(0))

    def flush(self, arrived: int) -> None:
        self.flushes += 1
        kind, honest = self.spec.personality, self.spec.honest_flushes
        if kind == "lying" or (kind == "failing" and self.flushes > honest):
            return
        first = 0
        if kind == "reordering":
            first, room = arrived, self.spec.newest_bytes // SECTOR_BYTES
            while first > self.flushed:
                room -= len(self.writes[first - 1][0])
                if room < 0 and first < arrived:
                    break
                first -= 1
        self.flushed = max(self.flushed, arrived)
        for of, _, stable in self.writes[first:arrived]:
            stable |= self.about(of)

    def left(self) -> bytes:
        """Return what a cut leaves of which nothing survives by chance."""
        held = bytearray(SECTORS)
        for _, value, stable in self.writes:
            for sector in stable:
                held[sector] = value
        first = self.spec.forget_at_bytes // SECTOR_BYTES
        count = self.spec.forget_bytes // SECTOR_BYTES
        held[first : first + count] = bytes(count)
        return bytes(held)


@pytest.mark.parametrize("fault", FAULTS)
@given(histories)
def test_a_cut_leaves_what_the_plain_model_says(
    fault: str, history: list[Step]
) -> None:
    drive = played(fault, history)
    plain = Plain(spec_of(fault))
    plain.play(history)
    drive.cut(0.0, "none", 0)
    assert content(drive) == plain.left()


@given(faults, histories, st.sampled_from(KEPT_WRITES), seeds)
def test_no_survivor_comes_over_a_newer_stable_write(
    fault: str, history: list[Step], kept_writes: str, seed: int
) -> None:
    drive = played(fault, history)
    plain = Plain(spec_of(fault))
    plain.play(history)
    drive.cut(0.0, kept_writes, seed)
    first = plain.spec.forget_at_bytes // SECTOR_BYTES
    forgotten = range(first, first + plain.spec.forget_bytes // SECTOR_BYTES)
    for sector, held in enumerate(content(drive)):
        legal = [0]
        for of, value, stable in plain.writes:
            if sector in of:
                legal = [value] if sector in stable else [*legal, value]
        assert held in ([0] if sector in forgotten else legal)


@pytest.mark.parametrize("fault", FAULTS)
@given(histories, st.sampled_from(KEPT_WRITES), seeds)
def test_a_report_counts_every_sector_at_risk_once(
    fault: str, history: list[Step], kept_writes: str, seed: int
) -> None:
    drive = played(fault, history)
    counters = drive.counters(0.0)
    report = drive.cut(0.0, kept_writes, seed)
    assert report.cached_bytes == counters.cached_bytes
    assert report.cached_writes == counters.cached_writes
    at_risk = (report.kept_sectors + report.lost_sectors) * SECTOR_BYTES
    assert at_risk == report.cached_bytes
    assert drive.counters(0.0).cached_bytes == drive.counters(0.0).cached_writes == 0


@given(faults, histories)
def test_what_was_settled_by_hand_is_stable_whatever_the_fault(
    fault: str, history: list[Step]
) -> None:
    drive = played(fault, history)
    before = content(drive)
    drive.flush_all()
    assert not (drive._cache or drive._settled or drive._spared)
    drive.cut(0.0, "none", 0)
    if fault == "forgets":
        before = before[:8] + bytes(8) + before[16:]
    assert content(drive) == before


@given(faults, histories, histories)
def test_a_drive_with_a_fault_goes_on_after_a_cut(
    fault: str, first: list[Step], second: list[Step]
) -> None:
    drive, twin = played(fault, first), Drive(spec_of(fault))
    drive.cut(0.0, "none", 0)
    drive.power_on()
    for sector, value in enumerate(content(drive)):
        twin.write(sector * SECTOR_BYTES, bytes([value]) * SECTOR_BYTES, 0.0)
    twin.flush_all()
    for one in (drive, twin):
        one.count_flushes()
        play(one, second)
        one.cut(0.0, "none", 0)
    assert content(drive) == content(twin)


@pytest.mark.parametrize("fault", ["above 4096", "torn at 4096", "reordering"])
def test_what_waits_behind_a_write_at_risk_takes_room_in_the_cache(fault: str) -> None:
    """However long a drive is used, it holds no more than its cache."""
    drive = Drive(replace(spec_of(fault), cache_bytes=40 * SECTOR_BYTES))
    play(drive, [Write(0, 9, 1), Write(16, 16, 2)])
    for value in range(3, 50):
        play(drive, [Write(40, 1, value), Begin(), End()])
        held = sum(len(after) for _, _, _, after in drive._cache)
        assert drive.counters(0.0).cached_bytes <= held <= 40 * SECTOR_BYTES
    assert drive.counters(0.0).cached_bytes == 0, "the oldest were destaged"


def flush(drive: Drive) -> None:
    drive.end_flush(drive.begin_flush(), 0.0)


@pytest.mark.parametrize(
    ("fault", "honoured"),
    [("none", 3), ("above 4096", 1), ("torn at 4096", 1), ("reordering", 2)],
)
def test_a_flush_is_honoured_if_nothing_older_is_left(
    fault: str, honoured: int
) -> None:
    drive = Drive(spec_of(fault))
    for steps in ([Write(0, 1, 1)], [Write(8, 9, 2)], [Write(0, 9, 3), Write(9, 9, 4)]):
        play(drive, steps)
        flush(drive)
    counters = drive.counters(0.0)
    assert (counters.flushes, counters.flushes_honoured) == (3, honoured)


def test_an_aged_write_is_stable_though_no_flush_was_about_it() -> None:
    drive = Drive(replace(spec_of("above 4096"), destage_age_s=1.0))
    drive.write(0, b"a" * 8192, 0.0)
    drive.write(8192, b"b" * 512, 0.9)
    flush(drive)
    drive.write(16384, b"c" * 8192, 0.9)
    assert drive.counters(1.0).cached_writes == 1
    drive.cut(1.0, "none", 0)
    assert bytes(drive.read(0, 1)) + bytes(drive.read(8192, 1)) == b"ab"
    assert bytes(drive.read(16384, 1)) == b"\0"


def test_a_failing_drive_keeps_all_until_it_counts_and_again_after_a_cut() -> None:
    drive = Drive(spec_of("failing"))
    honoured = []
    for start in (drive.count_flushes, drive.power_on):
        for _ in range(5):
            flush(drive)
        start()
        for _ in range(5):
            flush(drive)
        honoured.append(drive.counters(0.0).flushes_honoured)
        drive.cut(0.0, "none", 0)
    assert honoured == [5 + 2, 5 + 2 + 5]


@pytest.mark.parametrize(
    ("change", "says", "id"),
    [
        (
            {"forget_at_bytes": SIZE, "forget_bytes": 512},
            "cannot forget",
            ErrorId.DRIVE_RANGE_INVALID,
        ),
        ({"forget_bytes": 100}, "forget_bytes is 100", ErrorId.VALUE_INVALID),
        ({"tear_bytes": 700}, "tear_bytes is 700", ErrorId.VALUE_INVALID),
        ({"lost_above_bytes": -1}, "lost_above_bytes is -1", ErrorId.VALUE_INVALID),
        ({"honest_flushes": 1.5}, "honest_flushes is 1.5", ErrorId.VALUE_INVALID),
    ],
)
def test_a_fault_that_no_drive_can_have_is_refused(
    change: dict[str, Any], says: str, id: ErrorId
) -> None:
    with refused(id, UsageError, naming=says):
        replace(DriveSpec(size_bytes=SIZE), **change)
