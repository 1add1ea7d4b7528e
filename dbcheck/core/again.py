"""What a second reading of the rows showed, after the server was restarted cleanly.

A recovery can leave in memory what it never writes, or replay again what it had
replayed: then the first reading finds every row, and the next one does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.core.loss import LossKind
from dbcheck.core.survivors import Records

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


@dataclass(frozen=True, slots=True)
class SecondReading:
    """What became of the second reading.

    rows:     how many it found, in all tables.
    changed:  how many rows only one of the two readings found.  first: the first ones.
    index:    why an index disagreed with its table in it, "" if none did.
    orderly:  the server's log shows that it was shut down in an orderly way; None if
              that is not known.
    not_done: why there was none, "" if there was.
    failure:  why the server, or a table, certainly did not come back from the restart.
    """

    rows: int = 0
    changed: int = 0
    first: tuple[ChangedRow, ...] = ()
    index: str = ""
    orderly: bool | None = None
    not_done: str = ""
    failure: str = ""

    @property
    def reason(self) -> str:
        """What is otherwise than in the first reading, "" if nothing is."""
        parts = [self.index] if self.index else []
        if self.changed:
            parts.append(
                f"{self.changed:,} rows are otherwise after a clean restart, which"
                f" wrote none; {self.first[0]}"
            )
        return "; ".join(parts)

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        count = self.changed or int(bool(self.index))
        return {LossKind.UNSTABLE.value: count} if count else {}


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
