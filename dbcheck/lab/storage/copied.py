"""Copies of the drives of a lab, as snapshots of volumes are: taken, and mounted.

A copy has what was written to the drive by one moment, also what was not flushed.  So
has a snapshot of LVM, ZFS or a cloud's volume: it is taken above the write cache of the
medium, and asks for no loss of power (docs/decisions/volumes.md).

The drives of one group are copied at one moment: none of them takes a request until all
are being copied.  So a write to one that came after the completion of a write to
another one is in no copy that lacks the earlier write.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import mounts
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage.base import CopiedDrive
from dbcheck.lab.storage.drive import mount_safely

_IMAGE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def find_image(folder: Path, drive: CopiedDrive) -> Path:
    """Return the file of the copy of *drive* in the folder of a copy."""
    return folder / f"{drive.name}.image"


class TakingOfDrives:
    """Copies groups of drives, one after the other, beside the daemon's other work.

    groups: the drives of each are copied at one moment.
    apart_s: seconds from one group's moment to that of the next.
    folder: a new folder of this process, for the images; it is made here.
    """

    def __init__(
        self, groups: Sequence[Sequence[CopiedDrive]], apart_s: float, folder: Path
    ) -> None:
        folder.mkdir(mode=0o700)
        self._left = list(groups)
        self._apart_s, self._folder = apart_s, folder
        self._due_s = time.monotonic()
        self._writing: list[CopiedDrive] = []
        self.poll()

    def poll(self) -> bool:
        """Copy the next group if that is due; return whether all copies are written.

        Raise LabError if one cannot be taken.
        """
        if self._left and time.monotonic() >= self._due_s:
            group = self._left.pop(0)
            self._writing += group
            copy_at_one_moment(group, self._folder)
            self._due_s = time.monotonic() + self._apart_s
        self._writing = [each for each in self._writing if not each.copy_is_complete()]
        return not self._left and not self._writing

    def kill(self) -> None:
        """Write no copy any more."""
        self._left.clear()
        for drive in self._writing:
            drive.give_copy_up()
        self._writing = []


def copy_at_one_moment(drives: Sequence[CopiedDrive], folder: Path) -> None:
    """Have all *drives* copied as they are at one moment, into images in *folder*.

    They are held for as long as it takes to begin.  Raise LabError if one was not held
    until all copies were begun.
    """
    held: list[CopiedDrive] = []
    try:
        for drive in drives:
            drive.hold_requests()
            held.append(drive)
        for drive in drives:
            image = find_image(folder, drive)
            file = os.open(image, _IMAGE_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                drive.begin_copy(file)
            finally:
                os.close(file)
        while held:
            held.pop().go_on()
    finally:
        for drive in held:
            with contextlib.suppress(LabError):
                drive.go_on()


class MountedCopy:
    """The filesystem of a copied drive, mounted on a folder of its own.

    It is gone with this process's namespace, however that ends.
    """

    def __init__(self, drive: CopiedDrive, mountpoint: Path) -> None:
        """Mount nothing yet; *mountpoint* is made by mount()."""
        self.drive, self.folder = drive, mountpoint
        self._loop: block.LoopDevice | None = None

    def mount(self, folder: Path) -> None:
        """Mount the image of the copy in *folder*, which replays its journal.

        Raise Unrecoverable if the kernel refuses it, another LabError if no copy is
        there or this machine lacks something.
        """
        self.unmount()
        self.folder.mkdir(exist_ok=True)
        try:
            file = os.open(find_image(folder, self.drive), _IMAGE_FLAGS)
        except OSError as error:
            raise LabError(
                f"the lab has no copy {folder.name} of its drive {self.drive.name}",
                id=ErrorId.COPY_NOT_TAKEN,
                hint="Run it again.",
            ) from error
        try:
            # Nothing will cut this drive, so no flush has to reach it.
            self._loop = block.attach(file, block.WRITE_THROUGH)
        finally:
            os.close(file)
        mount_safely(self._loop.path, self.folder, self.drive.spec, beside=True)

    def unmount(self) -> None:
        """Unmount it and detach its device, if it is mounted; raise LabError."""
        if self._loop is not None:
            mounts.release(self.folder)
            self._loop.detach()
            self._loop = None
