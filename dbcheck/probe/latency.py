"""Times of durable writes, what they may mean, and the result of probe latency.

fio(1) prints its figures as JSON (fio 3.33, HOWTO, "JSON output").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbcheck.model.flushes import Method, Shape, Timed

_P50, _P99 = "50.000000", "99.000000"  # keys in the JSON of fio


@dataclass(frozen=True, slots=True)
class FileioResult:
    """Random writes of 16 KiB with O_DIRECT, several at once.

    at_once: threads, or blocks in flight.  flushed: each write is followed by
    fdatasync; else none is.  writes_per_s: of all together.  write_p50_us and so on:
    how long a write alone took, microseconds; sync_p50_us and so on: its fdatasync,
    null where there is none.  why: the reason why nothing was measured, "" if it was;
    then every number is 0.
    """

    at_once: int
    flushed: bool
    writes_per_s: float
    write_p50_us: float
    write_p99_us: float
    sync_p50_us: float | None
    sync_p99_us: float | None
    why: str = ""

    @classmethod
    def of(cls, at_once: int, flushed: bool, text: str, why: str) -> FileioResult:
        """Return the times in fio's output *text*, or a result without times.

        why: the reason why there is no output, "" if there is output.
        """
        if why:
            return cls(at_once, flushed, 0.0, 0.0, 0.0, None, None, why)
        try:
            (job,) = json.loads(text)["jobs"]
            wrote = _read_percentiles(job["write"]["clat_ns"])
            sync = _read_percentiles(job["sync"]["lat_ns"]) if flushed else (None, None)
            return cls(at_once, flushed, float(job["write"]["iops"]), *wrote, *sync)
        except (LookupError, TypeError, ValueError, RecursionError):
            why = "fio printed something that is not known"
            return cls.of(at_once, flushed, "", why)


def _read_percentiles(times: Mapping[str, Any]) -> tuple[float, float]:
    """Return p50 and p99 in microseconds; raise LookupError if there are none."""
    percentiles = times["percentile"]
    return float(percentiles[_P50]) / 1000, float(percentiles[_P99]) / 1000


PAGE_BYTES = 8192  # of PostgreSQL's WAL, and what pg_test_fsync writes
SIZES = (1, 512, 4096, PAGE_BYTES, 16384, 131072)
OFFSETS = (0, 512)
# The shape that advice and history are about.
MAIN = Shape(Method.FDATASYNC, PAGE_BYTES, 0)
_HALF_ROTATION_MS = 2.0  # at 15,000 rpm, the quickest drives that were ever sold


def list_usual_shapes() -> list[Shape]:
    """Return each method with one page, then each size and offset with fdatasync."""
    shapes = [Shape(method, PAGE_BYTES, 0) for method in Method]
    shapes += [
        Shape(Method.FDATASYNC, size, offset) for offset in OFFSETS for size in SIZES
    ]
    return list(dict.fromkeys(shapes))


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of the times of writes, in microseconds; percentiles are from a list."""

    writes: int
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float

    @classmethod
    def of(cls, took_ns: Sequence[int]) -> Spread:
        """Return the percentiles of these times; raise ValueError if there are none."""
        if not took_ns:
            raise ValueError("no write was timed")
        ordered = sorted(took_ns)

        def at(percent: int) -> float:
            return ordered[math.ceil(len(ordered) * percent / 100) - 1] / 1000

        return cls(len(ordered), at(50), at(90), at(99), ordered[-1] / 1000)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Number of writes that took from *from_us* to less than *to_us* microseconds."""

    from_us: float
    to_us: float
    writes: int


def make_histogram(took_ns: Sequence[int]) -> list[Bucket]:
    """Return buckets that each are 1.41 times as wide as the one before, none empty
    at either end."""
    places = [math.floor(2 * math.log2(max(time_ns, 1))) for time_ns in took_ns]
    return [
        Bucket(
            2 ** (place / 2) / 1000, 2 ** ((place + 1) / 2) / 1000, places.count(place)
        )
        for place in range(min(places, default=0), max(places, default=-1) + 1)
    ]


def compute_device_share(timed: Timed, device: str) -> float | None:
    """Return the share of the time in which a device wrote or flushed, 0 to 1.

    None if it does not count its flushes, or was not read.
    """
    before, after = timed.before.devices.get(device), timed.after.devices.get(device)
    if before is None or after is None or not timed.took_ns:
        return None
    difference = after.since(before)
    if difference.flush_ms is None:
        return None
    return min(
        1.0, (difference.write_ms + difference.flush_ms) * 1e6 / sum(timed.took_ns)
    )


def give_advice(p50_us: float, rotational: bool | None) -> str:
    """Return the possible meaning of such a latency of fdatasync; it decides nothing.

    rotational: what the kernel says of the drive, None if it is not known.
    """
    p50_ms = p50_us / 1000
    if rotational and p50_ms < _HALF_ROTATION_MS:
        return (
            "The kernel takes this for a rotating disk, which cannot write so quickly:"
            " a cache answers. If it has no battery or capacitors, commits are lost."
        )
    if p50_us < 20:
        return (
            "Hardly any drive is so quick. This is memory, or something that does not"
            " wait for the drive: look at what lies between."
        )
    if p50_ms < 0.3:
        return (
            "That is usual for drives with power-loss protection and for controllers"
            " with a battery. A drive without either that is so quick does not wait."
        )
    if p50_ms < 4:
        return "That is usual for a solid-state drive that honours flushes."
    return "That is usual for a rotating disk that honours flushes, or a slow network."


@dataclass(frozen=True, slots=True)
class TimingResult:
    """Writes of one shape; spread: null if there are none, which *why* explains.

    device_shares: device -> share of the time in which it wrote or flushed, whoever
    asked for that; null if it does not count its flushes.
    """

    method: Method
    size: int
    offset: int
    spread: Spread | None
    device_shares: Mapping[str, float | None]
    why: str

    @classmethod
    def of(cls, shape: Shape, timed: Timed, devices: Sequence[str]) -> TimingResult:
        """Return the percentiles of *timed*, and the share of each of the *devices*."""
        spread = Spread.of(timed.took_ns) if timed.took_ns else None
        shares = {name: compute_device_share(timed, name) for name in devices}
        return cls(shape.method, shape.size, shape.offset, spread, shares, timed.why)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier probe of the same filesystem: the medians of its main shape.

    created: when, ISO 8601, UTC.  p50_us, p99_us: of write + fdatasync of 8192 bytes.
    """

    created: str
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class FolderResult:
    """The writes in one directory.

    places: what the server keeps there, () for a directory of the user's choice.
    histogram: of write + fdatasync of 8192 bytes.  fileio: random writes of several at
    once, () if they were not asked for.  advice: what that may mean, "" if
    there is nothing.  earlier: probes of the same filesystem, the newest last.
    """

    places: tuple[str, ...]
    folder: str
    mount_point: str
    filesystem: str
    drives: tuple[str, ...]
    timings: tuple[TimingResult, ...]
    histogram: tuple[Bucket, ...]
    fileio: tuple[FileioResult, ...]
    advice: str
    earlier: tuple[Earlier, ...]

    @property
    def main(self) -> Spread | None:
        """The times of write + fdatasync of 8192 bytes, None if they are not known."""
        spreads = (
            timing.spread
            for timing in self.timings
            if Shape(timing.method, timing.size, timing.offset) == MAIN
        )
        return next(spreads, None)

    @property
    def drift(self) -> float | None:
        """The factor to the last probe's time, None if it is unknown."""
        if self.main is None or not self.earlier or not self.earlier[-1].p50_us:
            return None
        return self.main.p50_us / self.earlier[-1].p50_us


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """The writes on one host.

    name: of the host in the inventory, "" if flags described it.  target: the server,
    "" if none was named.  error: why it could not be probed, "" if it could.
    error_id: the id of this error.  unread: places of the server where nothing was
    timed, though it was to be -> why.
    """

    name: str
    target: str
    host: str
    folders: tuple[FolderResult, ...]
    error: str = ""
    error_id: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LatencyResults:
    """Output of dbcheck probe latency --json."""

    dbcheck: str
    created: str
    targets: tuple[LatencyResult, ...]
