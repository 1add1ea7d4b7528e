"""A model of a drive with a volatile write cache, and of its loss in a power cut.

It reads no clock and opens no file: each caller passes the time, in seconds of one
monotonic clock.

The drive keeps the bytes as a reader sees them and, for each cached write, the
bytes that it replaced.  Cached writes become stable oldest first: their old bytes are
then dropped.  A cut puts back the old bytes of the writes that are still cached, newest
first.  So a flush, which a database waits for, copies nothing.

A drive with a fault may make a newer write stable before an older one.  Such a write
is noted as settled and stays in the cache until all older writes are stable.  A cut
undoes it like the other cached writes, and then writes it again.

DriveSpec.kept_writes names the cached writes that survive a cut.  A drive may keep each
of these without breaking a promise; docs/lab.md has the sources.

none    the cache is lost as a whole.
all     the cache outlived the cut, as one with a battery does.
prefix  writes reached the medium in the order in which they came, each as a whole.
suffix  the newest writes reached the medium first, each as a whole.
torn    as prefix, and the next write was cut in two at the end of a sector.
but-one all writes but one, each as a whole.
writes  any of the writes, in any order, each as a whole or not at all.
pages   any 16384 bytes of the writes: some drives write that many as a whole.
blocks  any 4096 bytes of the writes, the physical sector of most drives.
random  any sector of 512 bytes of the writes, the least that a drive writes at once
        (NVMe: AWUPF, "atomic write unit power fail", is one logical block or more).
"""

from __future__ import annotations

import enum
import math
import mmap
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dbcheck.lab.drive.recording import Recorder
from dbcheck.lab.spec import SECTOR_BYTES, DriveSpec

_UNIT_BYTES = {"random": SECTOR_BYTES, "blocks": 4096, "pages": 16384}

Bytes = TypeVar("Bytes", bytes, memoryview)
Write = tuple[int, bytes]  # its offset on the drive, its content


def count_sectors(offset: int, length: int) -> int:
    """Return the number of sectors that the *length* bytes at *offset* touch."""
    return (offset + length + SECTOR_BYTES - 1) // SECTOR_BYTES - offset // SECTOR_BYTES


def choose_surviving_parts(
    kind: str, writes: Sequence[tuple[int, Bytes]], seed: int
) -> Iterator[list[tuple[int, Bytes]]]:
    """Yield the surviving parts of each cached write, oldest first; [] if none.

    kind is one of spec.KEPT_WRITES.  The same kind, writes and seed give the same
    parts.  A caller that writes them in this order never puts an older sector over a
    newer one.
    """
    draw = random.Random(seed)
    count = len(writes)
    if kind in ("none", "all"):
        yield from ([write] if kind == "all" else [] for write in writes)
    elif kind == "writes":
        yield from ([write] if draw.getrandbits(1) else [] for write in writes)
    elif kind == "but-one":
        lost = draw.randrange(count) if count else 0
        yield from ([writes[n]] if n != lost else [] for n in range(count))
    elif kind in _UNIT_BYTES:
        for offset, content in writes:
            yield list(_choose_random_units(draw, offset, content, _UNIT_BYTES[kind]))
    elif kind == "suffix":
        first = draw.randrange(count + 1)
        yield from ([writes[n]] if n >= first else [] for n in range(count))
    elif kind in ("prefix", "torn"):
        whole = draw.randrange(count + 1)
        yield from ([write] for write in writes[:whole])
        for write in writes[whole : whole + 1]:
            yield list(_tear_write(draw, *write)) if kind == "torn" else []
        yield from ([] for _ in writes[whole + 1 :])
    else:
        raise ValueError(f"unknown kind of kept writes: {kind!r}")


def _choose_random_units(
    draw: random.Random, offset: int, content: Bytes, unit: int
) -> Iterator[tuple[int, Bytes]]:
    """Yield each of the drive's units in one write with probability one half."""
    end = offset + len(content)
    choice_bits = draw.getrandbits(count_sectors(offset, len(content)) or 1)
    start = offset
    while start < end:
        stop = min(end, start - start % unit + unit)
        if choice_bits & 1:
            yield start, content[start - offset : stop - offset]
        choice_bits >>= 1
        start = stop


