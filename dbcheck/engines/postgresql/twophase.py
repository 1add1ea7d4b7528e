"""Two-phase commit on PostgreSQL: PREPARE TRANSACTION (17 manual, SQL reference).

What is prepared outlives its session and a crash of the server, keeps its locks, and
takes one of max_prepared_transactions until it is decided.
"""

from __future__ import annotations

from typing import NoReturn

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, NotPrepared
from dbcheck.engines.postgresql.link import PostgresqlLink, error_code
from dbcheck.rows.prepared import PREFIX

_UNDEFINED_OBJECT = "42704"  # no such transaction (twophase.c, LockGXact)


def require_free_slots(link: PostgresqlLink, transactions: int) -> None:
    """Raise EngineError unless *transactions* more can be prepared at once."""
    limit, in_use = link.row("prepared_max")
    if limit - in_use < transactions:
        raise EngineError(
            f"the workload prepares {transactions} transactions at once;"
            f" max_prepared_transactions is {limit}, and {in_use} are prepared",
            id=ErrorId.PREPARED_TRANSACTIONS_LIMIT,
            hint="Run: alter system set max_prepared_transactions ="
            f" {in_use + transactions}; and restart the server.",
        )


def refuse_control() -> NoReturn:
    """Raise EngineError: no such commit can be acked before it is durable."""
    raise EngineError(
        "no control can prepare transactions: PREPARE TRANSACTION flushes the"
        " log whatever synchronous_commit is",
        id=ErrorId.CONTROL_CANNOT_PREPARE,
        hint="Run the control with another workload, such as insert.",
    )


def list_prepared(link: PostgresqlLink) -> tuple[str, ...]:
    """Return the names of dbcheck's transactions that are prepared in this database."""
    return tuple(name for (name,) in link.rows("prepared") if name.startswith(PREFIX))


def decide(link: PostgresqlLink, name: str, *, commit: bool) -> None:
    """Commit or roll back a prepared transaction; raise NotPrepared if it is none."""
    statement = "commit_prepared" if commit else "rollback_prepared"
    try:
        link.rows(statement, {"name": name})
    except EngineError as error:
        if error_code(error) == _UNDEFINED_OBJECT:
            raise NotPrepared(str(error), id=ErrorId.STATEMENT_FAILED) from error
        raise


def roll_back_all(link: PostgresqlLink) -> None:
    """Roll back all that list_prepared() returns: it locks what is to be dropped."""
    for name in list_prepared(link):
        decide(link, name, commit=False)
