"""Has the server check its tables, and compares their indexes with their rows.

InnoDB's table is its clustered index, the primary key.  Reading all rows leads from
leaf to leaf, a search for one of them through its inner pages.  Another index bears
copies of its columns and the primary key (MySQL 8.4 manual, 17.6.2.1), and a query that
goes through it finds only what it holds.  So, once the table was read, in the same
snapshot: the other index is read whole, and every n-th row is searched in both.

The plan of a search shows whether it reads the index: it names the way in which each
table is read.  Releases word the same plan differently: MariaDB 11 no longer says that
the primary key covers a query.  The words are those of EXPLAIN's traditional format
(MySQL 8.4 manual, 10.8.2; MariaDB documentation, EXPLAIN).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, IndexDamaged, TableLost
from dbcheck.engines.indexes import LOOKUPS_MAX, require_agreement
from dbcheck.engines.link import ANSWER_S, SCAN_S, require_all
from dbcheck.model.server import CheckOutcome, TableCheck
from dbcheck.rows.table import TableSpec

Plan = Sequence[Mapping[str, Any]]  # a line for each table, in the order of the join

PRIMARY = "PRIMARY"
READ, SEARCHED = "t", "found"  # how sql/mysql/lookup_*.sql name the two tables

# A hash join reads the index only once, and "ref" may search by its first column only.
_SEARCH = "eq_ref"
_SOUND, _CORRUPT = "OK", "Corrupt"  # sql/sql_admin.cc, HA_ADMIN_OK and HA_ADMIN_CORRUPT


class Questions(Protocol):
    """The connection that asks the server; see MysqlLink."""

    def plan(
        self, statement: str, parameters: Mapping[str, object] | None = None, /
    ) -> list[dict[str, Any]]: ...
    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> list[tuple[Any, ...]]: ...


def looks_up_every_row(plan: Plan, index: str) -> bool:
    """True if a plan looks up every row of the table in that index alone.

    plan: of a join of the table, as READ, with itself, as SEARCHED.
    """
    tables = {line["table"]: line for line in plan}
    if not _is_simple(plan, 2) or tables.keys() != {READ, SEARCHED}:
        return False
    found = tables[SEARCHED]
    return (
        _scans_table(tables[READ])
        and found["type"] == _SEARCH
        and found["key"] == index
        # The primary key is the table, so nothing else can answer.
        and (index == PRIMARY or _is_covered(found))
    )


def reads_whole(plan: Plan, index: str) -> bool:
    """True if a plan reads a secondary index from end to end, and not the table."""
    if not _is_simple(plan, 1):
        return False
    (line,) = plan
    return line["type"] == "index" and line["key"] == index and _is_covered(line)


def _is_simple(plan: Plan, tables: int) -> bool:
    """True if a plan joins that many tables without a temporary table."""
    return len(plan) == tables and all(line["select_type"] == "SIMPLE" for line in plan)


def _scans_table(line: Mapping[str, Any]) -> bool:
    """True if the plan scans the table itself: an index may lack rows."""
    return line["type"] == "ALL" or (line["type"], line["key"]) == ("index", PRIMARY)


def _is_covered(line: Mapping[str, Any]) -> bool:
    """True if the index covers the query, so that no row of the table is read.

    "Using index condition" reads rows, "Using index for group-by" skips entries.
    """
    return "Using index" in (line["Extra"] or "").split("; ")


def require_indexes(
    link: Questions, spec: TableSpec, count: int, key_digest: int | None = None
) -> None:
    """Raise IndexDamaged if an index disagrees with the rows of the table.

    link: in the transaction that read them.  count: how many they are.
    key_digest: see RowsRead; None if it is not known.
    Raise EngineError if the server does not use an index for its answer, or finds other
    rows in the table than were read.
    """
    lost = _find_missing_ids(link, PRIMARY, f"lookup_{spec.name}", count)
    name = f"the primary key of {spec.name}"
    require_agreement(spec.name, name, count, count, lost, same=True)
    if spec.key:
        _require_key(link, spec, count, key_digest)


def _require_key(
    link: Questions, spec: TableSpec, count: int, key_digest: int | None
) -> None:
    name, statement = f"the index {spec.key} of {spec.name}", f"count_key_{spec.name}"
    try:
        lines = link.plan(statement)
        if not reads_whole(lines, spec.key):
            raise _wrong_plan_error(statement, spec.key, lines)
        ((counted, digest),) = link.rows(statement, answer_s=SCAN_S)
        lost = _find_missing_ids(link, spec.key, f"lookup_key_{spec.name}", count)
    except TableLost as error:
        _require_table(link, spec, count)
        raise IndexDamaged(
            f"cannot read {name}: {error}", spec.name, 1, id=ErrorId.INDEX_DAMAGED
        ) from error
    if counted != count or lost:
        _require_table(link, spec, count)
    same = key_digest is None or int(digest) == key_digest
    require_agreement(spec.name, name, counted, count, lost, same=same)


def _find_missing_ids(
    link: Questions, index: str, statement: str, count: int
) -> tuple[int, ...]:
    """Return the ids of rows that a search in the index does not find."""
    parameters = {"stride": max(1, count // LOOKUPS_MAX)}
    lines = link.plan(statement, parameters)
    if not looks_up_every_row(lines, index):
        raise _wrong_plan_error(statement, index, lines)
    rows = link.rows(statement, parameters, answer_s=SCAN_S)
    return tuple(row_id for (row_id,) in rows)


def _wrong_plan_error(statement: str, index: str, lines: Plan) -> EngineError:
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


def _require_table(link: Questions, spec: TableSpec, count: int) -> None:
    """Raise EngineError unless the server still finds in the table what was read."""
    ((counted,),) = link.rows(f"count_{spec.name}", answer_s=SCAN_S)
    require_all(spec.name, count, counted)


def check_tables(link: Questions, tables: Sequence[TableSpec]) -> TableCheck:
    """Check the tables one after the other; stop at the first that is not sound.

    First the indexes are compared with the tables, as far as the server alone can:
    CHECK TABLE of MySQL 9.7 passes an index whose entries were marked as deleted.

    InnoDB's table is an index, too: what CHECK TABLE calls corrupt is an index that has
    another number of rows than the table, or whose pages do not fit together.  InnoDB
    marks it, so that no query uses it any more (MySQL 8.4 manual, 15.7.3.2).
    """
    try:
        link.rows("snapshot")
        for table in tables:
            ((count,),) = link.rows(f"count_{table.name}", answer_s=SCAN_S)
            require_indexes(link, table, count)
    except IndexDamaged as error:
        return TableCheck(CheckOutcome.INDEX, str(error))
    for table in tables:  # it ends the transaction
        messages = [
            (kind.lower(), text)
            for *_, kind, text in link.rows(f"check_{table.name}", answer_s=SCAN_S)
        ]
        *_, last = [text for _, text in messages] or [""]
        if last == _SOUND:
            continue
        said = "; ".join(t for kind, t in messages if kind in ("error", "warning"))
        reason = f"CHECK TABLE of {table.name}: {said or last}"
        outcome = CheckOutcome.INDEX if last == _CORRUPT else CheckOutcome.NOT_DONE
        return TableCheck(outcome, reason)
    names = ", ".join(table.name for table in tables)
    return TableCheck(
        CheckOutcome.SOUND, f"CHECK TABLE finds nothing wrong with {names}"
    )
