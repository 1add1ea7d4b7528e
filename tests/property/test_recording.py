"""A drive's recording and its replay: all that was asked, and no other state."""

from __future__ import annotations

import json
import sys
import zipfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.drive import recording as module
from dbcheck.lab.drive.model import Drive, Mark
from dbcheck.lab.drive.recording import Recorder, Recording
from dbcheck.lab.drive.replay import Replay
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cut import Part
from tests.kit.refusals import refused

SIZE = 1 << 20
USED = 4096  # bytes of the drive, so that writes overlap
FAULTS: tuple[dict[str, object], ...] = (
    {},
    {"tear_bytes": 512},
    {"lost_above_bytes": 700},
    {"personality": "lying"},
)


@dataclass(frozen=True)
class Write:
    """Fill bytes with one value, 0 for a request to zero them."""

    offset: int
    length: int
    value: int


@dataclass(frozen=True)
class Begin:
    """A flush arrives."""


@dataclass(frozen=True)
class End:
    """One of the flushes under way is answered."""

    which: int


Step = Write | Begin | End
writes = st.builds(
    Write, st.integers(0, USED - 1024), st.integers(1, 1024), st.integers(0, 255)
)
ends = st.builds(End, st.integers(0, 3))
histories = st.lists(st.one_of(writes, st.just(Begin()), ends), max_size=25)


HISTORY: list[Step] = [
    Write(0, 512, 1),
    Begin(),
    Write(256, 512, 2),
    End(0),
    Write(0, 9, 3),
    Begin(),
    End(0),
]


@dataclass
class Asked:
    """What a drive was asked, noted beside it."""

    base: bytes = b""
    writes: list[tuple[int, int, bytes]] = field(default_factory=list)
    flushes: list[tuple[int, int, int]] = field(default_factory=list)
    under_way: list[tuple[Mark, int]] = field(default_factory=list)
    now_us: int = 1_000_000

    def play(self, drive: Drive, history: Sequence[Step]) -> None:
        """Apply *history*; each step takes two microseconds."""
        for step in history:
            self.now_us += 2
            if isinstance(step, Write):
                self._write(drive, step)
            elif isinstance(step, Begin):
                self.under_way.append((drive.begin_flush(), len(self.writes)))
            elif self.under_way:
                mark, covered = self.under_way.pop(step.which % len(self.under_way))
                drive.end_flush(mark, self.now_s)
                self.flushes.append((self.now_us, covered, len(self.writes)))

    @property
    def now_s(self) -> float:
        return (self.now_us + 0.5) / 1e6

    def _write(self, drive: Drive, write: Write) -> None:
        content = bytes([write.value]) * write.length
        if write.value:
            drive.write(write.offset, content, self.now_s)
        else:
            before = bytes(drive.read(write.offset, write.length))
            drive.zero(write.offset, write.length, self.now_s)
            if before == content:  # the drive skips it
                return
        self.writes.append((self.now_us, write.offset, content))

    def record(self, drive: Drive) -> None:
        """Begin anew; flushes that are under way cover nothing of what will come."""
        drive.record(self.now_s)
        self.base = bytes(drive.read(0, SIZE))
        self.writes, self.flushes = [], []
        self.under_way = [(mark, 0) for mark, _ in self.under_way]

    def state(self, whole: int, parts: Sequence[Part] = ()) -> bytes:
        """Return what a drive holds that has so much of the writes."""
        drive = bytearray(self.base)
        for _, offset, content in self.writes[:whole]:
            drive[offset : offset + len(content)] = content
        for number, begin, length in parts:
            _, offset, content = self.writes[number]
            start = offset + begin
            drive[start : start + length] = content[begin : begin + length]
        return bytes(drive)


def stored(recorder: Recorder | None, path: Path) -> Recording:
    assert recorder is not None
    with path.open("wb") as file:
        recorder.save(file)
    return Recording(path)


@contextmanager
def file_for_it() -> Iterator[Path]:
    """Give a path for each example; tmp_path is one for all of them."""
    with TemporaryDirectory() as folder:
        yield Path(folder, "files.drive")


