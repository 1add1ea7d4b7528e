"""Differences between two readings of a table: of one server, or of two nodes.

A second reading follows a clean restart: a recovery can leave rows in memory that it
never writes, or replay again what it had replayed; then the first reading finds every
row, and the second one does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.rows.loss import Losses, LossKind, Trait, list_codes, number_operations
from dbcheck.rows.survivors import Records

CHANGED_MAX = 100  # rows that are listed one by one; all are counted

Hashes = npt.NDArray[np.uint64]
_HASHED_FIELDS = ("row_id", "epoch", "session", "seq", "part", "checksum", "content")
# Odd numbers of 64 bits: the fractional part of the golden ratio, and its multiples.
_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = [(_GOLDEN * (2 * n + 1)) % 2**64 for n in range(len(_HASHED_FIELDS))]


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


def hash_records(records: Records) -> Hashes:
    """Return a hash of each row."""
    hashes = np.zeros(len(records), np.uint64)
    for name, factor in zip(_HASHED_FIELDS, _FACTORS, strict=True):
        hashes ^= records[name].astype(np.int64).view(np.uint64) * np.uint64(factor)
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(_GOLDEN)
        hashes ^= hashes >> np.uint64(32)
    return hashes


class Digest:
    """Digest of rows in any order.

    rows: how many rows.  total: the sum of their hashes, modulo 2^64.
    """

    def __init__(self) -> None:
        self.rows = self.total = 0

    def add(self, records: Records) -> None:
        """Take in rows."""
        self.rows += len(records)
        self.total = (
            self.total + int(hash_records(records).sum(dtype=np.uint64))
        ) % 2**64

    def __eq__(self, other: object) -> bool:
        """Return True if the rows are the same."""
        if not isinstance(other, Digest):
            return NotImplemented
        return (self.rows, self.total) == (other.rows, other.total)

    __hash__ = None  # type: ignore[assignment]


def find_rows_only_in(
    rows: Iterable[Records], others: Iterable[Records]
) -> list[Records]:
    """Return the rows of *rows* that are not among *others*, in parts."""
    other_hashes = np.unique(
        np.concatenate([np.empty(0, np.uint64), *map(hash_records, others)])
    )
    return [part[~np.isin(hash_records(part), other_hashes)] for part in rows]


@dataclass(frozen=True, slots=True)
class SecondReading:
    """Outcome of the second reading.

    rows:     how many rows it found, in all tables.
    changed:  how many rows only one of the two readings found.
    first:    the first of the changed rows.
    index:    why an index disagreed with its table in this reading, "" if none did.
    orderly:  the server's log shows that it was shut down in an orderly way; None if
              that is not known.
    not_done: why there was no second reading, "" if there was one.
    failure:  why the server, or a table, certainly did not come back from the restart,
              "" if both did.
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
        """Describe the difference, for a person; "" if there is none."""
        parts = [self.index] if self.index else []
        if self.changed:
            rows = (
                "1 row differs"
                if self.changed == 1
                else f"{self.changed:,} rows differ"
            )
            parts.append(f"{rows}, although nothing wrote in between; {self.first[0]}")
        return "; ".join(parts)

    @property
    def counts(self) -> dict[str, int]:
        """The number of losses by kind, as in Reconciliation.counts."""
        count = self.changed or int(bool(self.index))
        return {LossKind.UNSTABLE.value: count} if count else {}


@dataclass(frozen=True, slots=True)
class OtherNode:
    """Comparison of another node's rows with those of the node that was read.

    rows:      how many rows of the run the other node has, in the tables of the plan.
    differing: how many rows only one of the two nodes has, without the rows of extra.
    first:     the first of the differing rows; was_there: on the node that was read.
    failure:   why a table of the other node cannot be read, or disagrees with its own
               index, "" if neither.  That fault may be older than the run.
    not_done:  why the other node was not compared, "" if it was.
    extra:     how many rows only the other node has, if it began to follow the node
               that was read only after the reading.  Acknowledged rows among them are
               lost on the node that was read, and are counted there.
    first_extra: the first of these rows.
    """

    rows: int = 0
    differing: int = 0
    first: tuple[ChangedRow, ...] = ()
    failure: str = ""
    not_done: str = ""
    extra: int = 0
    first_extra: tuple[ChangedRow, ...] = ()

    def extra_reason(self, name: str, reader: str) -> str:
        """Describe the rows that only this node has, for a person; "" if none."""
        if not self.extra:
            return ""
        rows = "1 row" if self.extra == 1 else f"{self.extra:,} rows"
        example = f", e.g. id {self.first_extra[0].row_id}" if self.first_extra else ""
        return (
            f"rejoined-extra: {name} rejoined, and has {rows} that {reader}"
            f" lacks{example}; its clients see them"
        )

    def reason(self, name: str, reader: str) -> str:
        """Describe the difference, for a person; "" if there is none.

        name: of this node.  reader: the name of the node that was read.
        """
        if not self.differing:
            return ""
        rows = "1 row" if self.differing == 1 else f"{self.differing:,} rows"
        reason = f"{name} and {reader} differ in {rows}, although both have applied all"
        for row in self.first[:1]:
            without = name if row.was_there else reader
            reason += (
                f"; {without} lacks id {row.row_id} of {row.table}, or has it with"
            )
            reason += " other content"
        return reason


def count_differing_rows(others: Mapping[str, OtherNode]) -> dict[str, int]:
    """Return the number of losses by kind, as in Reconciliation.counts."""
    count = sum(node.differing for node in others.values())
    return {LossKind.DIVERGED.value: count} if count else {}


_MISSING = list_codes(Trait.MISSING)


@dataclass(frozen=True, slots=True)
class RowsLeftOnNode:
    """Rows on one node that was brought back by itself.

    behind: acknowledged commits that this node has and the node which took over lacks.
    extra:  other commits of the run that only this node has.  No ack of them is
            confirmed, so no promise is broken, but a client of this node would see
            them.
    """

    behind: int
    extra: int


def find_rows_left_on_node(
    rows: Iterable[Records], survivors: Iterable[Records], losses: Losses, epoch: int
) -> RowsLeftOnNode:
    """Count the operations of *epoch* whose row only one node has.

    rows: of the ledger, on the node that was brought back by itself.
    survivors: of the ledger, on the node that took over.
    losses: on the node that took over.
    """
    columns = losses.columns
    lost = np.unique(number_operations(columns[np.isin(columns["kind"], _MISSING)]))
    left_behind = np.setdiff1d(
        _list_operations(rows, epoch), _list_operations(survivors, epoch)
    )
    behind = int(np.isin(left_behind, lost).sum())
    return RowsLeftOnNode(behind, len(left_behind) - behind)


def _list_operations(parts: Iterable[Records], epoch: int) -> npt.NDArray[np.int64]:
    operations = [
        number_operations(records[records["epoch"] == epoch]) for records in parts
    ]
    return np.unique(np.concatenate([np.empty(0, np.int64), *operations]))
