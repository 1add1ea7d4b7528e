"""Protocol of the target's host; each docstring is the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dbcheck.model.depth import Completed, Remains
from dbcheck.model.flushes import Sample, Shape, Timed
from dbcheck.model.host import LogMarks, LogTail, Readings, TargetFacts, Volume
from dbcheck.model.places import FoundData, Place
from dbcheck.model.watched import Folders, Looked


class Canaries(Protocol):
    """Writes on the target's host that are never flushed; see model.depth."""

    @property
    def folder(self) -> str:
        """Folder in which the canaries write."""

    @property
    def nonce(self) -> str:
        """Unique id of these canaries."""

    def completed(self, until_us: int | None = None) -> Completed:
        """Return the numbers completed, as far as is known here.

        until_us: on the client's clock, None: until the end.
        """

    def last_progress_us(self) -> int | None:
        """Return the time of the last report of newly written blocks, or None."""

    def heard_us(self) -> int | None:
        """Return their last report's arrival on the client's clock in us, or None."""

    def reported_us(self) -> int | None:
        """Return when the host sent that report, on the client's clock, or None."""

    def answered(self) -> bool:
        """True if the host answered stop(), and so had its power until then."""

    def stop(self) -> None:
        """End the canaries; never raises."""


class Look(Protocol):
    """Looks at a server or a host, over a connection of its own."""

    def read(self) -> Looked:
        """Return the facts as of now; blocks.  Raise EngineError or HostError."""

    def sever(self) -> None:
        """End a read() of another thread, which then raises; never raises."""

    def close(self) -> None:
        """End the connection; never raises."""


class Counting(Protocol):
    """The counters of block devices of a host, over a channel of their own."""

    def read(self) -> Sample:
        """Read the counters as of now; raise HostError."""

    def close(self) -> None:
        """End the channel; a read() in another thread then fails.  Never raises."""


class TargetHost(Protocol):
    """The host that the server runs on; every call may raise HostError."""

    def reach(self) -> None:
        """Connect, unless that was done; every other call does so by itself."""

    def facts(
        self, data_directory: str, places: Sequence[Place] = (), process: int = 0
    ) -> TargetFacts:
        """Describe the host, and what the data directory and *places* lie on.

        process: whose view of the paths counts, see FoundData.
        """

    def readings(self, volumes: Sequence[Volume]) -> Readings:
        """Read the host's files and tools about the devices of *volumes*."""

    def counting(self, devices: Sequence[str]) -> Counting:
        """Open the counters of block devices."""

    def look(
        self,
        facts: TargetFacts,
        data_directory: str,
        places: Sequence[Place],
        known: dict[str, Folders],
    ) -> Look:
        """Connect to look at mounts and devices of *facts*, and at the places.

        known: where each place lay when it was first seen, by its name.  A look adds
               the places that it sees first.
        """

    def file_windows(
        self, folder: str, devices: Sequence[str], writes: int
    ) -> tuple[Sample, ...]:
        """Write and flush a file without a name in *folder*; count what devices do."""

    def time_writes(
        self,
        folder: str,
        shape: Shape,
        devices: Sequence[str],
        count: int,
        time_s: float,
    ) -> Timed:
        """Time writes to a file without a name in *folder*, at most *count*."""

    def fileio(
        self, folder: str, at_once: int, *, flushed: bool, time_s: int
    ) -> tuple[str, str]:
        """Return fio's output on random writes in *folder*, or why it cannot run."""

    def find_data(self, data_directory: str) -> Sequence[FoundData]:
        """Find the directories at that path: the host's own, and those in containers.

        The host's own comes first.  Raise HostError if there is none.
        """

    def find_log(self, path: str, process: int) -> str:
        """Return the host's path of a log that a process has at *path*.

        Raise HostError, also if the host has no path to it.
        """

    def mark_log(self, path: str) -> LogMarks:
        """Note the present end of the log, or of each log of a folder."""

    def read_log(self, path: str, marks: LogMarks) -> LogTail:
        """Read the log since the marks."""

    def shutdown_record(self, boot_id: str, since_us: int) -> str:
        """Return the host's record of an orderly shutdown of that boot, or ""."""

    def start_canaries(self, data_directory: str) -> Canaries:
        """Start canaries on the filesystem of the data directory."""

    def read_canaries(self, folder: str, nonce: str) -> Remains:
        """Read what survived of the canaries in *folder* that *nonce* names."""

    def remove_canaries(self, folder: str) -> None:
        """Delete a folder of canaries."""

    def close(self) -> None:
        """End the connection; the next call makes a new one; never raises."""