def recorded(
    before: Sequence[Step], history: Sequence[Step], path: Path, **fault: object
) -> tuple[Asked, Recording]:
    spec = {"size_bytes": SIZE, "destage_age_s": 0.0, **fault}
    drive, asked = Drive(DriveSpec(**spec)), Asked()  # type: ignore[arg-type]
    asked.play(drive, before)
    asked.record(drive)
    began_us = asked.now_us
    asked.play(drive, history)
    asked.now_us += 2
    drive.freeze(asked.now_s)
    recording = stored(drive.recorder, path)
    assert (recording.began_us, recording.ended_us) == (began_us, asked.now_us)
    return asked, recording


def written(recording: Recording) -> list[tuple[int, int, bytes]]:
    found = [recording.write(number) for number in range(len(recording))]
    return [(write.time_us, write.offset, bytes(write.content)) for write in found]


def based(recording: Recording) -> bytes:
    base = bytearray(recording.size_bytes)
    for offset, content in recording.base():
        base[offset : offset + len(content)] = content
    return bytes(base)


@given(histories, histories, st.sampled_from(FAULTS))
@example([], HISTORY, {"tear_bytes": 512})  # the cache has one of its writes in two
@example([*HISTORY, Begin()], [Write(0, 9, 3), End(0)], {})  # it covers none of them
def test_a_recording_has_what_was_asked(
    before: list[Step], history: list[Step], fault: dict[str, object]
) -> None:
    with file_for_it() as path:
        asked, recording = recorded(before, history, path, **fault)
    assert based(recording) == asked.base
    assert written(recording) == asked.writes
    assert recording.flushes == asked.flushes


@given(histories, histories, histories)
def test_what_comes_after_the_power_is_not_recorded(
    history: list[Step], after: list[Step], second: list[Step]
) -> None:
    drive, asked = Drive(DriveSpec(size_bytes=SIZE, destage_age_s=0.0)), Asked()
    for steps in (history, second):
        asked.record(drive)
        asked.play(drive, steps)
        asked.now_us += 2
        drive.freeze(asked.now_s)
        drive.fail()
        asked.under_way.clear()
        drive.power_on()
        late = Asked(now_us=asked.now_us)
        late.play(drive, after)
        asked.now_us = late.now_us
        with file_for_it() as path:
            recording = stored(drive.recorder, path)
        assert written(recording) == asked.writes
        assert recording.flushes == asked.flushes


@st.composite
def shown(draw: st.DrawFn, lengths: list[int]) -> tuple[int, list[Part]]:
    """Draw a crash state of a recording whose writes have *lengths*."""
    whole = draw(st.integers(0, len(lengths)))
    numbers = st.sets(st.integers(whole, len(lengths) - 1), max_size=4)
    parts = []
    for number in sorted(draw(numbers) if whole < len(lengths) else ()):
        begin = draw(st.integers(0, lengths[number] - 1))
        length = draw(st.integers(1, lengths[number] - begin))
        parts.append((number, begin, length))
    return whole, parts


@given(histories, histories, st.lists(histories, min_size=1, max_size=5), st.data())
def test_a_replay_shows_each_state_whatever_came_before(
    before: list[Step],
    history: list[Step],
    foreign: list[list[Step]],
    data: st.DataObject,
) -> None:
    with file_for_it() as path:
        asked, recording = recorded(before, history, path)
    replay = Replay(recording)
    assert bytes(replay.drive.read(0, SIZE)) == asked.base
    lengths = [len(content) for *_, content in asked.writes]
    for recovery in foreign:
        whole, parts = data.draw(shown(lengths))
        replay.show(whole, parts)
        assert bytes(replay.drive.read(0, SIZE)) == asked.state(whole, parts)
        Asked().play(replay.drive, recovery)
        replay.drive.freeze(0.0)
        replay.drive.power_on()


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (-1, []),
        (4, []),
        (1, [(0, 0, 1)]),  # whole already
        (1, [(1, 0, 512), (3, 0, 1)]),
        (1, [(-1, 0, 1)]),
        (1, [(1, 0, 513)]),
        (1, [(1, 512, 1)]),
        (1, [(1, -1, 2)]),
        (1, [(1, 3, 0)]),
        (1, [(1, 3, -1)]),
    ],
)
def test_a_state_that_no_recording_has_is_refused(
    tmp_path: Path, whole: int, parts: list[Part]
) -> None:
    asked, recording = recorded([], HISTORY, tmp_path / "files.drive")
    replay = Replay(recording)
    replay.show(2, [(2, 1, 3)])
    with pytest.raises(ValueError, match=r"the recording has 3 writes|no part"):
        replay.show(whole, parts)
    assert bytes(replay.drive.read(0, SIZE)) == asked.state(2, [(2, 1, 3)])
    replay.show(1, [])
    assert bytes(replay.drive.read(0, SIZE)) == asked.state(1)


