"""Which of a server's errors mean that the account lacks a right."""

from __future__ import annotations

from typing import Any, cast

import mysql.connector
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError
from dbcheck.engines.mysql.account import require_rights
from dbcheck.engines.mysql.link import MysqlLink, _table_or_engine_error
from dbcheck.engines.mysql.replication import promote
from dbcheck.engines.mysql.session import branch_of, list_prepared, roll_back_all
from dbcheck.rows.operation import Usage, Verb
from dbcheck.rows.prepared import PREFIX
from dbcheck.rows.table import LEDGER
from tests.kit.refusals import refused

USAGE = Usage({LEDGER: (Verb.INSERT,)}, prepares=True)
GRANTS = "GRANT SELECT, INSERT, CREATE, DROP ON *.* TO `dbcheck`@`%`"
REPLICA, PREPARED = "replica_status", "prepared"


class RefusingLink:
    """A MySQL server that answers one statement with an error."""

    def __init__(self, statement: str, number: int) -> None:
        self.statement, self.number = statement, number

    def row(self, statement: str) -> tuple[Any, ...]:
        assert statement == "server"
        return "8.4.3", "MySQL Community Server - GPL", "dbcheck@%"

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        if statement == self.statement:
            error = mysql.connector.Error(msg="no", errno=self.number)
            raise _table_or_engine_error(error, f"failed: {error}") from error
        return {"grants": [(GRANTS,)]}.get(statement, [])


def require(statement: str, number: int) -> None:
    link = cast(MysqlLink, RefusingLink(statement, number))
    require_rights(link, USAGE, "dbcheck", None)


@pytest.mark.parametrize(
    ("statement", "number", "privilege"),
    [
        (REPLICA, 1227, "REPLICATION CLIENT"),
        (PREPARED, 1401, "XA_RECOVER_ADMIN"),
        (PREPARED, 1227, "XA_RECOVER_ADMIN"),
    ],
)
def test_a_statement_that_is_denied_names_its_right(
    statement: str, number: int, privilege: str
) -> None:
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError, naming=privilege):
        require(statement, number)


@pytest.mark.parametrize("statement", [REPLICA, PREPARED])
def test_another_error_is_no_missing_right(statement: str) -> None:
    """1105 is ER_UNKNOWN_ERROR: no GRANT would mend it."""
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="1105") as caught:
        require(statement, 1105)
    assert "grant" not in caught.value.hint


@pytest.mark.parametrize("number", [1227, 1401])
def test_a_list_of_prepared_transactions_that_is_denied_names_its_right(
    number: int,
) -> None:
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError, naming=str(number)) as caught:
        list_prepared(cast(MysqlLink, RefusingLink(PREPARED, number)), "dbcheck")
    assert "grant xa_recover_admin on *.* to 'dbcheck'@'%';" in caught.value.hint


def test_no_right_is_missing_where_the_list_fails_for_another_reason() -> None:
    """It is read after the cut, when the server may go away again."""
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="1105") as caught:
        list_prepared(cast(MysqlLink, RefusingLink(PREPARED, 1105)), "dbcheck")
    assert not caught.value.hint

    class LostLink:
        def rows(self, statement: str) -> None:
            raise ConnectionLost(f"lost at {statement}", 7, id=ErrorId.CONNECTION_LOST)

    with refused(ErrorId.CONNECTION_LOST, ConnectionLost, naming=PREPARED):
        list_prepared(cast(MysqlLink, LostLink()), "dbcheck")


class PreparedLink(RefusingLink):
    """The same, with a transaction that is prepared."""

    def rows(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        super().rows(statement)
        name = f"{PREFIX}1-1-1"
        data = f"{name}{branch_of('dbcheck')}"
        return [(1, len(name), 8, data)] if statement == PREPARED else []


@pytest.mark.parametrize(
    ("statement", "number"),
    [(PREPARED, 1227), (PREPARED, 1401), ("rollback_prepared", 1397)],
)
def test_what_it_may_not_list_or_is_decided_is_not_rolled_back(
    statement: str, number: int
) -> None:
    roll_back_all(cast(MysqlLink, PreparedLink(statement, number)), "dbcheck")


@pytest.mark.parametrize("statement", [PREPARED, "rollback_prepared"])
@pytest.mark.parametrize("number", [1105, 2013])
def test_a_transaction_that_stays_prepared_for_another_reason_is_reported(
    statement: str, number: int
) -> None:
    """It would hold its locks on the tables that are dropped next."""
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming=str(number)):
        roll_back_all(cast(MysqlLink, PreparedLink(statement, number)), "dbcheck")


@pytest.mark.parametrize(
    "statement", ["stop_replica_mysql", "forget_source", "allow_writes_mysql"]
)
def test_only_a_promotion_that_is_denied_is_advised_of_a_right(statement: str) -> None:
    with refused(ErrorId.PROMOTION_REFUSED, EngineError, naming="1227") as caught:
        promote(cast(MysqlLink, RefusingLink(statement, 1227)))
    assert "Grant the account" in caught.value.hint
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="2013") as caught:
        promote(cast(MysqlLink, RefusingLink(statement, 2013)))
    assert not caught.value.hint
