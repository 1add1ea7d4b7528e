"""What comes out of a connection that fails, over a driver that is none."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import cast

import psycopg
import psycopg2
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.link import format_message
from dbcheck.engines.postgresql import link as postgresql_link
from dbcheck.engines.postgresql import replication
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.table import LEDGER
from tests.kit.refusals import refused


class Connection:
    """Stands in for psycopg2's; each call that *broken* names fails, as on a dead one.

    called: those that were made, in order.
    """

    autocommit = False

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.called: list[str] = []
        self._socket = socket.socket()
        self.closed = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def get_parameter_status(self, _: str) -> None:
        """Have said nothing at the login."""

    def get_backend_pid(self) -> int:
        return 9

    def set_client_encoding(self, _: str) -> None:
        """Take any."""

    def commit(self) -> None:
        self._call("commit")

    def rollback(self) -> None:
        self._call("rollback")

    def set_session(self, *_: object, **__: object) -> None:
        self._call("set_session")

    def close(self) -> None:
        self._socket.close()

    def _call(self, name: str) -> None:
        assert self.autocommit == (name == "set_session")
        self.called.append(name)
        if name in self.broken:
            raise psycopg2.InterfaceError("connection already closed")


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def link(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresqlLink]:
    monkeypatch.setattr(psycopg2, "connect", lambda **_: connection)
    # No setting is another one than was set.
    monkeypatch.setattr(PostgresqlLink, "rows", lambda *_, **__: [])
    with PostgresqlLink("db1", {}, 1) as opened:
        yield opened


def test_a_body_that_ends_is_committed(
    link: PostgresqlLink, connection: Connection
) -> None:
    with link.transaction():
        assert not connection.called
    assert connection.called == ["commit"]
    assert connection.autocommit


@pytest.mark.parametrize(
    "error",
    [EngineError("refused", id=ErrorId.STATEMENT_FAILED), KeyboardInterrupt("Ctrl-C")],
)
@pytest.mark.parametrize("broken", [set(), {"rollback"}], ids=["alive", "dead"])
def test_what_the_body_raised_comes_out(
    link: PostgresqlLink,
    connection: Connection,
    error: BaseException,
    broken: set[str],
) -> None:
    connection.broken = broken
    with pytest.raises(type(error), match=str(error)) as caught, link.transaction():
        raise error
    assert caught.value is error
    assert connection.called == ["rollback"]
    assert connection.autocommit == (not broken)


def test_a_commit_that_fails_is_an_error_of_the_engine(
    link: PostgresqlLink, connection: Connection
) -> None:
    connection.broken = {"commit"}
    said = "db1 failed at commit: connection already"
    with (
        refused(ErrorId.STATEMENT_FAILED, EngineError, naming=said),
        link.transaction(),
    ):
        assert not connection.called


def test_a_snapshot_that_fails_is_an_error_of_the_engine(
    link: PostgresqlLink, connection: Connection
) -> None:
    connection.broken = {"set_session"}
    with refused(
        ErrorId.STATEMENT_FAILED,
        EngineError,
        naming="db1 failed at begin: connection already",
    ):
        next(link.stream((LEDGER,)))


@pytest.mark.parametrize("driver", [psycopg, psycopg2])
def test_a_connection_that_cannot_be_kept_is_closed(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, driver: ModuleType
) -> None:
    """This process has no descriptor left for a second name of its socket."""

    def dup(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(driver, "connect", lambda **_: connection)
    with (
        monkeypatch.context() as patch,
        refused(
            ErrorId.OPEN_FILES_LIMIT, EngineError, naming=("db1", "Too many open files")
        ) as caught,
    ):
        patch.setattr(os, "dup", dup)
        if driver is psycopg:
            PostgresqlSession("db1", {}, (INSERT,))
        else:
            PostgresqlLink("db1", {}, 1)
    assert "ulimit -n" in caught.value.hint
    assert connection.fileno() == -1  # it is closed


@pytest.mark.parametrize(
    ("state", "words", "refused"),
    [
        ("42501", 'could not open file "base/5/16385": Permission denied', True),
        ("53000", 'could not open file "base/5/16385": Too many open files', True),
        ("53100", 'could not extend file "base/5/16385": No space left', True),
        ("58P01", 'could not open file "pg_tblspc/16384/PG_15_2/5/16385": No', True),
        ("42501", "permission denied for table ledger", False),
        ("53200", "out of memory", False),
        ("58P01", 'could not open file "base/5/16385": No such file', False),
        ("XX001", 'invalid page in block 3 of relation "base/5/16385"', False),
    ],
)
def test_a_file_that_is_not_opened_is_no_damage(
    state: str, words: str, refused: bool
) -> None:
    class Refusal(psycopg2.OperationalError):
        pgcode = state

    assert postgresql_link._is_refused(Refusal(words)) is refused


def test_a_message_leaves_out_the_statement_that_libpq_quotes() -> None:
    error = psycopg2.Error(
        'relation "dbcheck.ledger" does not exist\nLINE 3: from dbcheck.ledger\n'
        "             ^\nHINT:  Make it.\n"
    )
    told = 'relation "dbcheck.ledger" does not exist; HINT:  Make it.'
    assert format_message(error, "") == told
    assert format_message(psycopg2.Error("one\ntwo\n"), "two") == "one; ***"


@pytest.mark.parametrize("words", [(), ("",), ("\n",)])
def test_an_error_without_a_message_is_named_by_its_kind(
    words: tuple[str, ...],
) -> None:
    """libpq leaves it empty if a login ends in its first moments."""
    error = psycopg2.OperationalError(*words)
    assert format_message(error, "secret") == "OperationalError"
    assert postgresql_link.connect_advice(error)[0] is ErrorId.CONNECTION_FAILED


@pytest.mark.parametrize(
    ("said", "id"),
    [
        ('role "db" does not exist', ErrorId.LOGIN_REFUSED),
        ('role "db" is not permitted to log in', ErrorId.LOGIN_REFUSED),
        ('no pg_hba.conf entry for host "10.0.0.9", user "db"', ErrorId.LOGIN_REFUSED),
        ('pg_hba.conf rejects connection for host "10.0.0.9"', ErrorId.LOGIN_REFUSED),
        ('Peer authentication failed for user "db"', ErrorId.LOGIN_REFUSED),
        ('certificate authentication failed for user "db"', ErrorId.LOGIN_REFUSED),
        ('role "SSL" does not exist', ErrorId.LOGIN_REFUSED),
        ('password authentication failed for user "SSL"', ErrorId.PASSWORD_REFUSED),
        ('database "certificates" does not exist', ErrorId.DATABASE_UNKNOWN),
        ('password authentication failed for user "db"', ErrorId.PASSWORD_REFUSED),
        ('database "db" does not exist', ErrorId.DATABASE_UNKNOWN),
        ('LDAP authentication failed for user "db"', ErrorId.CONNECTION_FAILED),
        ("sorry, too many clients already", ErrorId.CONNECTION_FAILED),
        ("the database system is starting up", ErrorId.CONNECTION_FAILED),
    ],
)
def test_a_login_is_refused_for_good_only_by_what_the_server_itself_knows(
    said: str, id: ErrorId
) -> None:
    error = psycopg2.OperationalError(f"connection to server failed: FATAL:  {said}")
    assert postgresql_link.connect_advice(error)[0] is id


class Failed(Exception):
    """What the server says with a SQLSTATE; psycopg2's own error takes none."""

    def __init__(self, state: str | None) -> None:
        super().__init__("no")
        self.pgcode = state


@pytest.mark.parametrize(
    ("state", "id"),
    [
        ("42501", ErrorId.PROMOTION_REFUSED),
        ("55000", ErrorId.STATEMENT_FAILED),
        (None, ErrorId.CONNECTION_LOST),
    ],
)
def test_only_a_promotion_that_is_denied_is_advised_of_a_right(
    state: str | None, id: ErrorId
) -> None:
    def rows(_: str) -> None:
        raise EngineError(
            "no", id=ErrorId.STATEMENT_FAILED if state else ErrorId.CONNECTION_LOST
        ) from Failed(state)

    link = cast(PostgresqlLink, SimpleNamespace(rows=rows))
    with refused(id, EngineError, naming="no") as caught:
        replication.promote(link)
    assert ("grant execute" in caught.value.hint) == (state == "42501")
