"""A drive, a loop device and a filesystem, one upon the other, for tests that cut."""

from __future__ import annotations

from pathlib import Path

from dbcheck.lab import mounts
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.model import CutReport
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.spec import DriveSpec
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage import filesystem as block_filesystem


class Storage:
    """A drive and what is on it; "" for no filesystem, but the bare device."""

    def __init__(
        self,
        folder: Path,
        spec: DriveSpec,
        filesystem: str,
        options: str = "",
        write_cache: str = block.WRITE_BACK,
    ) -> None:
        self.filesystem, self.options = filesystem, options
        self.write_cache = write_cache
        self.mountpoint = folder / "mnt"
        self.mountpoint.mkdir()
        file = folder / "drive"
        file.touch()
        self.drive = DriveProcess.start(spec, file)
        self.device: block.LoopDevice | None = None
        try:
            self.device = block.attach(self.drive.descriptor, write_cache)
            if filesystem:
                block_filesystem.mkfs(self.device.path, filesystem)
            self.mount()
            self.drive.call(DriveServer.flush_all)
        except BaseException:
            self.close()
            raise

    def mount(self) -> None:
        """Attach the device, if it is not, and mount it."""
        if self.device is None:
            self.device = block.attach(self.drive.descriptor, self.write_cache)
        if self.filesystem:
            block_filesystem.mount(
                self.device.path, self.mountpoint, self.filesystem, self.options
            )

    def unmount(self) -> None:
        """Unmount the filesystem and detach the device."""
        mounts.umount(self.mountpoint)
        if self.device is not None:
            self.device.detach()
            self.device = None

    def cut(self, kept_writes: str | None = None, seed: int | None = None) -> CutReport:
        """Cut the power and restore it."""
        self.fail()
        return self.restore(kept_writes, seed)

    def fail(self) -> None:
        """Take the power away; whoever uses the drive gets I/O errors from now on."""
        self.drive.call(DriveServer.freeze)
        self.drive.call(DriveServer.fail)

    def restore(
        self, kept_writes: str | None = None, seed: int | None = None
    ) -> CutReport:
        """Lose the cache of the drive that failed, and mount what is left."""
        self.unmount()
        given = {"kept_writes": kept_writes, "seed": seed}
        changes = {name: value for name, value in given.items() if value is not None}
        self.drive.call(DriveServer.set, changes)
        report = self.drive.call(DriveServer.cut)
        self.drive.call(DriveServer.power_on)
        self.mount()
        return report

    def close(self) -> None:
        """End it all."""
        self.drive.call(DriveServer.fail)
        self.unmount()
        self.drive.close()
