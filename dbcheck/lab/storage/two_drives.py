"""Two virtual drives behind one switch: the server's data, and its log."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import LOG_DRIVE, LabSpec
from dbcheck.lab.storage.blocks import FileBlocks, list_file_blocks
from dbcheck.lab.storage.drive import DriveStorage

# Between the seeds of the drives, so that they lose different writes.
_SEED_DISTANCE = 1 << 32


class TwoDrives:
    """Data and log, each on a drive with a filesystem of its own (a Storage)."""

    def __init__(
        self, spec: LabSpec, base: Path, recordings: Recordings | None = None
    ) -> None:
        log = dataclasses.replace(spec.drive, seed=spec.drive.seed + _SEED_DISTANCE)
        self._data = DriveStorage(spec, base, recordings=recordings)
        log_spec = dataclasses.replace(spec, drive=log)
        self._log = DriveStorage(log_spec, base, LOG_DRIVE, recordings)
        self._both = (self._data, self._log)
        self.folder = self._data.folder
        self.log_folder: Path | None = self._log.folder
        self.sends_flushes = self._log.sends_flushes

    def build(self) -> None:
        """Make both drives."""
        for drive in self._both:
            drive.build()

    def flush_all(self) -> None:
        """Make all that was written to either drive stable."""
        for drive in self._both:
            drive.flush_all()

    @contextlib.contextmanager
    def without_latency(self) -> Iterator[None]:
        """Let flushes and writes of both drives take no time while the body runs."""
        with self._data.without_latency(), self._log.without_latency():
            yield

    def cut(
        self, server: DatabaseServer, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Freeze both drives before either loses its cache.

        The report has the sums of both drives' numbers.  A commit must flush the log's
        drive; the data's drive may see no flush between two checkpoints.
        """
        cut_us = min([drive.freeze() for drive in self._both])
        server.kill_now()
        data = self._data.lose_cache(flushes_expected=False)
        log = self._log.lose_cache(flushes_expected=flushes_expected)
        return cut_us, {**_add_reports(data, log), "wiring": log["wiring"]}

    def cut_drives_alone(
        self, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Freeze both drives before either loses its cache, under a running server."""
        cut_us = min([drive.freeze() for drive in self._both])
        data = self._data.abandon(flushes_expected=False)
        log = self._log.abandon(flushes_expected=flushes_expected)
        return cut_us, {**_add_reports(data, log), "wiring": log["wiring"]}

    def end_cut(self, server: DatabaseServer) -> None:
        """Kill the server, unmount and detach both drives."""
        server.kill()
        for drive in self._both:
            drive.unmount()

    def power_on(self, image: Path | None = None, *, mount: bool = True) -> None:
        """Attach and mount both drives; the image of the log's drive ends in ".log"."""
        self._data.power_on(image, mount=mount)
        log_image = image and image.with_name(f"{image.name}.log")
        self._log.power_on(log_image, mount=mount)

    @property
    def parts(self) -> tuple[DriveStorage, ...]:
        """Return both drives, the data's drive first."""
        return self._both

    def drives(self) -> tuple[str, ...]:
        """Return the serial of each drive."""
        return (*self._data.drives(), *self._log.drives())

    def start_counting(self) -> None:
        """Begin the counters of both drives at zero."""
        for drive in self._both:
            drive.start_counting()

    def counters(self) -> dict[str, int]:
        """Return the sum of both drives' counters."""
        data, log = self._data.counters(), self._log.counters()
        return {name: data[name] + log[name] for name in data}

    def set(self, changes: Mapping[str, Any]) -> None:
        """Change both drives; of a new seed each gets its own."""
        self._data.set(changes)
        log_seed = (
            {"seed": changes["seed"] + _SEED_DISTANCE} if "seed" in changes else {}
        )
        self._log.set({**changes, **log_seed})

    def record(self) -> None:
        """Record the requests to both drives; they begin at different moments."""
        for drive in self._both:
            drive.record()

    def save_recordings(self) -> None:
        """Store what both drives recorded."""
        for drive in self._both:
            drive.save_recordings()

    def show(self, server: DatabaseServer, states: Sequence[Shown]) -> None:
        """End *server* and give each drive a crash state, the data's drive first."""
        for drive in self._both:
            drive.freeze()
        server.kill_now()
        for drive in self._both:
            drive.fail()
        self.end_cut(server)
        for drive, (whole, parts) in zip(self._both, states, strict=True):
            drive.hold(whole, parts)

    def blocks(self) -> list[FileBlocks]:
        """Return the blocks of each file on both drives, the data's drive first."""
        folders = [drive.folder for drive in self._both]
        return [
            file
            for number, folder in enumerate(folders)
            for file in list_file_blocks(folder, number)
        ]

    def failure(self) -> str | None:
        """Return why one of the drives is dead, None if neither is."""
        return self._data.failure() or self._log.failure()

    def close(self, server: DatabaseServer) -> None:
        """Fail both drives, so that nothing waits for them; end all that uses them."""
        for drive in self._both:
            drive.fail()
        try:
            self.end_cut(server)
        finally:
            for drive in self._both:
                drive.discard()


def _add_reports(data: dict[str, object], log: dict[str, object]) -> dict[str, int]:
    """Return the sums of the numbers in the reports of the two drives."""
    sums = {}
    for name, data_value in data.items():
        log_value = log[name]
        if isinstance(data_value, int) and isinstance(log_value, int):
            sums[name] = data_value + log_value
    return sums
