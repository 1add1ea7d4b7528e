"""Differences between two readings of a table: of one server, or of two nodes.

A second reading follows a clean restart: a recovery can leave in memory what it never
writes, or replay again what it had replayed; then the first reading finds every row,
and the next one does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.rows.loss import Losses, LossKind, Trait, list_codes, number_operations
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


def hash_records(records: Records) -> Hashes:
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
    """Return those of *rows* that are not among *others*, in parts."""
    known = np.unique(
        np.concatenate([np.empty(0, np.uint64), *map(hash_records, others)])
    )
    return [part[~np.isin(hash_records(part), known)] for part in rows]


@dataclass(frozen=True, slots=True)
class SecondReading:
    """Outcome of the second reading.

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
        """The loss by its kind, as Reconciliation.counts has the others."""
        count = self.changed or int(bool(self.index))
        return {LossKind.UNSTABLE.value: count} if count else {}


@dataclass(frozen=True, slots=True)
class OtherNode:
    """Comparison of another node's rows with those of the node that was read.

    rows:     how many of the run it has, in the tables of the plan.
    differing:   how many rows only one of the two nodes has.  first: the first ones;
              was_there: on the node that was read.  Without those in extra.
    extra:    of a node that followed the other one only once that was read: how many
              rows only it has.  Those that were acknowledged are lost on the other
              one, and count there.  first_extra: the first ones.
    failure:  why a table of it cannot be read, or disagrees with its own index, "" if
              neither.  That may be older than the run.
    not_done: why it was not compared, "" if it was.
    """

    rows: int = 0
    differing: int = 0
    first: tuple[ChangedRow, ...] = ()
    failure: str = ""
    not_done: str = ""
    extra: int = 0
    first_extra: tuple[ChangedRow, ...] = ()

    def extra_reason(self, name: str, reader: str) -> str:
        """Describe the rows that this node alone has, for a person; "" if none."""
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

        name: of this node.  reader: of the one that was read.
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
    """Return the loss by its kind, as Reconciliation.counts has the others."""
    count = sum(one.differing for one in others.values())
    return {LossKind.DIVERGED.value: count} if count else {}


_MISSING = list_codes(Trait.MISSING)


@dataclass(frozen=True, slots=True)
class RowsLeftOnNode:
    """Rows on one node that was brought back by itself.

    behind: acknowledged commits that the node which took over lacks, and this one has.
    extra:  other commits of the run that only this one has: without an ack that is
            confirmed, so no promise is broken, but a client of it would see them.
    """

    behind: int
    extra: int


def find_rows_left_on_node(
    rows: Iterable[Records], survivors: Iterable[Records], losses: Losses, epoch: int
) -> RowsLeftOnNode:
    """Find the rows that only *rows* has.

    rows: the markers on that node.  survivors: those on the node that took over.
    losses: of the latter.  Only those of *epoch* are compared.
    """
    columns = losses.columns
    lost = np.unique(number_operations(columns[np.isin(columns["kind"], _MISSING)]))
    only = np.setdiff1d(
        _list_operations(rows, epoch), _list_operations(survivors, epoch)
    )
    behind = int(np.isin(only, lost).sum())
    return RowsLeftOnNode(behind, len(only) - behind)


def _list_operations(parts: Iterable[Records], epoch: int) -> npt.NDArray[np.int64]:
    found = [number_operations(one[one["epoch"] == epoch]) for one in parts]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))
