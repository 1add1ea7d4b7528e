"""Counts of writes and flushes of block devices, and times of durable writes.

Linux, Documentation/block/stat.rst: a device's "stat" has the numbers of writes that
were completed (field 5), their sectors of 512 bytes (7) and milliseconds (8), and since
Linux 5.5 those of flushes (16, 17).  A flush is counted when it is over, and before the
process that waits for it goes on (block/blk-flush.c, flush_end_io).  Flushes are
counted only where the kernel queues requests: not at a partition, and not at the layers
of device-mapper, md and bcache that pass everything on at once.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SECTOR_BYTES = 512
_WRITES, _SECTORS, _WRITE_MS, _FLUSHES, _FLUSH_MS = 4, 6, 7, 15, 16


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one device: since its kernel found it, or between two moments.

    bytes_written: what the writes held.  write_ms, flush_ms: how long all of them took,
    in milliseconds.  flushes, flush_ms: None where this device does not count them.
    """

    writes: int
    bytes_written: int
    write_ms: int
    flushes: int | None
    flush_ms: int | None

    @classmethod
    def of(cls, stat: Sequence[int], *, queues: bool) -> Counts:
        """Return the counts in the fields of a device's file "stat".

        queues: the kernel queues requests at the device.  Raise ValueError if
        there are too few fields.
        """
        if len(stat) <= _WRITE_MS:
            raise ValueError(f"{len(stat)} fields, too few for a device")
        is_counted = queues and len(stat) > _FLUSH_MS
        return cls(
            stat[_WRITES],
            stat[_SECTORS] * SECTOR_BYTES,
            stat[_WRITE_MS],
            stat[_FLUSHES] if is_counted else None,
            stat[_FLUSH_MS] if is_counted else None,
        )

    def since(self, earlier: Counts) -> Counts:
        """Return the difference to *earlier*."""
        return Counts(
            self.writes - earlier.writes,
            self.bytes_written - earlier.bytes_written,
            self.write_ms - earlier.write_ms,
            _subtract(self.flushes, earlier.flushes),
            _subtract(self.flush_ms, earlier.flush_ms),
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts of several devices at one moment.

    at_us: on the monotonic clock of the host, microseconds.  A device that could not be
    read is left out.
    """

    at_us: int
    devices: Mapping[str, Counts]


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """Work of the drives during a load, from before its first commit on.

    seconds: from the first sample to the last one.
    acked:   commits that were answered meanwhile, at least.
    drives:  by name, those that were counted at both samples.
    """

    seconds: float
    acked: int
    drives: Mapping[str, Counts]


def _subtract(now: int | None, earlier: int | None) -> int | None:
    return None if now is None or earlier is None else now - earlier


class Method(enum.StrEnum):
    """Method to make a write durable, as a server can do it (open(2), pwritev2(2))."""

    FSYNC = "fsync"
    FDATASYNC = "fdatasync"
    DSYNC = "O_DSYNC"
    DIRECT = "O_DIRECT + fdatasync"
    RWF_DSYNC = "RWF_DSYNC"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of write: so many bytes at an offset of a file, over and over."""

    method: Method
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Writes of one shape.

    took_ns: how long each write took until it was durable, in nanoseconds, in order.
    before, after: what the devices had done; device counters count whole milliseconds.
    why: the reason why no write was timed, "" if writes were.
    """

    took_ns: tuple[int, ...]
    before: Sample
    after: Sample
    why: str = ""