@pytest.mark.parametrize(
    "settle", [Drive.flush_all, lambda drive: drive.cut(0.0, "all", 0)]
)
def test_a_replay_whose_states_cannot_be_taken_back_shows_none(
    tmp_path: Path, settle: Callable[[Drive], object]
) -> None:
    _, recording = recorded([], HISTORY, tmp_path / "files.drive")
    replay = Replay(recording)
    replay.show(2, [])
    settle(replay.drive)
    with pytest.raises(ValueError, match="flushed or cut"):
        replay.show(1, [])


# ------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Recording]:
    path = tmp_path_factory.mktemp("sound") / "files.drive"
    _, recording = recorded([Write(9, 99, 9)], HISTORY, path)
    return path.read_bytes(), recording


def same(one: Recording, other: Recording) -> bool:
    return all(
        of(one) == of(other)
        for of in (
            based,
            written,
            lambda r: (r.flushes, r.size_bytes, r.began_us, r.ended_us),
        )
    )


def require_refused_or_same(content: bytes, original: Recording) -> None:
    """As a date in the archive, which nothing reads, may be damaged."""
    with file_for_it() as path:
        path.write_bytes(content)
        try:
            found = Recording(path)
        except LabError as error:
            assert str(path) in str(error)
            return
    assert same(found, original)


@given(st.integers(0), st.integers(1, 255))
def test_a_flipped_byte_is_noticed(
    sound: tuple[bytes, Recording], at: int, flip: int
) -> None:
    content = bytearray(sound[0])
    content[at % len(content)] ^= flip
    require_refused_or_same(bytes(content), sound[1])


