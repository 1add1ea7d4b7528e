"""Do the indexes know the same rows as the table?

A query that looks a row up goes through an index, and an index that lost its pages
gives errors, or too few rows, while the table is whole.  So, once the table was read,
in the same snapshot: each index is read whole (an index-only scan walks all its
leaves), and as many rows as fit in one question are looked up one by one, which leads
through its inner pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, IndexDamaged, TableLost
from dbcheck.engines.indexes import RowsRead, require_agreement
from dbcheck.engines.link import SCAN_S, require_all
from dbcheck.engines.postgresql.settings import HEAP, INDEX
from dbcheck.rows.table import TableSpec

_OF_KEY = ["row_id", "epoch", "session", "seq", "part"]  # of lookup_key_*.sql


class Snapshot(Protocol):
    """The connection, in the transaction that read the table; see PostgresqlLink."""

    def fix(self, settings: Mapping[str, str], /) -> None: ...
    def require_plan(self, statement: str, scan: str, /) -> None: ...
    def is_failed(self) -> bool: ...
    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float,
    ) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True, slots=True)
class _Index:
    """One index, and how it is asked.

    name:   how messages name it.
    scan:   the plan of the statement that counts.
    count, lookup: statements of sql/; parameters: of the latter.
    digest: of what the table holds, as the statement that counts computes it.
    """

    name: str
    scan: str
    count: str
    lookup: str
    parameters: Mapping[str, str]
    digest: int


def require_indexes(link: Snapshot, spec: TableSpec, read: RowsRead) -> None:
    """Raise IndexDamaged if an index disagrees with the rows that were read.

    link: in the transaction that read them.  Raise EngineError if the server counts
    other rows in the table itself than were read.
    """
    for index in _list_indexes(spec, read):
        try:
            link.fix(INDEX)
            link.require_plan(index.count, index.scan)
            counted, digest = _count_rows(link, index.count)
            lost = _find_missing_ids(link, index)
        except TableLost as error:
            _require_table(link, spec, read)
            text = f"cannot read {index.name}: {error}"
            raise IndexDamaged(text, spec.name, 1, id=ErrorId.INDEX_DAMAGED) from error
        if (counted, digest) != (read.count, index.digest) or lost:
            _require_table(link, spec, read)
        require_agreement(
            *(spec.name, index.name, counted, read.count, lost),
            same=digest == index.digest,
        )


def _list_indexes(spec: TableSpec, read: RowsRead) -> Iterator[_Index]:
    table, some = f"dbcheck.{spec.name}", read.sample
    ids = "{" + ",".join(map(str, some["row_id"].tolist())) + "}"
    yield _Index(
        f"the primary key of {table}",
        "Index Only Scan",
        f"count_{spec.name}",
        f"lookup_{spec.name}",
        {"ids": ids},
        read.digest,
    )
    if spec.key:
        yield _Index(
            f"the index {spec.key} of {table}",
            f"Index Only Scan using {spec.key}",
            f"count_key_{spec.name}",
            f"lookup_key_{spec.name}",
            {"rows": json.dumps(some[_OF_KEY].tolist())},
            read.key_digest,
        )


def _count_rows(link: Snapshot, statement: str) -> tuple[int, int]:
    ((counted, digest),) = link.rows(statement, answer_s=SCAN_S)
    return counted, int(digest)


def _find_missing_ids(link: Snapshot, index: _Index) -> tuple[int, ...]:
    rows = link.rows(index.lookup, index.parameters, answer_s=SCAN_S)
    return tuple(row_id for (row_id,) in rows)


def _require_table(link: Snapshot, spec: TableSpec, read: RowsRead) -> None:
    """Raise EngineError unless the server finds in the table what was read from it.

    If it does not, rows were left out on their way, and the index is not to blame.  An
    error has ended the transaction; then nothing can be asked any more, and what
    the server reported of its index stands.
    """
    if link.is_failed():
        return
    table = f"dbcheck.{spec.name}"
    link.fix(HEAP)
    link.require_plan(f"count_{spec.name}", "Seq Scan")
    counted, digest = _count_rows(link, f"count_{spec.name}")
    require_all(table, read.count, counted)
    if digest != read.digest:
        raise EngineError(
            f"the rows read from {table} differ from those that the server counts",
            id=ErrorId.ROWS_READ_INCOMPLETELY,
            hint="Connect to the server directly, without a proxy; then run dbcheck"
            " reconcile, before anything writes to the table.",
        )
