"""Two-phase commit on PostgreSQL: PREPARE TRANSACTION (17 manual, SQL reference)."""

from __future__ import annotations

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, NotPrepared
from dbcheck.engines.postgresql.link import PostgresqlLink, code_of
from dbcheck.rows.prepared import PREFIX

_UNDEFINED_OBJECT = "42704"  # no such transaction (twophase.c, LockGXact)


def require_room(link: PostgresqlLink, transactions: int) -> None:
    """Raise EngineError unless so many transactions more can be prepared at once."""
    most, now = link.row("prepared_max")
    if most - now < transactions:
        raise EngineError(
            f"the workload prepares {transactions} transactions at once;"
            f" max_prepared_transactions is {most}, and {now} are prepared",
            id=ErrorId.PREPARED_TRANSACTIONS_LIMIT,
            hint="Run: alter system set max_prepared_transactions ="
            f" {now + transactions}; and restart the server.",
        )


def prepared(link: PostgresqlLink) -> tuple[str, ...]:
    """Return the names of dbcheck's transactions that are prepared in this database."""
    return tuple(name for (name,) in link.rows("prepared") if name.startswith(PREFIX))


def decide(link: PostgresqlLink, name: str, *, commit: bool) -> None:
    """Commit or roll back a prepared transaction; raise NotPrepared if it is none."""
    statement = "commit_prepared" if commit else "rollback_prepared"
    try:
        link.rows(statement, {"name": name})
    except EngineError as error:
        if code_of(error) == _UNDEFINED_OBJECT:
            raise NotPrepared(str(error), id=ErrorId.STATEMENT_FAILED) from error
        raise
