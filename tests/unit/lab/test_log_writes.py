"""A recording as a log of dm-log-writes: what stands in it, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.drive.model import Drive, Mark
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.spec import DriveSpec
from tests.kit.log_writes import FLUSH, MARK, SIZE, read, write_log
from tests.kit.refusals import refused


class Recorded:
    """A drive whose every step takes a microsecond, and what it holds at each."""

    def __init__(self, base: bytes = b"") -> None:
        self.drive = Drive(DriveSpec(size_bytes=SIZE, destage_age_s=0.0))
        if base:
            self.drive.write(0, base, 0.0)
        self.now_us = 10
        self.states = [self.content()]  # after so many writes
        self.drive.record(self.now_us / 1e6)

    def content(self) -> bytes:
        return bytes(self.drive.read(0, SIZE))

    def _step_s(self) -> float:
        self.now_us += 1
        return (self.now_us + 0.5) / 1e6

    def write(self, offset: int, content: bytes) -> None:
        self.drive.write(offset, content, self._step_s())
        self.states.append(self.content())

    def begin(self) -> Mark:
        self._step_s()
        return self.drive.begin_flush()

    def end(self, mark: Mark) -> int:
        """End a flush; return when, in microseconds."""
        self.drive.end_flush(mark, self._step_s())
        return self.now_us

    def flush(self) -> int:
        return self.end(self.begin())

    def save(self, folder: Path) -> Recording:
        self.drive.freeze(self._step_s())
        assert self.drive.recorder is not None
        path = folder / "files.drive"
        with path.open("wb") as file:
            self.drive.recorder.save(file)
        return Recording(path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_log_holds_what_the_drive_held_at_each_flush(
    tmp_path: Path, log: Path
) -> None:
    recorded = Recorded(base=bytes(range(1, 256)) * 2048)
    recorded.write(0, b"a" * 8192)
    recorded.flush()
    recorded.write(4096, b"b" * 8192)
    recorded.write(0, bytes(4096))
    recorded.flush()
    recorded.write(SIZE - 4096, b"c" * 4096)
    assert write_log(recorded.save(tmp_path), [], log) == 0
    found = read(log)
    assert found.sector_bytes == 512
    assert found.marks == ["base", "dm-log-writes-end"]
    states = recorded.states
    assert found.replayed(found.mark("base")) == states[0]
    assert [found.replayed(n) for n in found.flushes] == [states[1], states[3]]
    assert found.replayed(found.mark("dm-log-writes-end")) == states[4]


def test_what_comes_during_a_flush_is_behind_it(tmp_path: Path, log: Path) -> None:
    recorded = Recorded()
    recorded.write(0, b"1" * 1024)
    early = recorded.begin()
    recorded.write(512, b"2" * 1024)
    late = recorded.begin()
    recorded.write(0, b"3" * 512)
    recorded.end(late)  # covers two, and ends before the one that covers the first
    recorded.write(1024, b"4" * 512)
    recorded.end(early)
    recorded.flush()
    recorded.write(0, b"5" * 512)
    recording = recorded.save(tmp_path)
    assert [flush[1:] for flush in recording.flushes] == [(2, 3), (1, 4), (4, 4)]
    write_log(recording, [], log)
    found = read(log)
    contents = [entry.content[:1] for entry in found.entries if entry.flags != MARK]
    assert contents == [b"1", b"2", b"", b"", b"3", b"4", b"", b"5"]
    states = [recorded.states[n] for n in (2, 2, 4)]
    assert [found.replayed(n) for n in found.flushes] == states


def test_a_mark_is_behind_each_flush_that_ended_before_it(
    tmp_path: Path, log: Path
) -> None:
    recorded = Recorded()
    recorded.write(0, b"1" * 512)
    first_us = recorded.flush()
    recorded.write(0, b"2" * 512)
    second_us = recorded.flush()
    recorded.write(0, b"3" * 512)
    marks = [
        (second_us, "rests on two"),
        (0, "before all"),
        (first_us + 1, "rests on one"),
        (first_us, "in the same microsecond"),
        (first_us - 1, "rests on none"),
        (recorded.now_us + 1, "at the end"),
        (recorded.now_us + 2, "späť"),
    ]
    recording = recorded.save(tmp_path)
    assert recording.ended_us == recorded.now_us
    assert write_log(recording, marks, log) == 6
    found = read(log)
    assert found.marks == [
        "base",
        "before all",
        "rests on none",
        "in the same microsecond",
        "rests on one",
        "rests on two",
        "at the end",
        "dm-log-writes-end",
    ]
    before = [sum(n < found.mark(text) for n in found.flushes) for text in found.marks]
    assert before == [0, 0, 0, 1, 1, 2, 2, 2]
    for text, state in zip(found.marks, [0, 0, 0, 1, 1, 2, 2, 3], strict=True):
        assert found.replayed(found.mark(text)) == recorded.states[state], text


def test_an_empty_write_has_no_entry(tmp_path: Path, log: Path) -> None:
    recorded = Recorded()
    recorded.write(17, b"")
    recorded.flush()
    write_log(recorded.save(tmp_path), [], log)
    assert [entry.flags for entry in read(log).entries] == [MARK, FLUSH, MARK]


def test_what_is_not_whole_sectors_is_refused(tmp_path: Path, log: Path) -> None:
    for offset, content in ((256, b"1" * 512), (512, b"1" * 256)):
        recorded = Recorded()
        recorded.write(offset, content)
        recording = recorded.save(tmp_path)
        with refused(ErrorId.RECORDING_NOT_IN_SECTORS, LabError, naming=f"at {offset}"):
            write_log(recording, [], log)
        assert not log.exists()


def test_a_mark_that_a_sector_cannot_hold_is_refused(tmp_path: Path, log: Path) -> None:
    recording = Recorded().save(tmp_path)
    longest = "ä" * 239 + "a"  # the entry and a zero need 33 of 512 bytes
    write_log(recording, [(0, longest)], log)
    assert read(log).marks[1] == longest
    log.unlink()
    for text in (longest + "a", "", "a\0"):
        with pytest.raises(ValueError, match="1 to 479 bytes and no NUL"):
            write_log(recording, [(0, text)], log)
    assert not log.exists()
