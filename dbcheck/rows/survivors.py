"""Rows read back after recovery, compared with what each key must hold."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dbcheck.rows.acks import SEQ_MAX, SESSION_MAX, Ints, Row
from dbcheck.rows.schedule import (
    Bytes,
    Payloads,
    Schedule,
    Sizes,
    compute_crc32_of_words,
    count_rows_at_once,
)


def find_distinct(values: Ints) -> Ints:
    """Return each value once, in order.

    np.unique() sorts columns of integers several times slower, and imports numpy.ma,
    which takes as long as to judge a small run.
    """
    ordered = np.sort(values)
    is_first = np.ones(ordered.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def is_among(values: Ints, others: Ints) -> npt.NDArray[np.bool_]:
    """Return a flag for each of *values*: True if it is in *others*.

    np.isin() does this too, but calls np.unique() where there are many values.
    """
    return is_among_distinct(values, find_distinct(others))


def is_among_distinct(values: Ints, wanted: Ints) -> npt.NDArray[np.bool_]:
    """Return what is_among() returns, for *wanted* that find_distinct() has sorted."""
    if not wanted.size:
        return np.zeros(values.size, np.bool_)
    places = np.searchsorted(wanted, values).clip(max=wanted.size - 1)
    is_wanted: npt.NDArray[np.bool_] = wanted[places] == values
    return is_wanted


INTACT, DIFFERENT = 0, 1

# One survivor without its content: what a stored run keeps of each row.
RECORD = np.dtype(
    [
        ("row_id", "<i8"),
        ("epoch", "<i8"),
        ("session", "<i4"),
        ("seq", "<i8"),
        ("part", "<i2"),
        ("checksum", "<i8"),  # as the row has it
        ("content", "u1"),  # INTACT or DIFFERENT
    ]
)
Records = npt.NDArray[np.void]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of a table, in columns: no object is made for a row.

    records:  all columns but the payload; the content is not judged yet.
    payloads: bytes that hold the payload of each row, and other bytes between them.
    starts, sizes: where the payload of each row begins in *payloads*, and its length.
    """

    records: Records
    payloads: Bytes
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self:
        """Return a batch of *rows*."""
        rows = list(rows)
        sizes = np.array([len(row.payload) for row in rows], np.int64)
        records = np.array([(*row[:5], row.checksum, INTACT) for row in rows], RECORD)
        payloads = np.frombuffer(b"".join(row.payload for row in rows), np.uint8)
        return cls(records, payloads, np.cumsum(sizes) - sizes, sizes)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Row]:
        return map(self.row, range(len(self)))

    def row(self, at: int) -> Row:
        """Return row number *at* as an object."""
        row_id, epoch, session, seq, part, checksum, _ = self.records[at].item()
        start = self.starts[at]
        payload = self.payloads[start : start + self.sizes[at]].tobytes()
        return Row(row_id, epoch, session, seq, part, payload, checksum)


def take_items_at(content: Bytes, places: Ints, kind: np.dtype[np.void]) -> Records:
    """Return the items of type *kind* that begin at *places* of *content*."""
    if not kind.itemsize or not places.size:
        return np.empty(places.size, kind)
    count = content.size - kind.itemsize + 1  # an item may begin at any byte
    items: Records = np.ndarray(count, kind, content, strides=(1,))[places]
    return items


class Inspector:
    """Judges the content of rows.

    A row of the schedule's epoch must equal the row that the schedule computes.  Of a
    row of another epoch only the checksum can be tested.
    """

    def __init__(self, schedule: Schedule, parts: range = range(1)) -> None:
        """Judge by *schedule*; its operations write rows of these *parts*."""
        self._epoch, self._parts = schedule.epoch, parts
        sizes = set(schedule.payload_bytes)
        self._sizes = Sizes(schedule) if sizes else None
        self._payloads = {size: Payloads(schedule, size) for size in sizes}

    def inspect(self, batch: RowBatch) -> tuple[Records, Ints]:
        """Judge the records of *batch*; return them, and which places are DIFFERENT."""
        records = batch.records
        if self._sizes is None:
            records["content"] = INTACT
            return records, np.empty(0, np.int64)
        different = ~self._find_intact_rows(batch, self._sizes)
        records["content"] = np.where(different, DIFFERENT, INTACT)
        return records, np.flatnonzero(different)

    def _find_intact_rows(self, batch: RowBatch, expected_sizes: Sizes) -> Flags:
        names = ("epoch", "session", "seq", "part")
        epoch, session, seq, part = (batch.records[n].astype(np.int64) for n in names)
        intact: Flags = (session >= 0) & (session <= SESSION_MAX)
        intact &= (seq >= 1) & (seq <= SEQ_MAX) & (epoch >= 1) & (part >= 0)
        own = np.flatnonzero(intact & (epoch == self._epoch))
        expected = expected_sizes.of(session[own], seq[own])
        intact[own] = (part[own] >= self._parts.start) & (part[own] < self._parts.stop)
        intact[own] &= batch.sizes[own] == expected
        candidates = np.flatnonzero(intact)
        if candidates.size:
            key_checksums = compute_crc32_of_words(
                epoch[candidates],
                session[candidates],
                seq[candidates],
                part[candidates],
            )
        for group in group_rows_of_same_size(batch.sizes[candidates]):
            places = candidates[group]
            payloads = _take_payloads(batch, places)
            intact[places] = batch.records["checksum"][places] == _compute_crc32(
                payloads, key_checksums[group]
            )
            is_own = epoch[places] == self._epoch
            if is_own.any():
                places, payloads = places[is_own], payloads[is_own]
                own_payloads = self._payloads[payloads.itemsize]
                content = own_payloads.of(session[places], part[places], seq[places])
                intact[places] &= _compare_contents(payloads, content)
        return intact


def group_rows_of_same_size(sizes: Ints) -> Iterator[Ints]:
    """Yield the places of all rows in parts, each with rows of one size."""
    for size in find_distinct(sizes):
        places = np.flatnonzero(sizes == size)
        step = count_rows_at_once(int(size))
        for begin in range(0, places.size, step):
            yield places[begin : begin + step]


def _take_payloads(batch: RowBatch, places: Ints) -> Records:
    """Return the payloads of rows that have one size, each as one item."""
    kind = np.dtype((np.void, int(batch.sizes[places[0]])))
    return take_items_at(batch.payloads, batch.starts[places], kind)


def _compute_crc32(contents: Records, key_checksums: npt.NDArray[np.uint32]) -> Ints:
    """Return the checksum of each of *contents*, continued from that of its key."""
    checksums = map(zlib.crc32, contents.tolist(), key_checksums.tolist())
    return np.fromiter(checksums, np.int64, len(contents))


def _compare_contents(contents: Records, lines: Bytes) -> Flags:
    """Return a flag for each of *contents*: True if it equals its line."""
    is_same_byte = contents.view(np.uint8).reshape(lines.shape) == lines
    if is_same_byte.all():
        return np.ones(len(is_same_byte), np.bool_)
    is_same_row: Flags = is_same_byte.all(axis=1)
    return is_same_row
