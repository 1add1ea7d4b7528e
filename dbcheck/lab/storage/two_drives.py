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

_APART = 1 << 32  # between the seeds of the two: each loses writes of its own


class TwoDrives:
    """Data and log, each on a drive with a filesystem of its own (storage.Storage)."""

    def __init__(
        self, spec: LabSpec, base: Path, recordings: Recordings | None = None
    ) -> None:
        log = dataclasses.replace(spec.drive, seed=spec.drive.seed + _APART)
        self._data = DriveStorage(spec, base, recordings=recordings)
        log_spec = dataclasses.replace(spec, drive=log)
        self._log = DriveStorage(log_spec, base, LOG_DRIVE, recordings)
        self._both = (self._data, self._log)
        self.folder = self._data.folder
        self.log_folder: Path | None = self._log.folder
        self.sends_flushes = self._log.sends_flushes

    def build(self) -> None:
        """Make both."""
        for each in self._both:
            each.build()

    def flush_all(self) -> None:
        """Make all that was written to either stable."""
        for each in self._both:
            each.flush_all()

    @contextlib.contextmanager
    def without_latency(self) -> Iterator[None]:
        """Let flushes and writes of both cost nothing for a while."""
        with self._data.without_latency(), self._log.without_latency():
            yield

    def cut(
        self, server: DatabaseServer, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Freeze both drives before either loses its cache.

        The report has the sums.  A commit must flush the log's drive; the data's may
        see no flush between two checkpoints.
        """
        cut_us = min([each.freeze() for each in self._both])
        server.kill_now()
        data = self._data.lose_cache(flushes_expected=False)
        log = self._log.lose_cache(flushes_expected=flushes_expected)
        return cut_us, {**_add_reports(data, log), "wiring": log["wiring"]}

    def cut_drives_alone(
        self, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Freeze both before either loses its cache, under a server that runs."""
        cut_us = min([each.freeze() for each in self._both])
        data = self._data.abandon(flushes_expected=False)
        log = self._log.abandon(flushes_expected=flushes_expected)
        return cut_us, {**_add_reports(data, log), "wiring": log["wiring"]}

    def end_cut(self, server: DatabaseServer) -> None:
        """Kill the server, unmount and detach both."""
        server.kill()
        for each in self._both:
            each.unmount()

    def power_on(self, image: Path | None = None, *, mount: bool = True) -> None:
        """Attach and mount both; an image of the log's drive ends in ".log"."""
        self._data.power_on(image, mount=mount)
        log_image = image and image.with_name(f"{image.name}.log")
        self._log.power_on(log_image, mount=mount)

    def drives(self) -> tuple[str, ...]:
        """Return the serials of both."""
        return (*self._data.drives(), *self._log.drives())

    def start_counting(self) -> None:
        """Count both from zero."""
        for each in self._both:
            each.start_counting()

    def counters(self) -> dict[str, int]:
        """Return the sum of both drives' counters."""
        data, log = self._data.counters(), self._log.counters()
        return {name: data[name] + log[name] for name in data}

    def set(self, changes: Mapping[str, Any]) -> None:
        """Change both; a seed becomes one for each."""
        self._data.set(changes)
        apart = {"seed": changes["seed"] + _APART} if "seed" in changes else {}
        self._log.set({**changes, **apart})

    def record(self) -> None:
        """Record what both are asked, each from a moment of its own on."""
        for each in self._both:
            each.record()

    def save_recordings(self) -> None:
        """Store what both recorded."""
        for each in self._both:
            each.save_recordings()

    def show(self, server: DatabaseServer, states: Sequence[Shown]) -> None:
        """End *server* and have both hold a crash state, the data's drive first."""
        for each in self._both:
            each.freeze()
        server.kill_now()
        for each in self._both:
            each.fail()
        self.end_cut(server)
        for each, (whole, parts) in zip(self._both, states, strict=True):
            each.hold(whole, parts)

    def blocks(self) -> list[FileBlocks]:
        """Return the blocks of each file on both drives, the data's drive first."""
        folders = [each.folder for each in self._both]
        return [
            found
            for drive, folder in enumerate(folders)
            for found in list_file_blocks(folder, drive)
        ]

    def failure(self) -> str | None:
        """Say that one of them is dead, or None."""
        return self._data.failure() or self._log.failure()

    def close(self, server: DatabaseServer) -> None:
        """Fail both, so that nothing waits for them; end all that is built on them."""
        for each in self._both:
            each.fail()
        try:
            self.end_cut(server)
        finally:
            for each in self._both:
                each.discard()


def _add_reports(data: dict[str, object], log: dict[str, object]) -> dict[str, int]:
    """Return the numbers of two reports, in sum."""
    sums = {}
    for name, value in data.items():
        other = log[name]
        if isinstance(value, int) and isinstance(other, int):
            sums[name] = value + other
    return sums