def _tear_write(
    draw: random.Random, offset: int, content: Bytes
) -> Iterator[tuple[int, Bytes]]:
    """Yield the beginning of one write, cut at a sector boundary inside it.

    A write within one sector cannot be torn: all of it is kept, or nothing.
    """
    count = count_sectors(offset, len(content))
    kept_sectors = draw.randrange(2) if count < 2 else draw.randrange(1, count)
    stop = (offset // SECTOR_BYTES + kept_sectors) * SECTOR_BYTES - offset
    if kept_sectors:
        yield offset, content[:stop]


_ZEROS = bytes(1 << 20)

# How many writes came before a flush: as parts in the cache, and as requests.
Mark = tuple[int, int]


class DriveState(enum.Enum):
    """State of a drive, which decides what it does with a request."""

    ON = "on"  # answers the request
    FROZEN = "frozen"  # keeps the request waiting: the power is gone
    OFF = "off"  # fails the request


@dataclass(frozen=True, slots=True)
class DriveCounters:
    """Counts of the drive's requests since it was made, and its cache now.

    write_bytes:      the sum of all writes.
    flushes:          flushes that arrived.
    flushes_honoured: flushes that ended with all earlier writes stable.
    cached_writes, cached_bytes: at risk if the power went now.
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
    """Cached writes at a cut, and how much of them survived.

    cached_writes, cached_bytes: not stable when the power went.
    kept_sectors, lost_sectors:  of these writes; a sector that was written twice
    counts twice.
    """

    cached_writes: int
    cached_bytes: int
    kept_sectors: int
    lost_sectors: int


class Drive:
    """The drive that a DriveSpec describes; memory is used as it is written.

    Only a drive that is ON may be asked to write, zero or flush: the caller looks at
    its state first.  A write counts from the call on, so for a drive that takes
    time to write, the caller waits that time before the call.
    """

    def __init__(self, spec: DriveSpec) -> None:
        """Make an empty drive that is on; all its bytes are zero."""
        self.spec = spec
        self.state = DriveState.ON
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._now = memoryview(mmap.mmap(-1, spec.size_bytes, flags=flags))
        # For each cached write: its time, offset, bytes before and after; oldest first.
        self._cache: deque[tuple[float, int, bytes, bytes]] = deque()
        self._held_bytes = self._cached_bytes = 0  # of all cached, of the unsettled
        self._destaged = 0  # writes that left the cache; the number of the oldest in it
        self._flushed = 0  # number of the first write after the last flush
        self._settled: set[int] = set()  # numbers of cached writes that are stable
        # Numbers of cached writes that flushes leave out.
        self._spared: set[int] = set()
        self._cache_bytes = spec.cache_bytes
        self._age_s = spec.destage_age_s or math.inf
        self._is_write_through = spec.personality == "write-through"
        self._power_ons = 0
        self._honest = self._draw_honest()
        self._flushes_left = math.inf  # that a failing drive still honours
        self._reads = self._writes = self._write_bytes = 0
        self._flushes = self._flushes_honoured = 0
        self.recorder: Recorder | None = None
        self._recorded_from = 0  # number of writes before the recording

    def record(self, now: float) -> None:
        """Record in self.recorder from *now* until the next freeze.

        The cached writes become stable first, so the recording begins with them.
        """
        self.flush_all()
        self._recorded_from = self._writes
        self.recorder = Recorder(self._now, now)

    def read(self, offset: int, length: int) -> memoryview:
        """Return *length* bytes, fewer at the drive's end; valid until a write."""
        self._reads += 1
        return self._now[offset : offset + length]

    def list_pieces(self, length: int) -> Iterator[tuple[int, bytes]]:
        """Yield offset and content of each piece of the drive that is not all zeros.

        They have all that was written, flushed or not, as a reader sees it.
        """
        zeros = bytes(length)
        for offset in range(0, len(self._now), length):
            content = self._now[offset : offset + length].tobytes()
            if content != zeros[: len(content)]:
                yield offset, content

    def write(self, offset: int, content: bytes, now: float) -> None:
        """Put *content* into the cache; raise ValueError beyond the drive's end."""
        length = len(content)
        view = self._now[offset : offset + length]
        before = view.tobytes()
        view[:] = content
        if self.recorder is not None:
            self.recorder.write(now, offset, content)
        covered = self._count_covered_bytes(offset, length)
        if 0 < covered < length:
            self._put_in_cache(now, offset, before[:covered], content[:covered])
            offset, before, content = (
                offset + covered,
                before[covered:],
                content[covered:],
            )
        self._put_in_cache(now, offset, before, content, spared=covered < length)
        self._destage_settled()
        self.age(now)
        self._writes += 1
        self._write_bytes += length

    def _count_covered_bytes(self, offset: int, length: int) -> int:
        """Return the number of a write's leading bytes that a flush covers."""
        if 0 < self.spec.lost_above_bytes < length:
            return 0
        unit = self.spec.tear_bytes
        return min(length, unit - offset % unit) if unit else length

    def _put_in_cache(
        self,
        now: float,
        offset: int,
        before: bytes,
        after: bytes,
        *,
        spared: bool = False,
    ) -> None:
        number = self._destaged + len(self._cache)
        self._cache.append((now, offset, before, after))
        self._held_bytes += len(after)
        self._cached_bytes += len(after)
        if spared:
            self._spared.add(number)
        elif self._is_write_through:
            self._make_stable(number)

    def zero(self, offset: int, length: int, now: float) -> None:
        """Write zeros, except where the drive reads as zeros already.

        What it skips would use memory to no effect: on a drive without a fault,
        zeros written over cached zeros become stable no later than those below them.
        """
        end = min(offset + length, len(self._now))
        for start in range(offset, end, len(_ZEROS)):
            zeros = _ZEROS[: end - start]
            if self._now[start : start + len(zeros)] != zeros:
                self.write(start, zeros, now)

    def begin_flush(self) -> Mark:
        """Note that a flush arrived; return the mark that end_flush needs."""
        self._flushes += 1
        return self._destaged + len(self._cache), self._writes

    def end_flush(self, arrived: Mark, now: float) -> None:
        """Complete a flush; if honest, what was cached when it *arrived* is stable."""
        end_number, write_count = arrived
        if self.recorder is not None:
            self.recorder.flush(now, max(0, write_count - self._recorded_from))
        if not self._honest or self._flushes_left < 1:
            return
        self._flushes_left -= 1
        if self._spared or self.spec.personality == "reordering":
            for number in self._find_covered_writes(
                max(self._destaged, self._flushed), end_number
            ):
                if number not in self._spared:
                    self._make_stable(number)
            self._destage_settled()
        else:
            self._destage(end_number - self._destaged)
        self._flushed = max(self._flushed, end_number)
        self._flushes_honoured += self._destaged >= end_number

    def _find_covered_writes(self, first: int, end: int) -> range:
        """Return the numbers of the writes in [*first*, *end*) that a flush covers."""
        if self.spec.personality != "reordering" or first >= end:
            return range(first, end)
        oldest = end - 1
        room = self.spec.newest_bytes - self._length_of(oldest)
        while oldest > first and room >= self._length_of(oldest - 1):
            oldest -= 1
            room -= self._length_of(oldest)
        return range(oldest, end)

    def _length_of(self, number: int) -> int:
        return len(self._cache[number - self._destaged][3])

    def _make_stable(self, number: int) -> None:
        """Make one cached write stable, although older ones may not be."""
        if number not in self._settled:
            self._settled.add(number)
            self._cached_bytes -= self._length_of(number)

    def _destage_settled(self) -> None:
        """Remove the oldest writes from the cache as far as they are stable."""
        while self._destaged in self._settled:
            self._destage(1)

    def age(self, now: float) -> None:
        """Destage writes that are too old for the cache, or too many for its size."""
        cache = self._cache
        while cache and (
            self._held_bytes > self._cache_bytes or now - cache[0][0] >= self._age_s
        ):
            self._destage(1)
            self._destage_settled()

    def flush_all(self) -> None:
        """Make everything in the cache stable."""
        self._destage(len(self._cache))

    @property
    def destaged(self) -> int:
        """Number of cached writes that became stable, or were undone by a cut."""
        return self._destaged

    def undo_newest(self, count: int) -> None:
        """Undo the newest cached writes, as if they never came, until *count* are left.

        For a drive on which neither a flush nor age makes a write stable.
        """
        cache = self._cache
        while len(cache) > count:
            _, offset, before, _ = cache.pop()
            self._now[offset : offset + len(before)] = before
            self._held_bytes -= len(before)
            self._cached_bytes -= len(before)

    def _destage(self, count: int) -> None:
        cache = self._cache
        for _ in range(count):
            length = len(cache.popleft()[3])
            self._held_bytes -= length
            if self._destaged in self._settled:
                self._settled.remove(self._destaged)
            else:
                self._cached_bytes -= length
            self._spared.discard(self._destaged)
            self._destaged += 1

    def freeze(self, now: float) -> None:
        """Take the power away at *now*: nothing becomes stable any more."""
        if self.state is DriveState.ON:
            self.age(now)
            self.state = DriveState.FROZEN
        if self.recorder is not None:
            self.recorder.end(now)

    def fail(self) -> None:
        """Fail every request from now on."""
        self.state = DriveState.OFF

    def cut(self, now: float, kept_writes: str, seed: int) -> CutReport:
        """Lose the cache, except for the *kept_writes*; freeze the drive if it is on.

        The stable bytes and the kept writes are then what is read.
        """
        self.freeze(now)
        cached = [
            (number in self._settled, (offset, after))
            for number, (_, offset, _, after) in enumerate(self._cache, self._destaged)
        ]
        writes = [write for settled, write in cached if not settled]
        cached_bytes = self._cached_bytes
        for _, offset, before, _ in reversed(self._cache):
            self._now[offset : offset + len(before)] = before
        self.flush_all()
        surviving = choose_surviving_parts(kept_writes, writes, seed)
        kept_sectors = 0
        for settled, write in cached:
            for offset, content in [write] if settled else next(surviving):
                self._now[offset : offset + len(content)] = content
                kept_sectors += 0 if settled else count_sectors(offset, len(content))
        self._zero_forgotten_range()
        total_sectors = sum(
            count_sectors(offset, len(content)) for offset, content in writes
        )
        return CutReport(
            len(writes), cached_bytes, kept_sectors, total_sectors - kept_sectors
        )

    def _zero_forgotten_range(self) -> None:
        """Write zeros over the range that the drive forgets at a cut."""
        first = self.spec.forget_at_bytes
        end = first + self.spec.forget_bytes
        for start in range(first, end, len(_ZEROS)):
            zeros = _ZEROS[: end - start]
            self._now[start : start + len(zeros)] = zeros

    def power_on(self) -> None:
        """Answer requests again; a fickle drive draws again whether it lies."""
        if self.state is not DriveState.ON:
            self.state = DriveState.ON
            self._power_ons += 1
            self._honest = self._draw_honest()
            self._flushes_left = math.inf

    def count_flushes(self) -> None:
        """Let a failing drive honour spec.honest_flushes from now on, and no more.

        Until then it honours every flush, so that a server can be started on it.
        """
        if self.spec.personality == "failing":
            self._flushes_left = self.spec.honest_flushes

    def _draw_honest(self) -> bool:
        """Return True if flushes are honoured until the next power-on."""
        if self.spec.personality != "fickle":
            return self.spec.personality != "lying"
        # random hashes a string, so seeds that are close give unlike draws.
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
            cached_writes=len(self._cache) - len(self._settled),
            cached_bytes=self._cached_bytes,
        )
