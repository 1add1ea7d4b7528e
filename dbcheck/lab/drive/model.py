"""One drive with a volatile write cache: bytes and times in, bytes out.

No clock and no descriptor in here; whoever serves the drive passes the time, in
seconds of one monotonic clock.

The drive keeps the bytes as a reader sees them and, for each cached write, the
bytes that it replaced.  Cached writes become stable oldest first, so a destaged
write is simply forgotten, and a cut takes the cached ones back, newest first.  A
flush, which a database waits for, therefore copies nothing.
"""

from __future__ import annotations

import enum
import math
import mmap
import random
from collections import deque
from dataclasses import dataclass

from dbcheck.lab.drive.survivors import sectors, surviving
from dbcheck.lab.spec import DriveSpec

_ZEROS = bytes(1 << 20)


class DriveState(enum.Enum):
    """What the drive does with a request."""

    ON = "on"  # answers it
    FROZEN = "frozen"  # keeps it waiting: the power is gone
    OFF = "off"  # fails it


@dataclass(frozen=True, slots=True)
class DriveCounters:
    """What the drive was asked since it was made, and what is in its cache now.

    write_bytes:      in all writes.
    flushes:          that arrived.
    flushes_honoured: that were completed by making earlier writes stable.
    cached_writes, cached_bytes: would be at risk if the power went now.
    """

    reads: int
    writes: int
    write_bytes: int
    flushes: int
    flushes_honoured: int
    cached_writes: int
    cached_bytes: int


@dataclass(frozen=True, slots=True)
class CutReport:
    """What a cut found in the cache, and what it left.

    cached_writes, cached_bytes: in the cache when the power went.
    kept_sectors, lost_sectors:  of these writes; a sector that was written twice
    counts twice.
    """

    cached_writes: int
    cached_bytes: int
    kept_sectors: int
    lost_sectors: int


class Drive:
    """The drive that a DriveSpec describes; memory is used as it is written.

    write, zero and the flushes are for a drive that is ON: who serves it asks for
    its state first.  A write counts from the call on, so a drive that takes time
    to write calls when the time is over.
    """

    def __init__(self, spec: DriveSpec) -> None:
        """Make an empty drive that is on; all its bytes are zero."""
        self.spec = spec
        self.state = DriveState.ON
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._now = memoryview(mmap.mmap(-1, spec.size_bytes, flags=flags))
        # (when, offset, bytes before, bytes after), oldest first.
        self._cache: deque[tuple[float, int, bytes, bytes]] = deque()
        self._cached_bytes = 0
        self._destaged = 0  # writes that left the cache, so the number of its first
        self._cache_bytes = spec.cache_bytes
        self._age_s = spec.destage_age_s or math.inf
        self._through = spec.personality == "write-through"
        self._power_ons = 0
        self._honest = self._draw_honest()
        self._reads = self._writes = self._write_bytes = 0
        self._flushes = self._flushes_honoured = 0

    def read(self, offset: int, length: int) -> memoryview:
        """Return the bytes there, fewer at the drive's end; valid until a write."""
        self._reads += 1
        return self._now[offset : offset + length]

    def write(self, offset: int, content: bytes, now: float) -> None:
        """Put *content* into the cache; raise ValueError beyond the drive's end."""
        length = len(content)
        view = self._now[offset : offset + length]
        if self._through:
            view[:] = content
        else:
            before = view.tobytes()
            view[:] = content
            self._cache.append((now, offset, before, content))
            self._cached_bytes += length
            self.age(now)
        self._writes += 1
        self._write_bytes += length

    def zero(self, offset: int, length: int, now: float) -> None:
        """Write zeros, except where the drive reads as zeros already.

        What it skips would use memory to no effect: zeros written over cached
        zeros become stable no later than those below them.
        """
        end = min(offset + length, len(self._now))
        for start in range(offset, end, len(_ZEROS)):
            zeros = _ZEROS[: end - start]
            if self._now[start : start + len(zeros)] != zeros:
                self.write(start, zeros, now)

    def begin_flush(self) -> int:
        """Note that a flush arrived; return the mark that end_flush needs."""
        self._flushes += 1
        return self._destaged + len(self._cache)

    def end_flush(self, mark: int) -> None:
        """Complete a flush: what was cached when it arrived is stable, if honest."""
        if self._honest:
            self._flushes_honoured += 1
            self._destage(mark - self._destaged)

    def age(self, now: float) -> None:
        """Destage what is too old for the cache, or too much for it."""
        cache = self._cache
        while cache and (
            self._cached_bytes > self._cache_bytes or now - cache[0][0] >= self._age_s
        ):
            self._destage(1)

    def flush_all(self) -> None:
        """Make everything in the cache stable."""
        self._destage(len(self._cache))

    def _destage(self, count: int) -> None:
        cache = self._cache
        for _ in range(count):
            self._cached_bytes -= len(cache.popleft()[3])
        self._destaged += max(0, count)

    def freeze(self, now: float) -> None:
        """Take the power away at *now*: nothing becomes stable any more."""
        if self.state is DriveState.ON:
            self.age(now)
            self.state = DriveState.FROZEN

    def fail(self) -> None:
        """Answer nothing but errors from now on."""
        self.state = DriveState.OFF

    def cut(self, now: float, survivors: str, seed: int) -> CutReport:
        """Lose the cache, except for the *survivors*; freeze the drive if it is on.

        The stable bytes and the survivors are then what is read.
        """
        self.freeze(now)
        writes = [(offset, after) for _, offset, _, after in self._cache]
        cached_bytes = self._cached_bytes
        for _, offset, before, _ in reversed(self._cache):
            self._now[offset : offset + len(before)] = before
        self.flush_all()
        kept = 0
        for offset, content in surviving(survivors, writes, seed):
            self._now[offset : offset + len(content)] = content
            kept += sectors(offset, len(content))
        total = sum(sectors(offset, len(content)) for offset, content in writes)
        return CutReport(len(writes), cached_bytes, kept, total - kept)

    def power_on(self) -> None:
        """Answer requests again; a fickle drive draws again what it is."""
        if self.state is not DriveState.ON:
            self.state = DriveState.ON
            self._power_ons += 1
            self._honest = self._draw_honest()

    def _draw_honest(self) -> bool:
        """Return whether flushes are honoured until the next power-on."""
        if self.spec.personality != "fickle":
            return self.spec.personality != "lying"
        # A string is hashed: seeds that are close give draws that are not alike.
        draw = random.Random(f"fickle {self.spec.seed} {self._power_ons}")
        return draw.random() >= self.spec.lie_fraction

    def counters(self, now: float) -> DriveCounters:
        """Return the counters as of *now*."""
        if self.state is DriveState.ON:
            self.age(now)
        return DriveCounters(
            reads=self._reads,
            writes=self._writes,
            write_bytes=self._write_bytes,
            flushes=self._flushes,
            flushes_honoured=self._flushes_honoured,
            cached_writes=len(self._cache),
            cached_bytes=self._cached_bytes,
        )
