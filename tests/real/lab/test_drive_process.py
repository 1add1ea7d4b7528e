"""The drive's process: it dies with its parent, and never makes anybody wait."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import mounts
from dbcheck.lab.calls import remote
from dbcheck.lab.drive import control as drive_control
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.model import DriveCounters
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.spec import CHANGEABLE, DriveSpec
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage import filesystem as block_filesystem
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

SPEC = DriveSpec(size_bytes=64 << 20, flush_ms=0.0, destage_age_s=0.0)


def running(pid: int) -> bool:
    """Tell whether a process is there, as a zombie at least."""
    return Path(f"/proc/{pid}").exists()


def file_in(folder: Path) -> Path:
    path = folder / "drive"
    path.touch()
    return path


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[DriveProcess]:
    with DriveProcess.start(SPEC, file_in(tmp_path), watchdog_s=0.3) as found:
        yield found


@pytest.mark.parametrize(
    ("command", "values"),
    [
        ("spin", {}),
        ("run", {}),
        ("freeze", {"seed": 1}),
        ("set", {"changes": {"flush_ms": float("nan")}}),
        ("set", {"changes": {"flush_ms": "1"}}),
        ("set", {"changes": {"seed": [1]}}),
        ("set", {"changes": {"kept_writes": "some"}}),
        ("set", {"changes": {"forget_bytes": 100}}),
        ("set", {"changes": {"personality": "lying"}}),
        ("set", {"changes": {"spin": 1}}),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_and_changes_nothing(
    drive: DriveProcess, command: str, values: dict[str, Any]
) -> None:
    os.pwrite(drive.descriptor, b"x" * 4096, 0)
    before = drive.call(DriveServer.counters)

    @remote(5.0)
    def method(_: DriveServer, /, **values: Any) -> None:
        """Called by another name, with other values."""

    method.__name__ = command
    sent = json.dumps({"method": command, "values": values})
    with (
        pytest.MonkeyPatch.context() as patch,
        refused(ErrorId.VIRTUAL_DRIVE_REFUSED, LabError, naming=f"refused '{command}"),
    ):
        patch.setattr(drive_control, "encode_call", lambda *_: sent.encode())
        drive.call(method)
    assert drive.call(DriveServer.spec) == SPEC
    assert drive.call(DriveServer.counters).cached_bytes == before.cached_bytes == 4096
    os.fsync(drive.descriptor)  # it is on
    assert drive.call(DriveServer.counters).cached_bytes == 0


def test_a_started_drive_is_empty_and_no_mount_is_left(
    drive: DriveProcess, tmp_path: Path
) -> None:
    assert os.fstat(drive.descriptor).st_size == SPEC.size_bytes
    assert os.pread(drive.descriptor, 4096, 0) == bytes(4096)
    assert (tmp_path / "drive").stat().st_size == 0
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert Path(f"/proc/{drive.pid}/mountinfo").read_text() == ""


def test_commands_reach_the_drive(drive: DriveProcess) -> None:
    os.pwrite(drive.descriptor, b"kept", 0)
    os.fsync(drive.descriptor)
    os.pwrite(drive.descriptor, b"lost", 4)
    assert drive.call(DriveServer.counters) == DriveCounters(
        reads=0,
        writes=2,
        write_bytes=8,
        flushes=1,
        flushes_honoured=1,
        cached_writes=1,
        cached_bytes=4,
    )
    before_us = time.monotonic_ns() // 1000
    assert before_us <= drive.call(DriveServer.freeze) <= time.monotonic_ns() // 1000
    report = drive.call(DriveServer.cut)
    assert (report.cached_bytes, report.lost_sectors) == (4, 1)
    drive.call(DriveServer.fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        os.pread(drive.descriptor, 8, 0)
    assert caught.value.errno == errno.EIO
    drive.call(DriveServer.power_on)
    assert os.pread(drive.descriptor, 8, 0) == b"kept\0\0\0\0"
    os.pwrite(drive.descriptor, b"more", 4)
    drive.call(DriveServer.flush_all)
    drive.call(DriveServer.cut)
    drive.call(DriveServer.power_on)
    assert os.pread(drive.descriptor, 8, 0) == b"keptmore"


# Of each setting another value than its default; a new one needs its own here.
OTHERWISE = DriveSpec(
    personality="fickle",
    size_bytes=64 << 20,
    flush_ms=0.5,
    write_ms=0.25,
    destage_age_s=2.0,
    cache_bytes=1 << 20,
    kept_writes="torn",
    seed=7,
    lie_fraction=0.5,
    honest_flushes=3,
    newest_bytes=4096,
    lost_above_bytes=8192,
    tear_bytes=512,
    forget_at_bytes=1024,
    forget_bytes=2048,
)


def test_each_setting_arrives_in_the_drives_process(tmp_path: Path) -> None:
    for each in dataclasses.fields(DriveSpec):
        assert getattr(OTHERWISE, each.name) != each.default, each.name
    with DriveProcess.start(OTHERWISE, file_in(tmp_path)) as drive:
        assert drive.call(DriveServer.spec) == OTHERWISE


def test_each_setting_that_can_change_does_so_in_the_drives_process(
    drive: DriveProcess,
) -> None:
    changes = {name: getattr(OTHERWISE, name) for name in CHANGEABLE}
    drive.call(DriveServer.set, changes)
    assert drive.call(DriveServer.spec) == dataclasses.replace(SPEC, **changes)


def test_a_range_is_forgotten_at_the_cut(drive: DriveProcess) -> None:
    os.pwrite(drive.descriptor, b"x" * 1536, 0)
    drive.call(DriveServer.flush_all)
    drive.call(DriveServer.set, {"forget_at_bytes": 512, "forget_bytes": 512})
    drive.call(DriveServer.cut)
    drive.call(DriveServer.power_on)
    assert os.pread(drive.descriptor, 1536, 0) == b"x" * 512 + bytes(512) + b"x" * 512


def test_a_flush_takes_its_time_until_it_is_made_free(drive: DriveProcess) -> None:
    def flush_s() -> float:
        start = time.monotonic()
        os.fsync(drive.descriptor)
        return time.monotonic() - start

    drive.call(DriveServer.set, {"flush_ms": 60.0})
    assert flush_s() >= 0.06
    drive.call(DriveServer.set, {"flush_ms": 0.0})
    # A busy machine may add to one, and not to all.
    wait_until(lambda: flush_s() < 0.06, "a flush that costs nothing")


def test_a_drive_frozen_for_too_long_fails_by_itself(drive: DriveProcess) -> None:
    drive.call(DriveServer.freeze)
    with pytest.raises(OSError, match="Input/output error") as caught:
        os.fsync(drive.descriptor)
    assert caught.value.errno == errno.EIO


def test_held_requests_fail_when_the_drive_fails(drive: DriveProcess) -> None:
    drive.call(DriveServer.set, {"flush_ms": 60_000.0})
    errors: list[int | None] = []

    def flush() -> None:
        try:
            os.fsync(drive.descriptor)
        except OSError as error:
            errors.append(error.errno)

    waiter = threading.Thread(target=flush)
    waiter.start()
    wait_until(lambda: drive.call(DriveServer.counters).flushes == 1, "the flush")
    drive.call(DriveServer.freeze)
    drive.call(DriveServer.fail)
    waiter.join(10)
    assert errors == [errno.EIO]
    assert drive.call(DriveServer.counters).flushes_honoured == 0


def test_closing_leaves_no_process_and_may_be_repeated(tmp_path: Path) -> None:
    drive = DriveProcess.start(SPEC, file_in(tmp_path))
    drive.close()
    assert not running(drive.pid)
    drive.close()
    with refused(ErrorId.VIRTUAL_DRIVE_GONE, LabError, naming="closed"):
        drive.call(DriveServer.counters)


def test_who_uses_a_closed_drive_gets_errors(tmp_path: Path) -> None:
    with DriveProcess.start(SPEC, file_in(tmp_path)) as drive:
        other = os.dup(drive.descriptor)
    with pytest.raises(OSError, match="not connected"):
        os.pread(other, 1, 0)
    os.close(other)


def test_a_drive_that_cannot_start_says_why(tmp_path: Path) -> None:
    with refused(
        ErrorId.VIRTUAL_DRIVE_NOT_POSSIBLE, LabError, naming="No such file or directory"
    ) as caught:
        DriveProcess.start(SPEC, tmp_path / "missing")
    assert "missing" in str(caught.value)


def test_a_drive_that_does_not_answer_is_killed(
    drive: DriveProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive_control, "time_limit_s", lambda _: 0.1)
    os.kill(drive.pid, signal.SIGSTOP)
    with refused(ErrorId.VIRTUAL_DRIVE_GONE, LabError, naming="counters"):
        drive.call(DriveServer.counters)
    wait_until(lambda: drive._process.poll() is not None, "it is killed")
    with refused(ErrorId.VIRTUAL_DRIVE_GONE, LabError, naming="SIGKILL"):
        drive.call(DriveServer.counters)


@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_a_killed_drive_gives_errors_and_all_can_be_cleaned_up(
    tmp_path: Path, filesystem: str
) -> None:
    spec = DriveSpec(size_bytes=320 << 20, flush_ms=0.0)
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with (
        DriveProcess.start(spec, file_in(tmp_path)) as drive,
        block.attach(drive.descriptor) as device,
    ):
        block_filesystem.mkfs(device.path, filesystem)
        block_filesystem.mount(device.path, mountpoint, filesystem)
        file = os.open(mountpoint / "file", os.O_WRONLY | os.O_CREAT)
        os.kill(drive.pid, signal.SIGKILL)
        with pytest.raises(OSError, match="Input/output error"):
            while True:
                os.write(file, bytes(4096))
                os.fsync(file)
        os.close(file)
        with refused(
            ErrorId.VIRTUAL_DRIVE_GONE, LabError, naming="was killed by SIGKILL"
        ):
            drive.call(DriveServer.freeze)
        mounts.umount(mountpoint)
    assert not device.attached()
    assert not running(drive.pid)


PARENT = """
import json, os, sys, time
from pathlib import Path
from typing import Any
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.spec import DriveSpec

drive = DriveProcess.start(DriveSpec(), Path(sys.argv[1]))
device = block.attach(drive.descriptor)
file = os.fstat(drive.descriptor)
told = {"pid": drive.pid, "path": device.path, "file": [file.st_dev, file.st_ino]}
print(json.dumps(told), flush=True)
time.sleep(600)
"""


def test_a_killed_parent_leaves_nothing(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(file_in(tmp_path))], stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        told = json.loads(parent.stdout.readline())
        device = block.LoopDevice(told["path"], -1, tuple(told["file"]))
        assert device.attached()
        parent.kill()
    wait_until(lambda: not running(told["pid"]), "the drive ended")
    wait_until(lambda: not device.attached(), "the device is free")
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
