"""What a drive recorded of a real filesystem, replayed on another drive."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.system import now_us
from dbcheck.lab import mounts
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.drive.recording import Recording, RecordingFile
from dbcheck.lab.spec import DriveSpec
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage import filesystem as block_filesystem
from dbcheck.lab.storage.blocks import FileBlocks, list_file_blocks
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

SMALL = DriveSpec(size_bytes=1 << 20, flush_ms=0.0, destage_age_s=0.0)
LARGE = DriveSpec(size_bytes=300 << 20, flush_ms=0.0)
HOLES = 300  # more than the kernel is asked for at once
STRIDE = 16384


@pytest.fixture
def file(tmp_path: Path) -> RecordingFile:
    return RecordingFile(tmp_path / "files.drive", replayed=False)


@pytest.fixture
def mountpoint(tmp_path: Path) -> Path:
    path = tmp_path / "mnt"
    path.mkdir()
    return path


@pytest.fixture
def drive_file(tmp_path: Path) -> Path:
    path = tmp_path / "drive"
    path.touch()
    return path


@contextlib.contextmanager
def mounted(
    drive: DriveProcess, mountpoint: Path, filesystem: str, *, make: bool = False
) -> Iterator[None]:
    """Mount what is on the drive; the power is off afterwards, however it ends."""
    with block.attach(drive.descriptor) as device:
        try:
            if make:
                block_filesystem.mkfs(device.path, filesystem)
            block_filesystem.mount(device.path, mountpoint, filesystem)
            yield
        finally:
            drive.call(DriveServer.freeze)
            drive.call(DriveServer.fail)
            mounts.umount(mountpoint)


@dataclass(frozen=True)
class Synced:
    """A file whose fsync had been answered at time_us."""

    time_us: int
    name: str
    content: bytes


def synced(folder: Path, name: str, content: bytes) -> Synced:
    """Write a new file and make it durable."""
    path = folder / name
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(file, content)
    os.fsync(file)
    os.close(file)
    parent = os.open(folder, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)
    return Synced(now_us(), name, content)


def recorded(
    drive: DriveProcess, mountpoint: Path, filesystem: str
) -> tuple[Synced, list[Synced]]:
    """Record a load; return the file of before it, and those that were written."""
    draw = random.Random(filesystem)
    with mounted(drive, mountpoint, filesystem, make=True):
        first = synced(mountpoint, "first", draw.randbytes(9000))
        drive.call(DriveServer.record)
        files = [
            synced(mountpoint, f"file {number}", draw.randbytes(20_000))
            for number in range(6)
        ]
        (mountpoint / "not synced").write_bytes(bytes(9000))
    drive.call(DriveServer.save_recording)
    return first, files


@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_a_state_at_each_flush_has_what_was_synced_before(
    tmp_path: Path,
    drive_file: Path,
    file: RecordingFile,
    mountpoint: Path,
    filesystem: str,
) -> None:
    with DriveProcess.start(LARGE, drive_file, recording=file) as drive:
        first, files = recorded(drive, mountpoint, filesystem)
    flushes = Recording(file.path).flushes
    assert len(flushes) >= len(files)
    wholes = list(accumulate((covered for _, covered, _ in flushes), max))
    nexts_us = [time_us for time_us, _, _ in flushes[1:]] + [now_us()]
    states = [(0, flushes[0][0]), *zip(wholes, nexts_us, strict=True)]
    random.Random(1).shuffle(states)
    replayed = RecordingFile(file.path, replayed=True)
    with DriveProcess.start(LARGE, drive_file, recording=replayed) as drive:
        drive.call(DriveServer.fail)
        for whole, next_us in states:
            # An answer that came before the next flush ended rests on this one.
            known = [first, *(file for file in files if file.time_us < next_us)]
            drive.call(DriveServer.show, whole, [])
            drive.call(DriveServer.power_on)
            with mounted(drive, mountpoint, filesystem):
                for each in known:
                    assert (mountpoint / each.name).read_bytes() == each.content
                if whole == 0:
                    assert not (mountpoint / "file 0").exists()
                synced(mountpoint, "foreign", bytes(9000))


def held(drive: DriveProcess, blocks: FileBlocks) -> bytes:
    """Return what is on the drive where a file is said to be, zeros in its holes."""
    content = bytearray(max(extent.at + extent.length for extent in blocks.extents))
    for extent in blocks.extents:
        part = os.pread(drive.descriptor, extent.length, extent.place)
        content[extent.at : extent.at + extent.length] = part
    return bytes(content)


@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_the_blocks_of_a_file_hold_its_bytes(
    drive_file: Path, mountpoint: Path, filesystem: str
) -> None:
    draw = random.Random(filesystem)
    with (
        DriveProcess.start(LARGE, drive_file) as drive,
        mounted(drive, mountpoint, filesystem, make=True),
    ):
        (mountpoint / "folder").mkdir()
        synced(mountpoint, "few", b"few bytes")
        synced(mountpoint / "folder", "whole", draw.randbytes(300_000))
        with (mountpoint / "holes").open("wb") as file:
            file.truncate(HOLES * STRIDE)
            for number in range(HOLES):
                os.pwrite(file.fileno(), draw.randbytes(4096), number * STRIDE)
            os.fsync(file)
        with (mountpoint / "allocated").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 20)
            os.fsync(file)
        (mountpoint / "empty").touch()
        (mountpoint / "link").symlink_to("few")
        os.mkfifo(mountpoint / "pipe")
        found = {each.path: each for each in list_file_blocks(mountpoint, 1)}
        assert not found.keys() & {"empty", "link", "pipe"}
        assert {each.drive for each in found.values()} == {1}
        for name in ("few", "folder/whole", "holes"):
            content = (mountpoint / name).read_bytes()
            on_drive = held(drive, found[name])
            assert on_drive[: len(content)].ljust(len(content), b"\0") == content
            assert not any(on_drive[len(content) :])
        ats = [extent.at for extent in found["holes"].extents]
        assert ats == [number * STRIDE for number in range(HOLES)]
        allocated = sum(extent.length for extent in found["allocated"].extents)
        assert allocated == 1 << 20


# ------------------------------------------------------------------ the commands


@pytest.fixture
def drive(drive_file: Path, file: RecordingFile) -> Iterator[DriveProcess]:
    with DriveProcess.start(SMALL, drive_file, recording=file) as found:
        yield found


@contextlib.contextmanager
def replaying(drive_file: Path, file: RecordingFile) -> Iterator[DriveProcess]:
    replayed = RecordingFile(file.path, replayed=True)
    with DriveProcess.start(SMALL, drive_file, recording=replayed) as found:
        yield found


def save(drive: DriveProcess) -> None:
    drive.call(DriveServer.freeze)
    drive.call(DriveServer.fail)
    drive.call(DriveServer.save_recording)


def test_a_recording_is_saved_once_the_power_is_gone(
    drive: DriveProcess, file: RecordingFile
) -> None:
    with refused(
        ErrorId.VIRTUAL_DRIVE_REFUSED,
        LabError,
        naming=("refused 'save_recording'", "nothing was recor"),
    ):
        drive.call(DriveServer.save_recording)
    drive.call(DriveServer.record)
    os.pwrite(drive.descriptor, b"x" * 512, 0)
    with refused(
        ErrorId.VIRTUAL_DRIVE_REFUSED,
        LabError,
        naming=("refused 'save_recording'", "has not ended"),
    ):
        drive.call(DriveServer.save_recording)
    os.pwrite(drive.descriptor, b"y" * 512, 512)
    save(drive)
    assert Recording(file.path).offsets.tolist() == [0, 512]


def test_to_record_again_begins_anew(drive: DriveProcess, file: RecordingFile) -> None:
    drive.call(DriveServer.record)
    os.pwrite(drive.descriptor, b"x" * 512, 0)
    drive.call(DriveServer.record)
    os.pwrite(drive.descriptor, b"y" * 512, 512)
    os.fsync(drive.descriptor)
    save(drive)
    recording = Recording(file.path)
    ((at, base),) = recording.base()
    assert (at, bytes(base[:1024])) == (0, b"x" * 512 + bytes(512))
    assert recording.offsets.tolist() == [512]
    drive.call(DriveServer.power_on)
    drive.call(DriveServer.record)
    save(drive)
    ((at, base),) = Recording(file.path).base()
    assert (at, bytes(base[:1024])) == (0, b"x" * 512 + b"y" * 512)


def test_a_write_during_a_flush_is_not_covered_by_it(
    drive: DriveProcess, file: RecordingFile
) -> None:
    drive.call(DriveServer.record)
    os.pwrite(drive.descriptor, b"x" * 512, 0)
    drive.call(DriveServer.set, {"flush_ms": 100.0})
    flush = threading.Thread(target=os.fsync, args=[drive.descriptor])
    flush.start()
    wait_until(lambda: drive.call(DriveServer.counters).flushes == 1, "the flush")
    os.pwrite(drive.descriptor, b"y" * 512, 512)
    flush.join(10)
    save(drive)
    recording = Recording(file.path)
    ((time_us, covered, arrived),) = recording.flushes
    assert covered == 1
    assert arrived in (1, 2)  # a busy machine may end the flush first
    assert recording.times_us[0] <= time_us <= recording.ended_us


def test_a_state_is_shown_while_the_drive_is_off(
    drive: DriveProcess, drive_file: Path, file: RecordingFile
) -> None:
    os.pwrite(drive.descriptor, b"b" * 512, 0)
    drive.call(DriveServer.record)
    os.pwrite(drive.descriptor, b"1" * 512, 512)
    os.pwrite(drive.descriptor, b"2" * 512, 512)
    save(drive)
    with refused(
        ErrorId.VIRTUAL_DRIVE_REFUSED,
        LabError,
        naming=("refused 'show'", "does not replay a recording"),
    ):
        drive.call(DriveServer.show, 0, [])
    with replaying(drive_file, file) as other:
        with refused(
            ErrorId.VIRTUAL_DRIVE_REFUSED, LabError, naming=("refused 'show'", "in use")
        ):
            other.call(DriveServer.show, 1, [])
        with refused(
            ErrorId.VIRTUAL_DRIVE_REFUSED,
            LabError,
            naming=("refused 'record'", "replays"),
        ):
            other.call(DriveServer.record)
        for whole, parts, shown in (
            (2, [], b"2" * 512),
            (0, [], bytes(512)),
            (1, [(1, 0, 100)], b"2" * 100 + b"1" * 412),
        ):
            other.call(DriveServer.fail)
            with refused(
                ErrorId.VIRTUAL_DRIVE_REFUSED,
                LabError,
                naming=("refused 'show'", "has 2 writes, not 3"),
            ):
                other.call(DriveServer.show, 3, [])
            other.call(DriveServer.show, whole, parts)
            other.call(DriveServer.power_on)
            content = os.pread(other.descriptor, 1024, 0)
            assert content == b"b" * 512 + shown
            os.pwrite(other.descriptor, b"foreign", 0)
            os.fsync(other.descriptor)
        other.call(DriveServer.flush_all)
        other.call(DriveServer.fail)
        with refused(
            ErrorId.VIRTUAL_DRIVE_REFUSED,
            LabError,
            naming=("refused 'show'", "flushed or cut"),
        ):
            other.call(DriveServer.show, 0, [])


def test_a_drive_without_a_file_records_nothing(drive_file: Path) -> None:
    with DriveProcess.start(SMALL, drive_file) as drive:
        with refused(
            ErrorId.VIRTUAL_DRIVE_REFUSED,
            LabError,
            naming=("refused 'record'", "no file"),
        ):
            drive.call(DriveServer.record)
        drive.call(DriveServer.freeze)
        with refused(
            ErrorId.VIRTUAL_DRIVE_REFUSED,
            LabError,
            naming=("refused 'save_recording'", "nothing"),
        ):
            drive.call(DriveServer.save_recording)


def test_a_file_that_is_no_recording_starts_no_drive(
    drive: DriveProcess, drive_file: Path, file: RecordingFile
) -> None:
    with (
        refused(
            ErrorId.VIRTUAL_DRIVE_NOT_POSSIBLE,
            LabError,
            naming="files.drive is damaged or not a drive's rec",
        ),
        replaying(drive_file, file),
    ):
        pass
    with refused(
        ErrorId.RECORDING_NOT_USABLE, LabError, naming=("files.drive", "File exists")
    ):
        DriveProcess.start(SMALL, drive_file, recording=file)
    file.path.unlink()
    with (
        refused(
            ErrorId.RECORDING_NOT_USABLE,
            LabError,
            naming=("files.drive", "No such file"),
        ),
        replaying(drive_file, file),
    ):
        pass
