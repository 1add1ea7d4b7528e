"""One psycopg2 connection that another thread can sever, with errors as ours."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg2
import psycopg2.extensions

from dbcheck.core.survivors import RowBatch
from dbcheck.engines.deadline import deadline
from dbcheck.engines.interruptible import interruptible
from dbcheck.engines.link import ANSWER_S, SCAN_S, Link, one_line
from dbcheck.engines.postgresql_copy import Copy
from dbcheck.engines.postgresql_rows import CopyParser, Nonsense
from dbcheck.errors import EngineError, TableLost
from dbcheck.files import sql

FAMILY = "postgresql"

# SQLSTATEs (PostgreSQL 17, appendix A) of a table that is not there any more or whose
# files are damaged: undefined table or schema; system error, internal error.
_MISSING, _DAMAGED = ("42P01", "3F000"), ("58", "XX")


def connect_hint(error: BaseException, otherwise: str) -> str:
    """Return what to do about a connection that failed: about TLS, or *otherwise*."""
    words = str(error)
    about_tls = "certificate" in words or "SSL" in words
    if about_tls and "pg_hba.conf" not in words:
        return (
            "Check sslmode and sslrootcert in the URL, and the server's certificate:"
            " verify-full wants one made for the host name in the URL."
        )
    return otherwise


class PostgresqlLink(Link):
    """A connection in autocommit mode; a context manager that closes it.

    target: how error messages name the server.  arguments: psycopg2's.
    """

    def __init__(
        self, target: str, arguments: Mapping[str, Any], connect_s: float
    ) -> None:
        self._target = target
        self._secret = str(arguments.get("password") or "")
        try:
            self.connection: psycopg2.extensions.connection = psycopg2.connect(
                **{**arguments, "connect_timeout": max(2, round(connect_s))}
            )
        except psycopg2.Error as error:
            raise EngineError(
                f"cannot connect to {target}: {self.words(error)}",
                hint=connect_hint(
                    error, "Check the URL, that the server runs, and the password."
                ),
            ) from None
        self.connection.autocommit = True
        # A duplicate stays ours when libpq closes its own on an error.
        self._wire = socket.socket(fileno=os.dup(self.connection.fileno()))

    def words(self, error: BaseException) -> str:
        """Return the server's message on one line, without the password."""
        return one_line(error, self._secret)

    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> list[tuple[Any, ...]]:
        """Run sql/postgresql/STATEMENT.sql; see Link.rows."""

        def run() -> list[tuple[Any, ...]]:
            with self.connection.cursor() as cursor:
                cursor.execute(sql(FAMILY, statement), parameters)
                return cursor.fetchall() if cursor.description else []

        with self._guard(statement, answer_s):
            return interruptible(run, self.sever)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that the body runs, or none of it if it raises.

        Raise EngineError if the commit fails.  psycopg2's own context manager would
        raise its error of a connection that is gone in place of the body's.
        """
        with self._guard("begin", ANSWER_S):
            self.connection.autocommit = False
        try:
            yield
        except BaseException:
            with contextlib.suppress(psycopg2.Error), deadline(ANSWER_S, self.sever):
                self.connection.rollback()
                self.connection.autocommit = True
            raise
        with self._guard("commit", ANSWER_S):
            interruptible(self.connection.commit, self.sever)
            self.connection.autocommit = True

    def stream(self, shape: str) -> Iterator[RowBatch]:
        """Yield every row of the table in batches, all as of one moment.

        A batch has about BATCH_BYTES bytes, or ends with the row that exceeds them.
        """
        with self._guard("begin", ANSWER_S):
            self.connection.set_session(
                "REPEATABLE READ", readonly=True, autocommit=False
            )
        self.rows("heap_scan")
        statement = f"survivors_{shape}"
        parser = CopyParser()
        with Copy(self.connection, sql(FAMILY, statement), self.sever) as copy:
            while True:
                with self._guard(statement, SCAN_S):
                    messages = copy.read()
                    batch = parser.parse(messages)
                if batch:
                    yield batch
                if not messages:
                    return

    def sever(self) -> None:
        """Break the connection, whichever thread is waiting on it."""
        with contextlib.suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; never raises."""
        with contextlib.suppress(psycopg2.Error):
            self.connection.close()
        self._wire.close()

    @contextlib.contextmanager
    def _guard(self, statement: str, answer_s: float) -> Iterator[None]:
        """Limit the time, and turn the driver's errors into EngineError."""
        try:
            with deadline(answer_s, self.sever):
                yield
        except psycopg2.Error as error:
            text = f"{self._target} failed at {statement}: {self.words(error)}"
            state = error.pgcode or ""
            if state.startswith(_MISSING + _DAMAGED):
                missing = state.startswith(_MISSING)
                raise TableLost(text, missing=missing) from error
            raise EngineError(text) from error
        except Nonsense as error:
            text = f"{self._target} failed at {statement}: {error}"
            raise EngineError(text) from error
