"""A session's own connection, for statements that the load would never send."""

from __future__ import annotations

from typing import Any

from dbcheck.engines.mysql.session import MysqlSession
from dbcheck.engines.postgresql.session import PostgresqlSession


def run_on(session: Any, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run *statement* on the connection of an idle session; return its rows."""
    if isinstance(session, PostgresqlSession):
        cursor = session.connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []
    assert isinstance(session, MysqlSession)
    session._wire.setblocking(True)
    try:
        rows: Any = session.link.connection.cursor()
        rows.execute(statement, values or ())
        return list(rows.fetchall()) if rows.with_rows else [(rows.lastrowid,)]
    finally:
        session._wire.setblocking(False)


def server_id(session: Any) -> int:
    """Return by what number the server knows the session's connection."""
    if isinstance(session, PostgresqlSession):
        return session._pgconn.backend_pid
    assert isinstance(session, MysqlSession)
    number: int | None = session.link.connection.connection_id
    assert number is not None
    return number


class SendsInstead:
    """A PGconn that sends another statement than it is told to."""

    def __init__(self, session: PostgresqlSession, statement: bytes) -> None:
        self._pgconn, self._statement = session._pgconn, statement
        session._pgconn = self  # type: ignore[assignment]

    def send_query_prepared(self, *_: object) -> None:
        """Send the other statement."""
        self._pgconn.send_query_params(self._statement, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pgconn, name)
