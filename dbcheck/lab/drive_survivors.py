"""What a power cut leaves of a drive's write cache.

A drive promises no more than that a sector of 512 bytes is written as a whole or
not at all; of anything larger, any part may be left (NVMe calls this unit AWUPF,
"atomic write unit power fail"; at least one logical block).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

SECTOR_BYTES = 512

Write = tuple[int, bytes]  # where it begins, in bytes from the start; its content


def sectors(offset: int, length: int) -> int:
    """Return how many sectors the *length* bytes at *offset* touch."""
    return (offset + length + SECTOR_BYTES - 1) // SECTOR_BYTES - offset // SECTOR_BYTES


def surviving(kind: str, writes: Sequence[Write], seed: int) -> Iterator[Write]:
    """Yield what survives of the cached *writes*, oldest first.

    kind is one of spec.SURVIVORS.  The same kind, writes and seed give the same
    survivors.  Survivors keep the order of the writes, so that whoever applies
    them in turn never puts an older sector over a newer one.
    """
    draw = random.Random(seed)
    if kind == "all":
        yield from writes
    elif kind == "random":
        for offset, content in writes:
            yield from _random_sectors(draw, offset, content)
    elif kind in ("prefix", "torn"):
        whole = draw.randrange(len(writes) + 1)
        yield from writes[:whole]
        if kind == "torn" and whole < len(writes):
            yield from _torn(draw, *writes[whole])
    elif kind != "none":
        raise ValueError(f"no kind of survivors is called {kind!r}")


def _random_sectors(
    draw: random.Random, offset: int, content: bytes
) -> Iterator[Write]:
    """Yield each sector of one write with probability one half."""
    end = offset + len(content)
    chosen = draw.getrandbits(sectors(offset, len(content)) or 1)
    start = offset
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        if chosen & 1:
            yield start, content[start - offset : stop - offset]
        chosen >>= 1
        start = stop


def _torn(draw: random.Random, offset: int, content: bytes) -> Iterator[Write]:
    """Yield the beginning of one write, cut at a sector boundary inside it.

    A write within one sector cannot be torn: it is there or not.
    """
    count = sectors(offset, len(content))
    kept = draw.randrange(2) if count < 2 else draw.randrange(1, count)
    stop = (offset // SECTOR_BYTES + kept) * SECTOR_BYTES - offset
    if kept:
        yield offset, content[:stop]
