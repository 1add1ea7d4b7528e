"""Names and definitions of dbcheck's tables, for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.rows.acks import Row
from dbcheck.rows.earlier import WEIGHT_MODULUS
from dbcheck.rows.table import PLAIN, Definition, Kind, TableFacts, TableSpec

MARK = "dbcheck 1"  # the comment of a table that dbcheck created, with its format


def require_ours(
    spec: TableSpec, table: str, comment: str, columns: Sequence[tuple[str, str]]
) -> None:
    """Raise EngineError if an existing *table* is not one that dbcheck created.

    comment: the comment of the table.  columns: the name and the type of each column.
    """
    names = tuple(name for name, _ in columns)
    types = dict(columns)
    narrow = [
        column.name
        for column in spec.columns
        if column.kind is Kind.BIGINT and types.get(column.name) != "bigint"
    ]
    if comment != MARK:
        problem = f"was not created by dbcheck: its comment is not {MARK!r}"
    elif names != spec.column_names:
        problem = f"has the columns {', '.join(names)}"
    elif narrow:
        problem = f"has columns that are not bigint: {', '.join(narrow)}"
    else:
        return
    raise EngineError(
        f"the table {table} {problem}",
        id=ErrorId.TABLE_OF_OTHERS,
        hint="Rename or drop that table, or give dbcheck a database of its own.",
    )


def require_plain(table: str, foreign: Sequence[Sequence[Any]]) -> None:
    """Raise EngineError if *table* has objects that dbcheck did not give it.

    foreign: the rows of foreign.sql, one for each such object.  A trigger that changes
    a payload makes every row look corrupt, and a policy that hides rows makes them look
    lost.
    """
    if foreign:
        raise EngineError(
            f"the table {table} has {', '.join(what for (what,) in foreign)}",
            id=ErrorId.TABLE_CHANGED_BY_OTHERS,
            hint="Remove that, or drop the table so that dbcheck creates it again: what"
            " changes, hides or adds rows there would look like a loss.",
        )


def parse_foreign_objects(foreign: Sequence[Sequence[Any]]) -> str:
    """Convert the rows of foreign.sql to the text of a Definition."""
    return ", ".join(sorted(what for (what,) in foreign)) or PLAIN


def parse_row(values: Sequence[Any]) -> Row:
    """Convert the values of row_TABLE.sql to a Row."""
    row_id, epoch, session, seq, part, payload, checksum = values
    content = payload.encode() if isinstance(payload, str) else bytes(payload)
    return Row(row_id, epoch, session, seq, part, content, checksum)


def parse_table_facts(
    epochs: Sequence[Sequence[Any]], identity: str, definition: Definition
) -> TableFacts:
    """Convert the rows of epochs_TABLE.sql to TableFacts."""
    return TableFacts(
        rows_by_epoch={epoch: rows for epoch, rows, _, _ in epochs},
        row_id_max=max((row_id for _, _, row_id, _ in epochs), default=0),
        weights_by_epoch={
            epoch: int(weight) % WEIGHT_MODULUS
            for epoch, _, _, weight in epochs
            if weight is not None
        },
        identity=identity,
        definition=definition,
    )
