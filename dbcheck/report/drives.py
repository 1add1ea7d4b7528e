"""Says in words how drives did during a load, and what a lab's drive does wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dbcheck.model.flushes import Counts, UnderLoad
from dbcheck.model.witness import Json

_PERSONALITIES = {
    "lying": "it ignores flushes",
    "fickle": "at some power-ons it ignores flushes",
    "failing": "it ignores flushes after the first {honest_flushes:,}",
    "reordering": "a flush covers only the newest {newest_bytes:,} bytes of what was"
    " written since the last one",
}
# Each is a fault where the field that it begins with is not 0.
_FAULTS = {
    "lost_above_bytes": "no flush covers a write of more than {lost_above_bytes:,}"
    " bytes",
    "tear_bytes": "a flush covers only what a write has in the first of the drive's"
    " blocks of {tear_bytes:,} bytes",
    "forget_bytes": "each cut leaves zeros in {forget_bytes:,} bytes from byte"
    " {forget_at_bytes:,} on",
}
_NUMBERS = (*_FAULTS, "honest_flushes", "newest_bytes", "forget_at_bytes")


def describe_faults(drive: Json) -> Iterator[str]:
    """Yield a clause for each fault of a drive; nothing for one that has none.

    drive: a DriveSpec's values.  It may lack some, and a forged one hold anything.
    """
    numbers = {name: _parse_number(drive.get(name)) for name in _NUMBERS}
    if (text := _PERSONALITIES.get(str(drive.get("personality")))) is not None:
        yield text.format(**numbers)
    for name, text in _FAULTS.items():
        if numbers[name]:
            yield text.format(**numbers)


def _parse_number(value: object) -> int:
    return value if isinstance(value, int) else 0


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


def list_drive_rates(done: UnderLoad) -> list[DriveRate]:
    """Return the rates of each drive, that with the most flushes first."""
    rates = list(_compute_rates(done))
    return sorted(rates, key=lambda rate: (-(rate.flushes_per_s or 0.0), rate.drive))


def _compute_rates(done: UnderLoad) -> Iterator[DriveRate]:
    seconds = done.seconds or 1.0  # of nothing: then all counts are 0
    for name, counts in done.drives.items():
        flushes = counts.flushes
        yield DriveRate(
            name,
            counts.writes / seconds,
            counts.bytes_written / seconds / 1e6,
            None if flushes is None else flushes / seconds,
            _compute_flush_ms(counts),
            done.acked / flushes if flushes else None,
        )


def _compute_flush_ms(counts: Counts) -> float | None:
    if not counts.flushes or counts.flush_ms is None:
        return None
    return counts.flush_ms / counts.flushes
