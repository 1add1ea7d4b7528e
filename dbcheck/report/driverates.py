"""What drives did for each second of a load, and for each commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dbcheck.model.flushes import Counts, UnderLoad


@dataclass(frozen=True, slots=True)
class DriveRate:
    """One drive.

    flush_ms: how long a flush took on the average, milliseconds.
    None where the kernel counts no flushes, or where there was none to divide by.
    """

    drive: str
    writes_per_s: float
    megabytes_per_s: float
    flushes_per_s: float | None
    flush_ms: float | None
    commits_per_flush: float | None

    def __str__(self) -> str:
        wrote = f"{self.writes_per_s:,.0f} writes/s, {self.megabytes_per_s:,.1f} MB/s"
        if self.flushes_per_s is None:
            return f"{self.drive}: flushes are not counted, {wrote}"
        each = f" of {self.flush_ms:.2f} ms" if self.flush_ms is not None else ""
        return f"{self.drive}: {self.flushes_per_s:,.0f} flushes/s{each}, {wrote}"


def drive_rates(done: UnderLoad) -> list[DriveRate]:
    """Return the rates of each drive, that with the most flushes first."""
    rates = list(_rates(done))
    return sorted(rates, key=lambda rate: (-(rate.flushes_per_s or 0.0), rate.drive))


def _rates(done: UnderLoad) -> Iterator[DriveRate]:
    seconds = done.seconds or 1.0  # of nothing: then all counts are 0
    for name, counts in done.drives.items():
        flushes = counts.flushes
        yield DriveRate(
            name,
            counts.writes / seconds,
            counts.bytes_written / seconds / 1e6,
            None if flushes is None else flushes / seconds,
            _flush_ms(counts),
            done.acked / flushes if flushes else None,
        )


def _flush_ms(counts: Counts) -> float | None:
    if not counts.flushes or counts.flush_ms is None:
        return None
    return counts.flush_ms / counts.flushes
