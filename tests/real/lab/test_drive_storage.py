"""The storage of a lab: a filesystem on a drive, its times and its mounts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host import facts as host_facts
from dbcheck.agent.host import tools
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import namespace
from dbcheck.lab.servers.mariadb import MariadbServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.lab.storage import drive as drive_module
from dbcheck.lab.storage.drive import DriveStorage
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

APPENDS = 4000


@pytest.fixture
def idle(tmp_path: Path) -> MariadbServer:
    """A server that has nothing on the drive; it is never started."""
    return MariadbServer(tmp_path / "none", tmp_path / "none")


@pytest.fixture
def storage(tmp_path: Path, idle: MariadbServer) -> Iterator[DriveStorage]:
    spec = LabSpec("mariadb", drive=DriveSpec(flush_ms=40, size_bytes=300 << 20))
    (tmp_path / "files").mkdir()
    storage = DriveStorage(spec, tmp_path)
    try:
        storage.build()
        yield storage
    finally:
        storage.close(idle)


def flush_s(storage: DriveStorage) -> float:
    """Return how long a write and its flush take."""
    with (storage.folder / "file").open("wb", buffering=0) as file:
        file.write(b"x")
        start = time.monotonic()
        os.fdatasync(file)
        return time.monotonic() - start


def test_time_counts_again_after_a_failure(storage: DriveStorage) -> None:
    with storage.without_latency():  # a busy machine may add to one, and not to all
        wait_until(lambda: flush_s(storage) < 0.04, "a flush that costs nothing")
    assert flush_s(storage) >= 0.04
    with (
        refused(ErrorId.LAB_DAEMON_FAILED, LabError, naming="on the way"),
        storage.without_latency(),
    ):
        raise LabError("failed on the way", id=ErrorId.LAB_DAEMON_FAILED)
    assert flush_s(storage) >= 0.04


def test_a_long_journal_is_replayed_quickly(
    storage: DriveStorage, idle: MariadbServer
) -> None:
    storage.set({"flush_ms": 0})
    file = os.open(storage.folder / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(APPENDS):
        os.write(file, b"x" * 100)
        os.fdatasync(file)
    os.close(file)
    storage.cut(idle, flushes_expected=True)
    storage.end_cut(idle)
    before = storage.counters()["reads"]
    storage.power_on()
    # Six for each record; with records as short as can be it would be 24,000.
    assert storage.counters()["reads"] - before < 13_000
    assert (storage.folder / "file").stat().st_size == 100 * APPENDS


def test_flushes_that_vanish_on_their_way_are_noticed(
    storage: DriveStorage, idle: MariadbServer
) -> None:
    device = host_facts.Volume(str(storage.folder)).mount["source"]
    queue = Path("/sys/block", Path(device).name, "queue/write_cache")
    file = os.open(storage.folder / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.fsync(file)
    for cache in ("write back", "write through"):
        queue.write_text(cache)
        storage.start_counting()
        for _ in range(20):
            os.write(file, b"x" * 100)
            os.fdatasync(file)
        flushes = storage.counters()["flushes"]
        assert (flushes > 0) == (cache == "write back")
    os.close(file)
    queue.write_text("write back")  # so that only what the drive saw can show it
    _, report = storage.cut(idle, flushes_expected=True)
    assert "writes and no flush" in str(report["wiring"])


def test_a_stale_link_does_not_name_the_filesystem(
    storage: DriveStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "by-uuid"
    links.mkdir()
    facts = host_facts.Volume(str(storage.folder))
    (links / "of-another").symlink_to(facts.mount["source"])
    monkeypatch.setattr(host_facts, "BY_UUID", str(links))
    with open(facts.mount["source"], "rb") as device:
        superblock = device.read(48)
    assert uuid.UUID(facts.uuid()).bytes == superblock[32:]  # sb_uuid of XFS
    monkeypatch.setattr(tools, "PATHS", "/nowhere")
    assert facts.uuid() == "of-another"
    assert facts.unreadable == {}


# argv: a folder; in it is "inner" to be mounted on.
INSIDE = """
import sys
from pathlib import Path
from dbcheck.lab import namespace, syscalls

folder = Path(sys.argv[1])
namespace.mask_system_folders(folder)
syscalls.mount("inner", str(folder / "inner"), "tmpfs", 0)
print(Path("/proc/self/mountinfo").read_text().count(sys.argv[1]), flush=True)
sys.stdin.readline()
print(Path("/proc/self/mountinfo").read_text().count(sys.argv[1]), flush=True)
"""


def test_mounts_stay_inside_and_do_not_pin_those_outside(tmp_path: Path) -> None:
    for name in ("inner", "outer"):
        (tmp_path / name).mkdir()
    outer = str(tmp_path / "outer")
    subprocess.run(["mount", "--make-rshared", "/"], check=True)  # of our own alone
    subprocess.run(["mount", "-t", "tmpfs", "outer", outer], check=True)
    before = Path("/proc/self/mountinfo").read_text()
    words = [*namespace.command_prefix(), sys.executable, "-c", INSIDE, str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as inside:
        assert inside.stdin is not None
        assert inside.stdout is not None
        assert inside.stdout.readline() == "2\n"
        assert Path("/proc/self/mountinfo").read_text() == before
        subprocess.run(["umount", outer], check=True)
        inside.stdin.write("\n")
        inside.stdin.flush()
        assert inside.stdout.readline() == "1\n"


def test_a_filesystem_that_is_not_mounted_safely_is_taken_off(
    tmp_path: Path, idle: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs and devices on it could be anybody's: it may hold a recording."""
    monkeypatch.setattr(drive_module, "_SAFE_OPTIONS", "noatime")
    storage = DriveStorage(LabSpec("mariadb", filesystem="ext4"), tmp_path)
    (tmp_path / "files").mkdir()
    try:
        with refused(ErrorId.LAB_DECIDES_SETTING, LabError, naming="noatime"):
            storage.build()
        assert not os.path.ismount(storage.folder)
    finally:
        storage.close(idle)
