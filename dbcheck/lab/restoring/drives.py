"""The methods that copy a lab's drives, as snapshots of volumes are taken.

Nothing is asked of the server: the restored one finds its data as after a power cut.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import ClassVar

from dbcheck.lab.restoring.methods import CopyMethod
from dbcheck.lab.storage.base import CopiedDrive
from dbcheck.lab.storage.copied import MountedCopy, TakingOfDrives


class Drives(CopyMethod):
    """All drives of the server, copied at one moment."""

    drives_min: ClassVar[int] = 1
    apart_s: ClassVar[float] = 0.0

    @cached_property
    def _mounted(self) -> list[MountedCopy]:
        """Where the copies of the drives are mounted once they are restored."""
        run = self._restored.run
        return [
            MountedCopy(drive, run.with_name(f"{run.name}-{drive.name}"))
            for drive in self._drives
        ]

    def begin_taking(self, copy: Path) -> TakingOfDrives:
        return TakingOfDrives(self._group_drives(), self.apart_s, copy)

    def _group_drives(self) -> list[tuple[CopiedDrive, ...]]:
        """Return the groups, each of which is copied at one moment."""
        return [self._drives]

    def prepare(self, copy: Path) -> None:
        """Mount the copies; have the server start on them with its log's own."""
        for mounted in self._mounted:
            mounted.mount(copy)
        data, *logs = (mounted.folder for mounted in self._mounted)
        for log in logs:  # named as on the original's drive
            original = self._original.log_data
            self._restored.log_data = log / original.name if original else None
        super().prepare(data / self._original.data.name)
        self._restored.relocate_log()

    def release(self) -> None:
        for mounted in self._mounted:
            mounted.unmount()

    def list_folders(self) -> list[tuple[str, str]]:
        return [(str(each.drive.folder), str(each.folder)) for each in self._mounted]


class DrivesApart(Drives):
    """The log's drive first, and the data's some seconds later: no valid copy.

    Pages of the tables are then newer than the log that recovery applies to them.
    """

    drives_min: ClassVar[int] = 2
    apart_s: ClassVar[float] = 3.0

    def _group_drives(self) -> list[tuple[CopiedDrive, ...]]:
        return [(drive,) for drive in reversed(self._drives)]
