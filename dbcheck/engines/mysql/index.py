"""Compares the indexes of a table with its rows.

InnoDB's table is its clustered index, the primary key.  Reading all rows leads from
leaf to leaf, a search for one of them through its inner pages.  Another index bears
copies of its columns and the primary key (MySQL 8.4 manual, 17.6.2.1), and a query that
goes through it finds only what it holds.  So, once the table was read, in the same
snapshot: the other index is read whole, and every n-th row is searched in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, IndexDamaged, TableLost
from dbcheck.engines.indexes import require_agreement
from dbcheck.engines.link import SCAN_S, require_all
from dbcheck.engines.mysql import plan
from dbcheck.engines.rowsread import LOOKUPS_MAX
from dbcheck.rows.table import TableSpec

if TYPE_CHECKING:
    from dbcheck.engines.mysql.link import MysqlLink


def require_indexes(
    link: MysqlLink, spec: TableSpec, count: int, key_digest: int | None = None
) -> None:
    """Raise IndexDamaged if an index disagrees with the rows of the table.

    link: in the transaction that read them.  count: how many they are.
    key_digest: see RowsRead; None if it is not known.
    Raise EngineError if the server does not use an index for its answer, or finds other
    rows in the table than were read.
    """
    lost = _not_found(link, plan.PRIMARY, f"lookup_{spec.name}", count)
    name = f"the primary key of {spec.name}"
    require_agreement(spec.name, name, count, count, lost, same=True)
    if spec.key:
        _require_key(link, spec, count, key_digest)


def _require_key(
    link: MysqlLink, spec: TableSpec, count: int, key_digest: int | None
) -> None:
    name, statement = f"the index {spec.key} of {spec.name}", f"count_key_{spec.name}"
    try:
        lines = link.plan(statement)
        if not plan.reads_whole(lines, spec.key):
            raise _other_plan(statement, spec.key, lines)
        ((counted, digest),) = link.rows(statement, answer_s=SCAN_S)
        lost = _not_found(link, spec.key, f"lookup_key_{spec.name}", count)
    except TableLost as error:
        _require_table(link, spec, count)
        raise IndexDamaged(
            f"cannot read {name}: {error}", spec.name, 1, id=ErrorId.INDEX_DAMAGED
        ) from error
    if counted != count or lost:
        _require_table(link, spec, count)
    same = key_digest is None or int(digest) == key_digest
    require_agreement(spec.name, name, counted, count, lost, same=same)


def _not_found(
    link: MysqlLink, index: str, statement: str, count: int
) -> tuple[int, ...]:
    """Return the ids of rows that a search in the index does not find."""
    parameters = {"stride": max(1, count // LOOKUPS_MAX)}
    lines = link.plan(statement, parameters)
    if not plan.searches(lines, index):
        raise _other_plan(statement, index, lines)
    rows = link.rows(statement, parameters, answer_s=SCAN_S)
    return tuple(row_id for (row_id,) in rows)


def _other_plan(statement: str, index: str, lines: plan.Plan) -> EngineError:
    shown = "; ".join(
        f"{line['table']}: {line['type']}, {line['key']}, {line['Extra']}"
        for line in lines
    )
    return EngineError(
        f"the server does not use {index} for {statement}: {shown}",
        id=ErrorId.PLAN_NOT_AS_ASKED,
        hint="Nothing is known of this index yet. Set optimizer_switch and"
        " join_cache_level to their defaults, then run dbcheck reconcile again.",
    )


def _require_table(link: MysqlLink, spec: TableSpec, count: int) -> None:
    """Raise EngineError unless the server still finds in the table what was read."""
    ((counted,),) = link.rows(f"count_{spec.name}", answer_s=SCAN_S)
    require_all(spec.name, count, counted)
