"""Power cuts of a virtual drive below a real filesystem."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import mounts
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.spec import FILESYSTEMS, DriveSpec
from dbcheck.lab.storage import filesystem as block
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.drive_stack import Storage
from tests.kit.refusals import refused

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

FILES = 60
# Nothing becomes stable by itself: what a lying drive has is lost for certain.
QUICK = DriveSpec(flush_ms=0.1, destage_age_s=0.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def build(
    stack: ExitStack,
    folder: Path,
    filesystem: str,
    personality: str = "honest",
    options: str = "",
    write_cache: str = block.WRITE_BACK,
) -> Storage:
    spec = dataclasses.replace(QUICK, personality=personality, size_bytes=320 << 20)
    storage = Storage(folder, spec, filesystem, options, write_cache)
    stack.callback(storage.close)
    return storage


def text(number: int) -> bytes:
    return b"%d " % number * 700


def write_synced(storage: Storage, start: int = 0) -> None:
    """Write FILES files; each is synced, and so is its name, before the next."""
    folder = os.open(storage.mountpoint, os.O_RDONLY)
    for number in range(start, start + FILES):
        path = storage.mountpoint / str(number)
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(file, text(number))
        os.fdatasync(file)
        os.close(file)
        os.fsync(folder)
    os.close(folder)


def write_unsynced(storage: Storage) -> None:
    """Send the drive writes that no flush follows."""
    with mmap.mmap(-1, 1 << 16) as buffer:
        buffer.write(b"u" * len(buffer))
        flags = os.O_WRONLY | os.O_CREAT | os.O_DIRECT
        file = os.open(storage.mountpoint / "unsynced", flags)
        for place in range(50):
            os.pwrite(file, buffer, place * len(buffer))
        os.close(file)


def lost(storage: Storage, start: int = 0) -> int:
    """Count the files that are not there whole."""
    count = 0
    for number in range(start, start + FILES):
        path = storage.mountpoint / str(number)
        if not path.exists() or path.read_bytes() != text(number):
            count += 1
    return count


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_an_honest_drive_keeps_what_was_synced(
    stack: ExitStack, tmp_path: Path, filesystem: str
) -> None:
    storage = build(stack, tmp_path, filesystem)
    before = storage.drive.call(DriveServer.counters)
    write_synced(storage)
    after = storage.drive.call(DriveServer.counters)
    assert after.flushes - before.flushes >= FILES
    assert after.flushes_honoured - before.flushes_honoured >= FILES
    write_unsynced(storage)
    report = storage.cut("none")
    assert report.lost_sectors > 0, "nothing was at risk"
    assert lost(storage) == 0


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_lying_drive_loses_what_was_synced(
    stack: ExitStack, tmp_path: Path, filesystem: str
) -> None:
    storage = build(stack, tmp_path, filesystem, "lying")
    before = storage.drive.call(DriveServer.counters)
    write_synced(storage)
    after = storage.drive.call(DriveServer.counters)
    assert after.flushes - before.flushes >= FILES
    assert after.flushes_honoured == 0
    assert storage.cut("none").lost_sectors > 0
    assert lost(storage) == FILES


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_lying_drive_that_happens_to_keep_all_loses_nothing(
    stack: ExitStack, tmp_path: Path, filesystem: str
) -> None:
    storage = build(stack, tmp_path, filesystem, "lying")
    write_synced(storage)
    assert storage.cut("all").lost_sectors == 0
    assert lost(storage) == 0


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_write_through_drive_needs_no_flush(
    stack: ExitStack, tmp_path: Path, filesystem: str
) -> None:
    storage = build(
        stack,
        tmp_path,
        filesystem,
        "write-through",
        write_cache=block.WRITE_THROUGH,
    )
    before = storage.drive.call(DriveServer.counters)
    write_synced(storage)
    assert storage.drive.call(DriveServer.counters).flushes == before.flushes
    assert storage.cut("none").cached_writes == 0
    assert lost(storage) == 0


def test_ext4_without_barriers_sends_no_flush_and_loses(
    stack: ExitStack, tmp_path: Path
) -> None:
    storage = build(stack, tmp_path, "ext4", options="barrier=0")
    before = storage.drive.call(DriveServer.counters)
    write_synced(storage)
    assert storage.drive.call(DriveServer.counters).flushes == before.flushes
    storage.cut("none")
    assert lost(storage) == FILES


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_kernel_that_believes_in_write_through_loses(
    stack: ExitStack, tmp_path: Path, filesystem: str
) -> None:
    storage = build(stack, tmp_path, filesystem, write_cache=block.WRITE_THROUGH)
    before = storage.drive.call(DriveServer.counters)
    write_synced(storage)
    assert storage.drive.call(DriveServer.counters).flushes == before.flushes
    storage.cut("none")
    assert lost(storage) == FILES


@pytest.mark.parametrize("kept_writes", ["prefix", "random", "torn"])
@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_an_honest_drive_keeps_what_was_synced_whatever_else_survives(
    stack: ExitStack, tmp_path: Path, filesystem: str, kept_writes: str
) -> None:
    storage = build(stack, tmp_path, filesystem)
    for seed in range(5):
        write_synced(storage, start=seed * FILES)
        write_unsynced(storage)
        report = storage.cut(kept_writes, seed)
        assert report.cached_writes > 0, "nothing was at risk"
        assert sum(lost(storage, start * FILES) for start in range(seed + 1)) == 0


def test_a_write_cache_setting_left_by_another_is_corrected(
    stack: ExitStack, tmp_path: Path
) -> None:
    file = tmp_path / "drive"
    file.touch()
    drive = stack.enter_context(DriveProcess.start(QUICK, file))
    for _ in range(50):
        with block.attach(drive.descriptor, block.WRITE_THROUGH) as stale:
            setting = Path("/sys/block", Path(stale.path).name, "queue/write_cache")
        left = setting.read_text().strip()
        device = stack.enter_context(block.attach(drive.descriptor))
        if (device.path, left) == (stale.path, "write through"):
            break
        device.detach()  # others took the device meanwhile
    else:
        pytest.fail("others take every device")
    assert setting.read_text().strip() == "write back"
    with open(device.path, "r+b", buffering=0) as opened:
        opened.write(bytes(4096))
        os.fsync(opened)
    assert drive.call(DriveServer.counters).flushes > 0


@pytest.mark.parametrize(
    ("filesystem", "option"), [("xfs", "nobarrier"), ("ext4", "no_such_option")]
)
def test_a_rejected_mount_option_is_said_in_the_kernels_words(
    stack: ExitStack, tmp_path: Path, filesystem: str, option: str
) -> None:
    with refused(
        ErrorId.FILESYSTEM_NOT_MOUNTED, LabError, naming=f"Unknown parameter '{option}"
    ):
        build(stack, tmp_path, filesystem, options=option)


def test_a_busy_mount_names_who_uses_it(stack: ExitStack, tmp_path: Path) -> None:
    storage = build(stack, tmp_path, "ext4")
    with (storage.mountpoint / "open").open("wb"):
        with refused(ErrorId.FILESYSTEM_IN_USE, LabError, naming="busy") as caught:
            mounts.umount(storage.mountpoint, timeout_s=0.05)
        assert str(os.getpid()) in caught.value.hint


def test_what_is_not_mounted_is_unmounted_already(tmp_path: Path) -> None:
    mounts.umount(tmp_path)


def test_a_device_in_use_is_not_reported_as_detached(
    stack: ExitStack, tmp_path: Path
) -> None:
    storage = build(stack, tmp_path, "ext4")
    assert storage.device is not None
    with refused(ErrorId.LOOP_DEVICE_IN_USE, LabError):
        storage.device.detach(timeout_s=0.05)
    mounts.umount(storage.mountpoint)
    storage.device.detach()
    assert not storage.device.attached()


def test_a_write_cache_that_does_not_exist_leaves_no_device(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(1 << 20)
        with refused(ErrorId.WRITE_CACHE_NOT_SET, LabError, naming="write_cache"):
            block.attach(file.fileno(), "write nowhere")
        assert not any(backing.startswith(file.name) for backing in backing_files())


def backing_files() -> Iterator[str]:
    """Yield what every loop device of the machine lies on."""
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # somebody else's may go meanwhile
            yield path.read_text()
