"""Contract of a lab's storage: where data are, and what a power cut does to them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.system import now_us
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.storage.blocks import FileBlocks

_NO_DRIVE, _START_WITH_DRIVE = "this lab has no drive", "Start a lab with --cut drive."


class CopiedDrive(Protocol):
    """A drive of a storage, which can be copied at one moment.

    name: of the drive, and of its mount point.  spec: the lab's, with this drive's.
    folder: where its filesystem is mounted while the power is on.
    Each call raises LabError if the drive is gone or refuses it.
    """

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> LabSpec: ...

    folder: Path

    def hold_requests(self) -> None:
        """Have the drive take no request until go_on(), for a moment at most."""

    def begin_copy(self, file: int) -> None:
        """Have what the held drive holds now written into the open *file*.

        That is all that was written to it by now, flushed or not.
        """

    def go_on(self) -> None:
        """Take requests again; raise LabError if the drive did so by itself."""

    def copy_is_complete(self) -> bool:
        """Return whether the copy is written; raise LabError if that failed."""

    def give_copy_up(self) -> None:
        """Write no copy any more; never raises."""


class Storage(Protocol):
    """Storage that can lose its power.

    folder: where files live while the power is on.
    log_folder: where the server's log is, None if beside its data.
    sends_flushes: whether what is stacked on the drive is meant to flush it.
    """

    folder: Path
    log_folder: Path | None
    sends_flushes: bool

    def build(self) -> None:
        """Make it from nothing."""

    def flush_all(self) -> None:
        """Make everything that was written stable, whatever the drive is."""

    def without_latency(self) -> contextlib.AbstractContextManager[None]:
        """Let flushes and writes cost nothing for a while."""

    def cut(
        self, server: DatabaseServer, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Take the power away and kill *server*; end_cut() is to follow.

        Return when the power was gone (CLOCK_MONOTONIC, in microseconds) and a
        report: what the drive did since start_counting(), what it lost; and, as
        "wiring", what contradicts the expectation that it saw flushes, or None.
        """

    def cut_drives_alone(
        self, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Do what cut() does to drives alone: server and filesystem are left to it.

        Raise LabError without a drive.
        """

    def end_cut(self, server: DatabaseServer) -> None:
        """End *server* and what still holds the storage that lost its power.

        May be repeated, also after a power_on() that failed; raise LabError if
        something does not end in its time.
        """

    def power_on(self, image: Path | None = None, *, mount: bool = True) -> None:
        """Make the files reachable again; raise LabError if that fails.

        image: a new file that is first to hold what the cut left of the drive.
        mount: False leaves that to whoever asked: the devices alone are there.
        """

    @property
    def parts(self) -> tuple[CopiedDrive, ...]:
        """The drives, the data's first; () without any."""

    def drives(self) -> tuple[str, ...]:
        """Return the serials of its drives, see LoopDevice.serial; () without any."""

    def start_counting(self) -> None:
        """Count from zero."""

    def counters(self) -> dict[str, int]:
        """Return the drive's counters since start_counting()."""

    def set(self, changes: Mapping[str, Any]) -> None:
        """Change settings of the drive, see DriveSpec.changed()."""

    def record(self) -> None:
        """Record from now on all that its drives are asked, until the power is cut.

        Raise LabError without a drive, or without a file for what it records.
        """

    def save_recordings(self) -> None:
        """Store what was recorded, once the power was cut; raise LabError."""

    def show(self, server: DatabaseServer, states: Sequence[Shown]) -> None:
        """End *server* and have the drives hold a crash state of their recordings.

        states: one for each drive.  The power is off then: power_on() is to follow.
        """

    def blocks(self) -> list[FileBlocks]:
        """Return the place of each file's blocks on its drives."""

    def failure(self) -> str | None:
        """Return the reason why it is dead, or None."""

    def close(self, server: DatabaseServer) -> None:
        """End *server*, then the storage; what it holds is lost."""


class FolderStorage:
    """A plain folder, which loses nothing: what was written is in the page cache."""

    sends_flushes = False
    log_folder: Path | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: tuple[CopiedDrive, ...] = ()

    def build(self) -> None:
        """Do nothing: the folder is there."""

    def flush_all(self) -> None:
        """Do nothing: nothing can be lost."""

    def without_latency(self) -> contextlib.AbstractContextManager[None]:
        """Change nothing."""
        return contextlib.nullcontext()

    def cut(
        self, server: DatabaseServer, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Strike the server."""
        cut_us = now_us()
        server.kill_now()
        return cut_us, {"wiring": None}

    def cut_drives_alone(
        self, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Refuse: raise LabError."""
        raise LabError(_NO_DRIVE, id=ErrorId.DRIVE_CUT_NEEDED, hint=_START_WITH_DRIVE)

    def end_cut(self, server: DatabaseServer) -> None:
        """Kill the server."""
        server.kill()

    def power_on(self, image: Path | None = None, *, mount: bool = True) -> None:
        """Do nothing: the folder is there, and no drive is."""

    def drives(self) -> tuple[str, ...]:
        """Return (): it has none."""
        return ()

    def start_counting(self) -> None:
        """Do nothing: nothing is counted."""

    def counters(self) -> dict[str, int]:
        """Return nothing."""
        return {}

    def set(self, changes: Mapping[str, Any]) -> None:
        """Refuse: raise LabError."""
        raise LabError(_NO_DRIVE, id=ErrorId.DRIVE_CUT_NEEDED, hint=_START_WITH_DRIVE)

    def record(self) -> None:
        """Refuse: raise LabError."""
        raise LabError(_NO_DRIVE, id=ErrorId.DRIVE_CUT_NEEDED, hint=_START_WITH_DRIVE)

    def save_recordings(self) -> None:
        """Refuse: raise LabError."""
        raise LabError(_NO_DRIVE, id=ErrorId.DRIVE_CUT_NEEDED, hint=_START_WITH_DRIVE)

    def show(self, server: DatabaseServer, states: Sequence[Shown]) -> None:
        """Refuse: raise LabError."""
        raise LabError(_NO_DRIVE, id=ErrorId.DRIVE_CUT_NEEDED, hint=_START_WITH_DRIVE)

    def blocks(self) -> list[FileBlocks]:
        """Refuse: raise LabError."""
        raise LabError(_NO_DRIVE, id=ErrorId.DRIVE_CUT_NEEDED, hint=_START_WITH_DRIVE)

    def failure(self) -> str | None:
        """Return None: a folder does not die."""
        return None

    def close(self, server: DatabaseServer) -> None:
        """Kill the server; whoever made the folder above removes this one with it."""
        server.kill()
