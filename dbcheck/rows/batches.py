"""The rows of many operations of one session at once.

They equal those of Schedule to the bit; the tests compare the two.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from dbcheck.rows.acks import Ints
from dbcheck.rows.schedule import (
    Payloads,
    Schedule,
    Sizes,
    Sums,
    compute_crc32_of_words,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of consecutive operations of one session; all are part 0.

    first_seq: the number of the first operation.
    content:   the payloads; each begins at its place there, and has its size in bytes.
    checksums: as in a Row.
    """

    epoch: int
    session: int
    first_seq: int
    content: bytes
    places: Ints
    sizes: Ints
    checksums: Sums

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.sizes)


class Batches:
    """Makes the batches of one schedule, which has payloads; for one thread."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._sizes = Sizes(schedule)
        self._payloads: dict[int, Payloads] = {}

    @property
    def bytes_per_row(self) -> float:
        """The mean size of a payload."""
        sizes = self._schedule.payload_bytes
        return sum(sizes) / len(sizes)

    def make(self, session: int, first_seq: int, count: int) -> Batch:
        """Return the rows of *count* operations, at least one."""
        epoch = self._schedule.epoch
        seqs = np.arange(first_seq, first_seq + count, dtype=np.int64)
        sizes = self._sizes.of(np.full(count, session, np.int64), seqs)
        content = np.empty(int(sizes.sum()), np.uint8)
        places = np.empty(count, np.int64)
        filled = 0
        for size in np.unique(sizes).tolist():
            payloads = self._payloads.get(size)
            if payloads is None:
                payloads = self._payloads[size] = Payloads(self._schedule, size)
            (rows,) = np.nonzero(sizes == size)
            for start in range(0, len(rows), payloads.rows_max):
                some = rows[start : start + payloads.rows_max]
                parts = np.zeros(len(some), np.int64)
                lines = payloads.of(parts + session, parts, seqs[some])
                end = filled + lines.size
                content[filled:end].reshape(lines.shape)[:] = lines
                places[some] = filled + size * np.arange(len(some))
                filled = end
        keys = compute_crc32_of_words(epoch, session, seqs, 0).tolist()
        packed = content.tobytes()
        view = memoryview(packed)
        ends = (places + sizes).tolist()
        sums = [
            zlib.crc32(view[place:end], key)
            for place, end, key in zip(places.tolist(), ends, keys, strict=True)
        ]
        checksums = np.array(sums, np.uint32)
        return Batch(epoch, session, first_seq, packed, places, sizes, checksums)
