"""Which rows differ between two readings of a table, in any order of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.rows.survivors import Records

CHANGED_MAX = 100  # rows that are kept by name; all are counted

Hashes = npt.NDArray[np.uint64]
_FIELDS = ("row_id", "epoch", "session", "seq", "part", "checksum", "content")
# Odd numbers of 64 bits: the fractional part of the golden ratio, and its multiples.
_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = [(_GOLDEN * (2 * n + 1)) % 2**64 for n in range(len(_FIELDS))]


class ChangedRow(NamedTuple):
    """A row that only one of the readings found, or that has other content in each."""

    table: str
    row_id: int
    epoch: int
    session: int
    seq: int
    part: int
    was_there: bool  # in the first reading

    def __str__(self) -> str:
        how = "is gone or changed" if self.was_there else "is new"
        return f"the row with id {self.row_id} of {self.table} {how}"


def hashes(records: Records) -> Hashes:
    """Return a number for each row that hardly another row has."""
    mixed = np.zeros(len(records), np.uint64)
    for name, factor in zip(_FIELDS, _FACTORS, strict=True):
        mixed ^= records[name].astype(np.int64).view(np.uint64) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(_GOLDEN)
        mixed ^= mixed >> np.uint64(32)
    return mixed


class Digest:
    """Of rows in any order.

    rows: how many.  total: the sum of their hashes, modulo 2^64.
    """

    def __init__(self) -> None:
        self.rows = self.total = 0

    def add(self, records: Records) -> None:
        """Take in rows."""
        self.rows += len(records)
        self.total = (self.total + int(hashes(records).sum(dtype=np.uint64))) % 2**64

    def __eq__(self, other: object) -> bool:
        """Whether the rows are the same."""
        if not isinstance(other, Digest):
            return NotImplemented
        return (self.rows, self.total) == (other.rows, other.total)

    __hash__ = None  # type: ignore[assignment]


def only_in(rows: Iterable[Records], others: Iterable[Records]) -> list[Records]:
    """Return those of *rows* that are not among *others*, in parts."""
    known = np.unique(np.concatenate([np.empty(0, np.uint64), *map(hashes, others)]))
    return [part[~np.isin(hashes(part), known)] for part in rows]
