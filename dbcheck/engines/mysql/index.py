"""Does a further index know the same rows as the table?

InnoDB's table is its clustered index, the primary key.  Another index bears copies of
its columns and the primary key (MySQL 8.4 manual, 17.6.2.1), and a query that goes
through it finds only what it holds.  So, once the table was read, in the same snapshot:
the whole index is read, which holds all that is asked, and each row is looked up in it,
which leads through its inner pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbcheck.core.table import TableSpec
from dbcheck.engines.indexes import require_agreement
from dbcheck.engines.link import SCAN_S, require_all
from dbcheck.engines.rowsread import RowsRead
from dbcheck.errors import EngineError, IndexDamaged, TableLost

if TYPE_CHECKING:
    from dbcheck.engines.mysql.link import MysqlLink


def require_index(link: MysqlLink, spec: TableSpec, read: RowsRead) -> None:
    """Raise IndexDamaged if the further index disagrees with the rows that were read.

    link: in the transaction that read them.  Raise EngineError if the server does not
    use that index for an answer.
    """
    if not spec.key:
        return
    index = f"the index {spec.key} of {spec.name}"
    count, lookup = f"count_key_{spec.name}", f"lookup_key_{spec.name}"
    try:
        _require_plan(link, count, spec.key)
        _require_plan(link, lookup, spec.key)
        ((counted, digest),) = link.rows(count, answer_s=SCAN_S)
        lost = tuple(row_id for (row_id,) in link.rows(lookup, answer_s=SCAN_S))
    except TableLost as error:
        _require_table(link, spec, read)
        raise IndexDamaged(f"cannot read {index}: {error}", 1) from error
    if counted != read.count or lost:
        _require_table(link, spec, read)
    require_agreement(
        index, counted, read.count, lost, same=int(digest) == read.key_digest
    )


def _require_plan(link: MysqlLink, statement: str, key: str) -> None:
    """Raise EngineError unless the statement reads that index, and it alone answers."""
    plan = link.plan(statement)[-1]  # of several tables the last is the one looked up
    if plan["key"] != key or "Using index" not in str(plan["Extra"]):
        raise EngineError(f"the server does not use {key} for {statement}: {plan}")


def _require_table(link: MysqlLink, spec: TableSpec, read: RowsRead) -> None:
    """Raise EngineError unless the server still finds in the table what was read."""
    ((counted,),) = link.rows(f"count_{spec.name}", answer_s=SCAN_S)
    require_all(spec.name, read.count, counted)