@given(st.integers(0))
def test_a_file_cut_short_is_refused(sound: tuple[bytes, Recording], end: int) -> None:
    with file_for_it() as path:
        path.write_bytes(sound[0][: end % len(sound[0])])
        with refused(
            ErrorId.RECORDING_NOT_USABLE,
            LabError,
            naming="damaged or not a drive's recording",
        ):
            Recording(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused(ErrorId.RECORDING_NOT_USABLE, LabError, naming="No such file"):
        Recording(tmp_path / "missing.drive")


FACTS: dict[str, object] = {
    "format": 1,
    "byteorder": sys.byteorder,
    "size_bytes": SIZE,
    "began_us": 10,
    "ended_us": 90,
}
BASE, WRITES = [0, 4, 512, 4], [20, 8, 3, 30, SIZE - 5, 5]
FLUSHES = [25, 1, 1, 40, 2, 2, 40, 0, 2]


def made(
    path: Path,
    base: list[int] = BASE,
    writes: list[int] = WRITES,
    flushes: list[int] = FLUSHES,
    **facts: object,
) -> Recording:
    """Store a recording as the module describes it, and read it."""
    with zipfile.ZipFile(path, "w") as to:
        to.writestr("facts.json", json.dumps({**FACTS, **facts}))
        to.writestr("base", bytes(8))
        to.writestr("writes", bytes(8))
        indexes = {"base": base, "writes": writes, "flushes": flushes}
        for name, numbers in indexes.items():
            to.writestr(f"{name}.index", array("q", numbers).tobytes())
    return Recording(path)


def test_what_fits_together_is_read(tmp_path: Path) -> None:
    recording = made(tmp_path / "files.drive")
    assert recording.flushes == [(25, 1, 1), (40, 2, 2), (40, 0, 2)]
    assert [write[:2] for write in written(recording)] == [(20, 8), (30, SIZE - 5)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": 2}, "another version"),
        ({"byteorder": "other"}, "another version"),
        ({"size_bytes": "large"}, "whole number"),
        ({"ended_us": 90.5}, "whole number"),
        ({"began_us": None}, "whole number"),
        ({"size_bytes": -SIZE}, "not on the drive"),
        ({"size_bytes": SIZE - 1}, "not on the drive"),
        ({"began_us": -1}, "out of order"),
        ({"began_us": 21}, "out of order"),
        ({"ended_us": 39}, "out of order"),
        ({"base": [0, 4, 512]}, "middle of an entry"),
        ({"base": [0, 4, -1, 4]}, "not on the drive"),
        ({"base": [0, 4, 512, 3]}, "does not fit its bytes"),
        ({"base": [0, 9, 512, -1]}, "not on the drive"),
        ({"writes": WRITES[:-1]}, "middle of an entry"),
        ({"writes": [20, 8, 3, 30, SIZE - 4, 5]}, "not on the drive"),
        ({"writes": [20, 8, 4, 30, SIZE - 5, 5]}, "does not fit its bytes"),
        ({"writes": [31, 8, 3, 30, SIZE - 5, 5]}, "out of order"),
        ({"flushes": FLUSHES[:-1]}, "middle of an entry"),
        ({"flushes": [41, *FLUSHES[1:]]}, "out of order"),
        ({"flushes": [25, 1, 2, 40, 1, 1]}, "out of order"),
        ({"flushes": [25, 3, 3]}, "out of order"),
        ({"flushes": [25, 2, 1]}, "covers more"),
        ({"flushes": [25, -1, 1]}, "covers more"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, changed: dict[str, object], why: str
) -> None:
    with refused(ErrorId.RECORDING_NOT_USABLE, LabError, naming=why):
        made(tmp_path / "files.drive", **changed)  # type: ignore[arg-type]


# ------------------------------------------------------------------ the recorder


def test_a_recorder_that_had_to_hold_too_much_saves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BYTES_MAX", 10)
    path = tmp_path / "files.drive"
    for length, too_long in ((10, False), (11, True)):
        recorder = Recorder(memoryview(bytes(64)), 1.0)
        recorder.write(2.0, 0, bytes(length - 4))
        recorder.write(4.0, 4, b"1234")
        recorder.flush(6.0, 2)
        recorder.end(8.0)
        if too_long:
            path.write_bytes(b"of before")
            with path.open("rb+") as file, pytest.raises(ValueError, match="shorter"):
                recorder.save(file)
            assert path.read_bytes() == b"of before"
        else:
            assert len(stored(recorder, path)) == 2


def test_a_recording_that_has_not_ended_is_not_saved(tmp_path: Path) -> None:
    recorder = Recorder(memoryview(bytes(64)), 0.0)
    path = tmp_path / "files.drive"
    path.write_bytes(b"of before")
    with path.open("rb+") as file, pytest.raises(ValueError, match="has not ended"):
        recorder.save(file)
    assert path.read_bytes() == b"of before"
    recorder.end(0.0)
    assert stored(recorder, path).ended_us == 0


def test_a_saved_recording_is_replaced_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "files.drive"
    with path.open("wb") as file:
        for length in (4096, 512):
            recorder = Recorder(memoryview(bytes(SIZE)), 0.0)
            recorder.write(1.0, 0, bytes(range(256)) * (length // 256))
            recorder.end(2.0)
            recorder.save(file)
            file.flush()
            assert Recording(path).lengths.tolist() == [length]
    again = path.read_bytes()
    stored(recorder, path)
    assert len(path.read_bytes()) == len(again)


def test_a_write_that_is_refused_is_not_recorded(tmp_path: Path) -> None:
    drive = Drive(DriveSpec(size_bytes=SIZE))
    drive.record(1.0)
    with pytest.raises(ValueError, match="lvalue and rvalue"):
        drive.write(SIZE - 1, b"ab", 2.0)
    drive.freeze(3.0)
    assert len(stored(drive.recorder, tmp_path / "files.drive")) == 0
