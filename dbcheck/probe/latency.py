"""How long durable writes take, and what that may mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.model.flushes import Method, Shape, Timed

PAGE_BYTES = 8192  # of PostgreSQL's WAL, and what pg_test_fsync writes
SIZES = (1, 512, 4096, PAGE_BYTES, 16384, 131072)
OFFSETS = (0, 512)
MAIN = Shape(Method.FDATASYNC, PAGE_BYTES, 0)  # what advice and history are about
_HALF_ROTATION_MS = 2.0  # at 15,000 rpm, the quickest drives that were ever sold


def usual_shapes() -> list[Shape]:
    """Return each method with one page, then each size and offset with fdatasync."""
    found = [Shape(method, PAGE_BYTES, 0) for method in Method]
    found += [
        Shape(Method.FDATASYNC, size, offset) for offset in OFFSETS for size in SIZES
    ]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Spread:
    """How long writes took, in microseconds; the percentiles are those of a list."""

    writes: int
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float

    @classmethod
    def of(cls, took_ns: Sequence[int]) -> Spread:
        """Return it; raise ValueError without any write."""
        if not took_ns:
            raise ValueError("no write was timed")
        ordered = sorted(took_ns)

        def at(percent: int) -> float:
            return ordered[math.ceil(len(ordered) * percent / 100) - 1] / 1000

        return cls(len(ordered), at(50), at(90), at(99), ordered[-1] / 1000)


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many writes took from *from_us* to less than *to_us* microseconds."""

    from_us: float
    to_us: float
    writes: int


def histogram(took_ns: Sequence[int]) -> list[Bucket]:
    """Return buckets that each are 1.41 times as wide as the one before, none empty
    at either end."""
    places = [math.floor(2 * math.log2(max(each, 1))) for each in took_ns]
    return [
        Bucket(
            2 ** (place / 2) / 1000, 2 ** ((place + 1) / 2) / 1000, places.count(place)
        )
        for place in range(min(places, default=0), max(places, default=-1) + 1)
    ]


def device_share(timed: Timed, device: str) -> float | None:
    """Return which share of the time a device was writing or flushing, 0 to 1.

    None if it does not count its flushes, or was not read.
    """
    before, after = timed.before.devices.get(device), timed.after.devices.get(device)
    if before is None or after is None or not timed.took_ns:
        return None
    did = after.since(before)
    if did.flush_ms is None:
        return None
    return min(1.0, (did.write_ms + did.flush_ms) * 1e6 / sum(timed.took_ns))


def advice(p50_us: float, rotational: bool | None) -> str:
    """Return what such a latency of fdatasync may mean; it decides nothing.

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
