"""Does the primary key know the same rows as the table?

A query that looks a row up goes through the index, and an index that lost its pages
gives errors, or too few rows, while the table is whole.  So, once the table was read,
in the same snapshot: the whole index is read (an index-only scan walks all its leaves),
and as many ids as fit in one question are looked up one by one, which leads through
its inner pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dbcheck.core.table import TableSpec
from dbcheck.engines.link import SCAN_S, require_all
from dbcheck.engines.postgresql.settings import HEAP, INDEX
from dbcheck.errors import EngineError, IndexDamaged, TableLost

if TYPE_CHECKING:
    from dbcheck.engines.postgresql.link import PostgresqlLink

LOOKUPS_MAX = 100_000
_MODULI = (1048573, 65521)  # of count_ledger.sql; their product times a batch fits
_SHOWN = 3

Ids = npt.NDArray[np.int64]


class IdsRead:
    """The ids that were read from the table.

    count: how many.  digest: as in count_ledger.sql; PostgreSQL's % has the sign of
    its first operand (manual 17, 9.3), as fmod has.
    """

    def __init__(self) -> None:
        self.count = self.digest = 0
        self._stride, self._next = 1, 0
        self._parts: list[Ids] = []
        self._kept = 0

    def add(self, ids: Ids) -> None:
        """Take in the ids of a batch."""
        first, second = (np.fmod(ids, modulus) for modulus in _MODULI)
        self.digest += int((first * second).sum())
        own = ids[(self._next - self.count) :: self._stride]
        self._parts.append(own)
        self._kept += len(own)
        self._next += len(own) * self._stride
        self.count += len(ids)
        while self._kept > LOOKUPS_MAX:
            thinner = self.some[::2]
            self._parts, self._kept = [thinner], len(thinner)
            self._stride *= 2
            self._next = len(thinner) * self._stride

    @property
    def some(self) -> Ids:
        """Every n-th of them, LOOKUPS_MAX at most."""
        return np.concatenate([np.empty(0, np.int64), *self._parts])


def require_index(link: PostgresqlLink, spec: TableSpec, ids: IdsRead) -> None:
    """Raise IndexDamaged if the primary key disagrees with the rows that were read.

    link: in the transaction that read them.  Raise EngineError if the server counts
    other rows in the table itself than were read.
    """
    table = f"dbcheck.{spec.name}"
    try:
        link.fix(INDEX)
        link.require_plan(f"count_{spec.name}", "Index Only Scan")
        counted, digest = _count(link, spec)
        lost = _not_found(link, spec, ids)
    except TableLost as error:
        _require_table(link, table, spec, ids)
        text = f"cannot read the primary key of {table}: {error}"
        raise IndexDamaged(text, 1) from error
    if (counted, digest) == (ids.count, ids.digest) and not lost:
        return
    _require_table(link, table, spec, ids)
    if counted != ids.count:
        raise IndexDamaged(
            f"the primary key of {table} has {counted:,} rows where the table has"
            f" {ids.count:,}",
            max(abs(counted - ids.count), len(lost)),
            lost,
        )
    if lost:
        shown = ", ".join(map(str, lost[:_SHOWN]))
        raise IndexDamaged(
            f"the primary key of {table} does not find {len(lost):,} rows that the"
            f" table has, among them the ids {shown}",
            len(lost),
            lost,
        )
    raise IndexDamaged(f"the primary key of {table} has other ids than the table", 1)


def _count(link: PostgresqlLink, spec: TableSpec) -> tuple[int, int]:
    ((counted, digest),) = link.rows(f"count_{spec.name}", answer_s=SCAN_S)
    return counted, int(digest)


def _not_found(link: PostgresqlLink, spec: TableSpec, ids: IdsRead) -> tuple[int, ...]:
    array = "{" + ",".join(map(str, ids.some.tolist())) + "}"
    rows = link.rows(f"lookup_{spec.name}", {"ids": array}, answer_s=SCAN_S)
    return tuple(row_id for (row_id,) in rows)


def _require_table(
    link: PostgresqlLink, table: str, spec: TableSpec, ids: IdsRead
) -> None:
    """Raise EngineError unless the server finds in the table what was read from it.

    If it does not, rows were left out on their way, and the index is not to blame.  An
    error has ended the transaction; then nothing can be asked any more, and what
    the server reported of its index stands.
    """
    if link.is_failed():
        return
    link.fix(HEAP)
    link.require_plan(f"count_{spec.name}", "Seq Scan")
    counted, digest = _count(link, spec)
    require_all(table, ids.count, counted)
    if digest != ids.digest:
        raise EngineError(
            f"the rows read from {table} differ from those that the server counts"
        )
