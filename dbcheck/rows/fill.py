"""The rows that stand in a table before a load: many, of an epoch of their own.

Row number n of a fill is a pure function of the seed, the epoch and n; its key is that
of no operation.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dbcheck.rows.acks import Ints
from dbcheck.rows.schedule import (
    Bytes,
    Payloads,
    Schedule,
    Sizes,
    compute_crc32_of_words,
)
from dbcheck.rows.survivors import group_rows_of_same_size

# Rows of one session, each with its own part; its seq is part + 1.  So no two rows have
# session and seq, or session and part, in common, as the keys of all tables need.
PARTS = 1 << 15  # all parts that a smallint holds

_TRANSACTION_BYTES = 64 << 20  # of payloads, about
_TRANSACTION_ROWS = 1 << 17
_ROWS_AT_ONCE = 1 << 12  # rows computed together, and then sent by size


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows whose payloads have one size, in columns.

    columns:  the columns of rows.table.KEYED by name, but for id and payload.
    payloads: a line for each row; the next block overwrites them.
    """

    columns: Mapping[str, Ints]
    payloads: Bytes

    def __len__(self) -> int:
        return len(self.payloads)


@dataclass(frozen=True, slots=True)
class Fill:
    """Rows that are inserted into one table.

    schedule: decides the bytes; without payloads the rows are ids alone.
    rows:     how many.
    """

    schedule: Schedule
    rows: int

    def transactions(self) -> Iterator[range]:
        """Yield the numbers of the rows that each transaction inserts."""
        sizes = self.schedule.payload_bytes or (1,)
        mean = sum(sizes) // len(sizes)
        step = max(1, min(_TRANSACTION_ROWS, _TRANSACTION_BYTES // max(1, mean)))
        for begin in range(0, self.rows, step):
            yield range(begin, min(begin + step, self.rows))

    def blocks(self, numbers: range) -> Iterator[Block]:
        """Yield the rows of these numbers, in blocks of one size."""
        schedule = self.schedule
        sizes_of = Sizes(schedule)
        payloads = {size: Payloads(schedule, size) for size in schedule.payload_bytes}
        for begin in range(numbers.start, numbers.stop, _ROWS_AT_ONCE):
            end = min(begin + _ROWS_AT_ONCE, numbers.stop)
            session, part = np.divmod(np.arange(begin, end, dtype=np.int64), PARTS)
            seq = part + 1
            sizes = sizes_of.of(session, seq)
            for group in group_rows_of_same_size(sizes):
                key = session[group], seq[group], part[group]
                yield _build_block(schedule.epoch, key, payloads[int(sizes[group[0]])])


def _build_block(epoch: int, key: tuple[Ints, Ints, Ints], payloads: Payloads) -> Block:
    """Return the rows of those sessions, seqs and parts."""
    session, seq, part = key
    lines = np.ascontiguousarray(payloads.of(session, part, seq))
    contents: list[bytes] = lines.view(f"V{lines.shape[1]}").ravel().tolist()
    key_checksums: list[int] = compute_crc32_of_words(
        epoch, session, seq, part
    ).tolist()
    checksums = map(zlib.crc32, contents, key_checksums)
    columns = {
        "epoch": np.full(len(seq), epoch, np.int64),
        "session": session,
        "seq": seq,
        "part": part,
        "checksum": np.fromiter(checksums, np.int64, len(seq)),
    }
    return Block(columns, lines)
