"""What dbcheck's tables are called and look like, for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbcheck.core.earlier import WEIGHT_MODULUS
from dbcheck.core.history import Row
from dbcheck.errors import EngineError
from dbcheck.ports.engine import Shape, TableFacts

MARK = "dbcheck 1"  # the comment of a table that dbcheck created, with its format
NAMES = {Shape.LEDGER: "ledger", Shape.CLASSIC: "fs"}
SHAPES = {name: shape for shape, name in NAMES.items()}

_COLUMNS = {
    Shape.LEDGER: ("id", "epoch", "session", "seq", "part", "payload", "checksum"),
    Shape.CLASSIC: ("id",),
}


def require_ours(
    shape: Shape, table: str, comment: str, columns: Sequence[tuple[str, str]]
) -> None:
    """Raise EngineError if an existing *table* is not one that dbcheck created.

    comment: the table's; columns: (name, type) as found.
    """
    names = tuple(name for name, _ in columns)
    if comment != MARK:
        problem = "does not bear dbcheck's mark in its comment"
    elif names != _COLUMNS[shape]:
        problem = f"has the columns {', '.join(names)}"
    elif any(kind != "bigint" for name, kind in columns if name in ("id", "epoch")):
        problem = "has ids or epochs that are no bigint"
    else:
        return
    raise EngineError(
        f"the table {table} {problem}",
        hint="Rename or drop that table, or give dbcheck a database of its own.",
    )


def require_plain(table: str, foreign: Sequence[Sequence[Any]]) -> None:
    """Raise EngineError if *table* bears more than dbcheck gave it.

    foreign: what foreign.sql found.  A trigger that changes a payload makes every row
    look corrupt, and a policy that hides rows makes them look lost.
    """
    if foreign:
        raise EngineError(
            f"the table {table} has {', '.join(what for (what,) in foreign)}",
            hint="Remove that, or drop the table and have dbcheck create it anew; what"
            " changes, hides or adds rows there would be mistaken for a loss.",
        )


def row_of(values: Sequence[Any]) -> Row:
    """Return what row_ledger.sql or row_classic.sql found."""
    row_id, epoch, session, seq, part, payload, checksum = values
    content = payload.encode() if isinstance(payload, str) else bytes(payload)
    return Row(row_id, epoch, session, seq, part, content, checksum)


def table_facts(epochs: Sequence[Sequence[Any]], identity: str) -> TableFacts:
    """Return what epochs_ledger.sql or epochs_classic.sql found, row by row."""
    return TableFacts(
        rows_by_epoch={epoch: rows for epoch, rows, _, _ in epochs},
        row_id_max=max((row_id for _, _, row_id, _ in epochs), default=0),
        weights_by_epoch={
            epoch: int(weight) % WEIGHT_MODULUS
            for epoch, _, _, weight in epochs
            if weight is not None
        },
        identity=identity,
    )
