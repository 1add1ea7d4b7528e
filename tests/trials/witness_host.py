"""A witness on a host of its own, whose cable, sshd, disk and clock can be hurt."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from dbcheck.lab.servers.mariadb import MariadbServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.lab.ssh.sshd import _list_descendants
from dbcheck.lab.storage.drive import DriveStorage
from tests.kit.far_host import FarSshd, far_sshd

_SMALL_BYTES = 16 << 20


class Disk(Protocol):
    """What the witness's folder lies on."""

    folder: Path


class PlainDisk:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder


class SmallDisk:
    """A small ext4, which turns read-only after an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave not one block to anybody."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def make_room(self) -> None:
        """Undo fill()."""
        self._filler.unlink(missing_ok=True)

    def break_down(self) -> None:
        """Have the kernel find an error in it."""
        device = self.folder.stat().st_dev
        numbers = f"{os.major(device)}:{os.minor(device)}"
        name = Path(os.path.realpath(f"/sys/dev/block/{numbers}")).name
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("planted")


class WitnessHost:
    """The host; its clock is read from the file *clock*, as seconds that it is off."""

    def __init__(self, sshd: FarSshd, disk: Disk, clock: Path) -> None:
        self.sshd, self.disk, self.clock = sshd, disk, clock
        self.folder = disk.folder / "logs"
        self.set_clock(0)

    @property
    def options(self) -> list[str]:
        """What dbcheck must be told to find it."""
        sshd = self.sshd
        url = f"ssh://{sshd.user}@{sshd.host}:{sshd.port}{self.folder}"
        keys = ["--identity", sshd.identity_file, "--known-hosts", sshd.known_hosts]
        return ["--witness", url, *map(str, keys)]

    def set_clock(self, off_s: float) -> None:
        """Set its clock."""
        part = self.clock.with_suffix(".part")
        part.write_text(str(off_s))
        part.replace(self.clock)

    def end_sessions(self) -> None:
        """Kill every session of its sshd, and what runs in it."""
        assert self.sshd._child is not None
        for pid in _list_descendants(self.sshd._child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def bring_back(self) -> None:
        """Have it answer again, at another port."""
        self.sshd.plug()
        self.sshd.close()
        self.sshd.start()


class DriveDisk:
    """An ext4 on the lab's drive: slow, or without power, if that is wanted."""

    def __init__(self, storage: DriveStorage) -> None:
        self._storage = storage
        self.folder = storage.folder

    def slow_down(self, flush_ms: float) -> None:
        """Let every flush take so long."""
        self._storage.set({"flush_ms": flush_ms})

    def lose_power(self, host: WitnessHost) -> None:
        """Lose what the drive's cache holds, and come back."""
        self._storage.cut(_Sessions(host), flushes_expected=True)
        self._storage.power_on()


class _Sessions(MariadbServer):
    """What must end before the filesystem can be unmounted."""

    def __init__(self, host: WitnessHost) -> None:
        self._host = host

    def kill_now(self) -> None:
        """Kill without waiting."""
        self._host.end_sessions()

    def kill(self, timeout_s: float = 0.0) -> None:
        """Kill and wait: sshd's descendants are gone when it is."""
        self._host.sshd.close()


@contextlib.contextmanager
def witness_host(folder: Path, disk: str) -> Iterator[WitnessHost]:
    """Run a witness on a disk called plain, small or drive."""
    with _disk(folder, disk) as made, far_sshd(folder / "sshd") as sshd:
        try:
            yield WitnessHost(sshd, made, folder / "clock")
        finally:
            sshd.close()  # before its disk is unmounted


@contextlib.contextmanager
def _disk(folder: Path, kind: str) -> Iterator[Disk]:
    if kind == "plain":
        yield PlainDisk(folder)
        return
    if kind == "drive":
        with _drive(folder) as storage:
            yield DriveDisk(storage)
        return
    image, mounted = folder / "image", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(_SMALL_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    options = "loop,errors=remount-ro"
    subprocess.run(["mount", "-o", options, str(image), str(mounted)], check=True)
    try:
        yield SmallDisk(mounted)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@contextlib.contextmanager
def _drive(folder: Path) -> Iterator[DriveStorage]:
    drive = DriveSpec(size_bytes=320 << 20, flush_ms=0, kept_writes="torn")
    storage = DriveStorage(LabSpec("mariadb", filesystem="ext4", drive=drive), folder)
    storage.folder.mkdir(exist_ok=True)
    storage.build()
    try:
        yield storage
    finally:
        storage.set({"flush_ms": 0})
        storage.close(MariadbServer(folder / "none", folder / "none"))
