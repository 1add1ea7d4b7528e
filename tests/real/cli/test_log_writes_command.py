"""dbcheck lab log-writes: a recorded load as logs of dm-log-writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, RunWriteError, UsageError
from dbcheck.cli.root import root
from dbcheck.explore.opened import Opened
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.spec import SECTOR_BYTES, LabSpec
from dbcheck.rows.acks import AckArray
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.explorations import load, recorded
from tests.kit.lab_state import own_state as own_state
from tests.kit.log_writes import MARK, Log, read
from tests.kit.refusals import refused

pytestmark = pytest.mark.wide

Sectors = dict[int, bytes]


def log_writes(*words: object) -> str:
    """Run the command; raise what it raises."""
    words = ("lab", "log-writes", *words)
    done = CliRunner().invoke(root, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, own_mounts: None, own_state: None
) -> Opened:
    """A load that two drives recorded."""
    spec = LabSpec("postgresql", log_drive=True)
    return recorded(spec, tmp_path_factory.mktemp("recorded"), load())


def put(sectors: Sectors, offset: int, content: bytes | memoryview) -> None:
    for at in range(0, len(content), SECTOR_BYTES):
        sectors[offset + at] = bytes(content[at : at + SECTOR_BYTES])


def held(recording: Recording, whole: int) -> Sectors:
    """Return what the drive held after so many writes, but for zeros."""
    sectors: Sectors = {}
    for offset, content in recording.base():
        put(sectors, offset, content)
    for number in range(whole):
        write = recording.write(number)
        put(sectors, write.offset, write.content)
    return {at: content for at, content in sectors.items() if any(content)}


def replayed(log: Log, end: int) -> Sectors:
    """Return what a device of zeros holds after the first *end* entries."""
    sectors: Sectors = {}
    for entry in log.entries[:end]:
        if not entry.flags:
            put(sectors, entry.sector * SECTOR_BYTES, entry.content)
    return {at: content for at, content in sectors.items() if any(content)}


def mark_of(ack: AckArray) -> str:
    return f"ack session {ack['session']} operation {ack['seq']} id {ack['row_id']}"


def require_acks(log: Log, recording: Recording, acks: AckArray) -> None:
    """Each ack by the recording's end is a mark, the drive's flushes before it."""
    first, last, *ends = log.marks[0], log.marks[-1], *log.marks[1:-1]
    assert (first, last) == ("base", "dm-log-writes-end")
    assert ends == [mark_of(ack) for ack in acks]
    flushes, before = 0, iter(log.entries)
    for ack in acks:
        text = mark_of(ack).encode()
        for entry in before:
            if entry.flags == MARK and entry.content == text:
                break
            flushes += entry.flags == 1
        times_us = [time_us for time_us, _, _ in recording.flushes]
        assert flushes == sum(time_us <= ack["acked_us"] for time_us in times_us)


@pytest.mark.root
def test_each_drive_has_a_log_with_the_acks(found: Opened, tmp_path: Path) -> None:
    file = tmp_path / "recording"
    printed = log_writes(found.folder.path, "-o", file)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "recording",
        "recording.log",
    ]
    writes = [f"{len(each):,} writes" for each in found.timeline.recordings]
    for line, path, count in zip(
        printed.splitlines(), (file, f"{file}.log"), writes, strict=True
    ):
        assert line.startswith(f"{path}: {count}") and "acks as marks" in line
    for recording, path in zip(
        found.timeline.recordings, (file, Path(f"{file}.log")), strict=True
    ):
        log = read(path)
        acks = found.acked.before(recording.ended_us + 1)
        assert len(acks) > 20
        require_acks(log, recording, acks)
        assert replayed(log, log.mark("base")) == held(recording, 0)
        assert replayed(log, len(log.entries)) == held(recording, len(recording))
        middle = acks[len(acks) // 2]
        whole = max(
            (
                covered
                for time_us, covered, _ in recording.flushes
                if time_us <= middle["acked_us"]
            ),
            default=0,
        )
        at = log.mark(mark_of(middle))
        assert replayed(log, at) == held(recording, whole)


@pytest.mark.root
@pytest.mark.parametrize("taken", ["recording", "recording.log"])
def test_a_file_that_is_there_is_kept(
    taken: str, found: Opened, tmp_path: Path
) -> None:
    (tmp_path / taken).write_text("mine")
    with refused(ErrorId.FILE_EXISTS, UsageError, naming=taken):
        log_writes(found.folder.path, "-o", tmp_path / "recording")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.root
def test_a_file_that_cannot_be_made_is_named(found: Opened, tmp_path: Path) -> None:
    file = tmp_path / "absent" / "recording"
    with refused(ErrorId.FILE_NOT_WRITABLE, RunWriteError, naming=str(file)):
        log_writes(found.folder.path, "-o", file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_damaged_recording_is_no_log(found: Opened, tmp_path: Path) -> None:
    copy, file = tmp_path / "copy", tmp_path / "recording"
    shutil.copytree(found.folder.path, copy)
    drive = copy / "recording" / "log.drive"
    content = bytearray(drive.read_bytes())
    content[len(content) // 2] ^= 0xFF
    drive.write_bytes(content)
    with refused(ErrorId.RECORDING_NOT_USABLE, LabError, naming="log.drive"):
        log_writes(copy, "-o", file)
    assert not file.exists()


def test_a_folder_without_an_exploration_is_refused(tmp_path: Path) -> None:
    with refused(ErrorId.NOT_AN_EXPLORATION):
        log_writes(tmp_path, "-o", tmp_path / "recording")
    assert list(tmp_path.iterdir()) == []


def test_the_file_must_be_named(tmp_path: Path) -> None:
    words = ["lab", "log-writes", str(tmp_path)]
    done = CliRunner().invoke(root, words)
    assert done.exit_code == 2 and "'-o'" in done.output
