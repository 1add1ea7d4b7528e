"""In namespaces of their own, a drive and all upon it vanish with a SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.processes import die_with_parent
from dbcheck.lab.storage.filesystem import LoopDevice
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root

# argv: folder, filesystem, writers (a count), state of the drive when all is killed.
DAEMON = """
import json, os, subprocess, sys, time
from pathlib import Path
from dbcheck.lab.storage import filesystem as storage
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.spec import DriveSpec

WRITER = '''
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    os.pwrite(file, os.urandom(20000), os.urandom(1)[0] * 4096)
    os.fdatasync(file)
'''
folder, filesystem, writers, state = Path(sys.argv[1]), *sys.argv[2:]
mountpoint = folder / "mnt"
mountpoint.mkdir()
(folder / "drive").touch()
drive = DriveProcess.start(DriveSpec(size_bytes=320 << 20), folder / "drive")
device = storage.attach(drive.descriptor)
backing = os.fstat(drive.descriptor)
storage.mkfs(device.path, filesystem)
storage.mount(device.path, mountpoint, filesystem)
for number in range(int(writers)):
    path = str(mountpoint / f"busy{number}")
    subprocess.Popen([sys.executable, "-c", WRITER, path])
for number in range(20):  # for the unmount to write
    (mountpoint / str(number)).write_bytes(os.urandom(100_000))
while int(writers) and drive.call(DriveServer.counters).flushes < 100:
    time.sleep(0.01)
if state == "frozen":
    drive.call(DriveServer.freeze)
print(json.dumps({"path": device.path, "file": [backing.st_dev, backing.st_ino]}))
sys.stdout.flush()
time.sleep(600)
"""


def processes_of(namespace: str) -> list[str]:
    """Return the ids of the processes in a pid namespace."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            if os.readlink(link) == namespace:
                found.append(link.parts[2])
        except OSError:
            continue
    return found


def mounts_below(folder: Path) -> list[str]:
    """Return the ids of the processes that see a mount below *folder*."""
    found = []
    for table in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if f" {folder}/" in table.read_text():
                found.append(table.parts[2])
        except OSError:
            continue
    return found


def start(*arguments: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start the daemon in its namespaces; return it with what it told."""
    daemon = subprocess.Popen(
        die_with_parent(  # a test run that is interrupted leaves nothing either
            [
                *("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"),
                *("--mount-proc", sys.executable, "-c", DAEMON, *arguments),
            ]
        ),
        stdout=subprocess.PIPE,
    )
    assert daemon.stdout is not None
    return daemon, json.loads(daemon.stdout.readline())


@pytest.mark.parametrize("victim", ["init", "unshare"])
@pytest.mark.parametrize(
    ("filesystem", "writers", "state"),
    [
        pytest.param("xfs", "3", "on", id="xfs, writing"),
        pytest.param("ext4", "3", "on", id="ext4, writing"),
        pytest.param("xfs", "0", "on", id="xfs, the drive dies last"),
        pytest.param("ext4", "0", "on", id="ext4, the drive dies last"),
        pytest.param("xfs", "3", "frozen", id="xfs, the drive is frozen"),
    ],
)
def test_nothing_outlives_a_kill(
    tmp_path: Path, filesystem: str, writers: str, state: str, victim: str
) -> None:
    daemon, told = start(str(tmp_path), filesystem, writers, state)
    with daemon:
        children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text()
        init = int(children.split()[0])
        namespace = os.readlink(f"/proc/{init}/ns/pid")
        device = LoopDevice(told["path"], -1, tuple(told["file"]))
        assert device.attached()
        assert len(processes_of(namespace)) >= 2 + int(writers)
        assert mounts_below(tmp_path)
        os.kill(init if victim == "init" else daemon.pid, signal.SIGKILL)
    wait_until(lambda: not processes_of(namespace), "all ended")
    wait_until(lambda: not device.attached(), "the device is free")
    assert mounts_below(tmp_path) == []
