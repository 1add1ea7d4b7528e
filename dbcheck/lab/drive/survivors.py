"""Decides what a power cut leaves of a drive's write cache.

Each kind is what some drive may do without breaking a promise; docs/method.md has
the sources.

none    the cache is lost as a whole.
all     the cache outlived the cut, as one with a battery does.
prefix  writes reached the medium in the order in which they came, each as a whole.
suffix  the newest writes reached the medium first, each as a whole.
torn    as prefix, and the next one was cut in two at the end of a sector.
but-one all but one of them, each as a whole.
writes  any of them, in any order, each as a whole or not at all.
pages   the same for each 16384 bytes: some drives promise that much for one write.
blocks  the same for each 4096 bytes, the physical sector of most drives.
random  the same for each sector of 512 bytes, the least that a drive writes at once
        (NVMe: AWUPF, "atomic write unit power fail", is one logical block or more).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from dbcheck.lab.spec import SECTOR_BYTES

_UNITS = {"random": SECTOR_BYTES, "blocks": 4096, "pages": 16384}

# Of a write: where it begins, in bytes from the start of the drive; and its content.
Bytes = TypeVar("Bytes", bytes, memoryview)
Write = tuple[int, bytes]


def sectors(offset: int, length: int) -> int:
    """Return how many sectors the *length* bytes at *offset* touch."""
    return (offset + length + SECTOR_BYTES - 1) // SECTOR_BYTES - offset // SECTOR_BYTES


def surviving(
    kind: str, writes: Sequence[tuple[int, Bytes]], seed: int
) -> Iterator[list[tuple[int, Bytes]]]:
    """Yield what survives of each of the cached *writes*, oldest first; [] if nothing.

    kind is one of spec.SURVIVORS.  The same kind, writes and seed give the same
    survivors.  Whoever applies them in turn never puts an older sector over a newer
    one.
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
    elif kind in _UNITS:
        for offset, content in writes:
            yield list(_random_units(draw, offset, content, _UNITS[kind]))
    elif kind == "suffix":
        first = draw.randrange(count + 1)
        yield from ([writes[n]] if n >= first else [] for n in range(count))
    elif kind in ("prefix", "torn"):
        whole = draw.randrange(count + 1)
        yield from ([write] for write in writes[:whole])
        for write in writes[whole : whole + 1]:
            yield list(_torn(draw, *write)) if kind == "torn" else []
        yield from ([] for _ in writes[whole + 1 :])
    else:
        raise ValueError(f"unknown kind of survivors: {kind!r}")


def _random_units(
    draw: random.Random, offset: int, content: Bytes, unit: int
) -> Iterator[tuple[int, Bytes]]:
    """Yield each unit of the drive in one write with probability one half."""
    end = offset + len(content)
    chosen = draw.getrandbits(sectors(offset, len(content)) or 1)
    start = offset
    while start < end:
        stop = min(end, start - start % unit + unit)
        if chosen & 1:
            yield start, content[start - offset : stop - offset]
        chosen >>= 1
        start = stop


def _torn(
    draw: random.Random, offset: int, content: Bytes
) -> Iterator[tuple[int, Bytes]]:
    """Yield the beginning of one write, cut at a sector boundary inside it.

    A write within one sector cannot be torn: it is there or not.
    """
    count = sectors(offset, len(content))
    kept = draw.randrange(2) if count < 2 else draw.randrange(1, count)
    stop = (offset // SECTOR_BYTES + kept) * SECTOR_BYTES - offset
    if kept:
        yield offset, content[:stop]
