"""A session of the load on MySQL or MariaDB.

mysql-connector-python connects, with TLS where the server has it, and prepares the
statement; from then on its socket carries the packets of mysql_wire, since the driver
can only block.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

import mysql.connector
from mysql.connector.constants import ClientFlag

from dbcheck.core.history import Row
from dbcheck.engines.deadline import deadline
from dbcheck.engines.link import ANSWER_BYTES, ANSWER_S
from dbcheck.engines.mysql.connection import readable
from dbcheck.engines.mysql.link import FAMILY, MysqlLink
from dbcheck.engines.mysql.wire import (
    Nonsense,
    Ok,
    Refusal,
    answer,
    execute,
    execute_head,
)
from dbcheck.errors import CommitUnknown, EngineError
from dbcheck.files import sql
from dbcheck.ports.engine import Shape

# Errors of the server after which a row may be there: it goes down, kills the
# connection, or fails in the commit itself (in storage engine or binary log).
_UNKNOWN = frozenset(
    {
        1026,  # error writing file
        1030,  # error from storage engine
        1053,  # server shutdown in progress
        1105,  # unknown error
        1180,  # error during COMMIT
        1317,  # query interrupted
        1598,  # binary logging not possible
        1927,  # connection was killed (MariaDB)
        3169,  # session was killed (MySQL)
    }
)
_FAREWELLS = (1053, 1927, 3169)
_CLIENT_ERRORS = range(2000, 3000)  # numbers of a client's library, not of a server

_READ_BYTES = 1 << 14
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class MysqlSession:
    """One connection of the load; see Session."""

    def __init__(self, link: MysqlLink, shape: Shape) -> None:
        """Take over *link* and prepare the statement on it; raise EngineError."""
        self.link = link
        self._has_key = shape is Shape.LEDGER
        self._in_flight = False
        self._unsent = memoryview(b"")
        self._received = b""
        connection = link.connection
        try:
            link.wire(ANSWER_S)
            with (
                readable(),
                deadline(ANSWER_S, link.sever, link.received, ANSWER_BYTES),
            ):
                statement = sql(FAMILY, f"insert_{shape.value}").encode()
                prepared = connection.cmd_stmt_prepare(statement)
        except (mysql.connector.Error, OSError) as error:
            raise EngineError(
                f"cannot prepare a session: {link.words(error)}"
            ) from None
        self._wire = link.wire(0)
        flags = connection._client_flags
        self._head = execute_head(
            prepared["statement_id"],
            has_key=self._has_key,
            has_attributes=bool(flags & ClientFlag.CLIENT_QUERY_ATTRIBUTES),
        )

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._wire.fileno()

    def send(self, row: Row) -> bool:
        """Begin to insert *row* in a transaction of its own; see Session."""
        try:
            packet = execute(self._head, row if self._has_key else None)
        except struct.error as error:
            raise EngineError(f"the table has no such row: {error}") from None
        self._in_flight = True
        self._unsent = memoryview(packet)
        return self.flush()

    def flush(self) -> bool:
        """Send what is left; return True once nothing is."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._wire.send(self._unsent) :]
        except _NOT_NOW:
            return False
        except OSError as error:
            raise self._broken(self.link.words(error)) from error
        return True

    def receive(self) -> int | None:
        """Read what came; return the row's id once its commit is answered."""
        while True:
            try:
                read = self._wire.recv(_READ_BYTES)
            except _NOT_NOW:
                return None
            except OSError as error:
                raise self._broken(self.link.words(error)) from error
            if not read:
                raise self._broken("the server closed it")
            self._received += read
            try:
                said = answer(self._received)
            except Nonsense as error:
                raise self._broken(str(error)) from error
            if said is not None:
                self._received = b""
                return self._outcome(said)

    def close(self) -> None:
        """End the connection, also in the middle of an operation; never raises."""
        if self._in_flight:
            self._sever()
        self.link.close()

    def _sever(self) -> None:
        """Break the connection, and keep its descriptor until it is closed."""
        with contextlib.suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)

    def _outcome(self, said: Ok | Refusal) -> int:
        """Return the id if what the server answered says that the row is committed."""
        if isinstance(said, Refusal):
            raise self._refusal(said)
        if not self._in_flight or self._unsent:
            raise self._broken("the server answered what was not asked")
        self._in_flight = False
        if said.is_open or said.rows != 1 or not said.row_id:
            self._sever()  # the server rolls back what is still open
            raise EngineError(
                f"the server inserted {said.rows} rows, the last with id"
                f" {said.row_id}, and the transaction is"
                f" {'still open' if said.is_open else 'over'}",
                hint="Connect to the server itself, with no proxy between.",
            )
        return said.row_id

    def _refusal(self, said: Refusal) -> EngineError:
        """Return EngineError if the row is certainly absent, else CommitUnknown."""
        words = f"{said.number}: {self.link.without_secret(said.words)}"
        if said.number in _CLIENT_ERRORS or said.number in _UNKNOWN:
            return self._broken(words, words if said.number in _FAREWELLS else "")
        self._in_flight = False
        return EngineError(f"the server refused a commit: {words}")

    def _broken(self, words: str, farewell: str = "") -> CommitUnknown:
        text = f"the connection broke during a commit: {words}"
        return CommitUnknown(text, farewell=farewell)
