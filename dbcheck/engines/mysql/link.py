"""One mysql-connector-python connection that another thread can sever."""

from __future__ import annotations

import contextlib
import errno
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import mysql.connector

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    ConnectionLost,
    EngineError,
    TableConverted,
    TableLost,
    TableRefused,
)
from dbcheck.config.files import read_sql
from dbcheck.engines.indexes import RowsRead
from dbcheck.engines.link import (
    ANSWER_BYTES,
    ANSWER_S,
    BATCH_BYTES_MAX,
    NOT_GRANTED,
    NOT_THE_SERVER,
    SCAN_S,
    Link,
    ProtocolViolation,
    Watch,
    count_received_bytes,
    deadline,
    format_message,
    locked_table_error,
    no_answer_error,
    not_permitted_error,
    require_all,
    require_inserted,
    require_within,
    wrong_setting_error,
)
from dbcheck.engines.mysql.answering import identify_server
from dbcheck.engines.mysql.connection import (
    SafeConnection,
    translate_unreadable_answers,
)
from dbcheck.engines.mysql.index import require_indexes
from dbcheck.engines.mysql.login_advice import MISUSE, connect_advice
from dbcheck.engines.mysql.places import ENGINES, StorageEngine
from dbcheck.engines.mysql.rows import Layout, RowReader
from dbcheck.engines.mysql.settings import (
    SESSION,
    Value,
    is_in_effect,
    read_statement,
    set_statement,
)
from dbcheck.engines.mysql.wire import (
    Ended,
    Ok,
    Refusal,
    Texts,
    parse_answers,
    parse_text_rows,
    query_packets,
)
from dbcheck.engines.peer import require_same
from dbcheck.model.server import ServerFacts
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import TableSpec
from dbcheck.server_log import Product

FAMILY = "mysql"

_BEGIN, _COMMIT = b"start transaction", b"commit"
_READ_BYTES = 1 << 14

ACCESS_DENIED_TO_SERVER = 1227  # ER_SPECIFIC_ACCESS_DENIED_ERROR
_LOGIN_PACKETS = 3  # that a slow server may keep its client waiting for

# Error numbers (MySQL 8.4 and MariaDB error references) of a database or table that is
# not there any more (unknown database, no such table) or whose files are damaged: no
# such file, cannot open, storage engine error, wrong information or key file, crashed,
# not repaired, index corrupt, index or table corrupt in InnoDB's own terms, not in the
# engine.
_MISSING = {1049, 1146}
_DAMAGED = {1016, 1017, 1030, 1033, 1034, 1194, 1195}
_DAMAGED |= {1712, 1817, 1877, 1932}
# Those of a table that is not read, and may be sound: its definition changed meanwhile,
# its file is not there, or was discarded by an administrator.  Others (cannot open,
# cannot find, storage engine error) name the error of the system: no such file, no
# memory, no permission, too many open files, no space, read-only; or InnoDB's for a
# file that it cannot open (my_base.h, HA_ERR_TABLESPACE_MISSING).
_REFUSED = {1412, 1812, 1814}
_OF_THE_SYSTEM = {1016, 1017, 1030}
_SYSTEM_ERROR = re.compile(r"(?:errno: |[Gg]ot error )(\d+)\b")
_HARMLESS = {errno.ENOENT, errno.ENOMEM, errno.EACCES, errno.ENFILE, errno.EMFILE}
_HARMLESS |= {errno.ENOSPC, errno.EROFS, 194}
# Those of rows that are kept from a reader: a lock on the table (ER_LOCK_WAIT_TIMEOUT);
# no right to the database, to the table, to a column of it.
LOCK_WAIT_TIMEOUT, _NOT_PERMITTED = 1205, {1044, 1142, 1143}
# Those of a connection that broke: the driver's own (server gone, server lost), and the
# server's where it shuts down or was asked to end the session.
_LOST = {2006, 2013, 2055, 1053, 1927, 3169}


def error_code(error: EngineError) -> int | None:
    """Return the number of the server's error that *error* stands for, None if none."""
    return getattr(error.__cause__ or error.__context__, "errno", None)


def _table_or_engine_error(
    error: Exception, text: str, id: ErrorId = ErrorId.STATEMENT_FAILED, hint: str = ""
) -> EngineError:
    """Return TableLost or TableRefused for an error about a table, else EngineError."""
    number = getattr(error, "errno", None)
    if _is_refused(number, str(error)):
        return TableRefused(text, id=ErrorId.TABLE_REFUSED, hint=hint)
    if number in _MISSING | _DAMAGED:
        return TableLost(
            text, id=ErrorId.TABLE_LOST, hint=hint, missing=number in _MISSING
        )
    denied = number in {*_NOT_PERMITTED, ACCESS_DENIED_TO_SERVER}
    return EngineError(text, id=id, hint=hint or (NOT_GRANTED if denied else ""))


def _is_refused(number: int | None, message: str) -> bool:
    """Return True if an error of that number may come of a table that is sound."""
    if number in _REFUSED:
        return True
    named = _SYSTEM_ERROR.search(message) if number in _OF_THE_SYSTEM else None
    return named is not None and int(named[1]) in _HARMLESS


class MysqlLink(Link):
    """A connection in autocommit mode; a context manager that closes it.

    target: how error messages name the server.  arguments: the driver's.
    storage: of the tables that it creates and reads.
    """

    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        connect_s: float,
        storage: StorageEngine = ENGINES["innodb"],
    ) -> None:
        self._target, self.storage = target, storage
        self._secret = str(arguments.get("password") or "")
        packet_s = max(1, round(connect_s))
        try:
            self.connection = SafeConnection(
                packet_s * _LOGIN_PACKETS,
                **arguments,
                autocommit=True,
                connection_timeout=packet_s,
            )
        except (mysql.connector.Error, OSError, *MISUSE) as error:
            text = f"cannot connect to {target}: {self.message(error)}"
            raise _table_or_engine_error(error, text, *connect_advice(error)) from None
        self._session = self.connection.connection_id or 0
        named = (self.connection.server_info or "").lower()
        self.product = Product.MARIADB if "mariadb" in named else Product.MYSQL
        try:
            self._fix_session(connect_s)
        except BaseException as error:
            self.abandon(error)
            raise

    def message(self, error: BaseException) -> str:
        return format_message(error, self._secret)

    def remove_secret(self, text: str) -> str:
        """Return *text* without the password."""
        return text.replace(self._secret, "***") if self._secret else text

    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> list[tuple[Any, ...]]:
        """Run sql/mysql/STATEMENT.sql; see Link.rows."""
        with self._guard(statement, answer_s):
            return self._execute(read_sql(FAMILY, statement), parameters)

    def plan(
        self, statement: str, parameters: Mapping[str, object] | None = None
    ) -> list[dict[str, Any]]:
        """Return the server's plan for the statement: a line for each table."""
        text = f"explain format=traditional {read_sql(FAMILY, statement)}"
        with self._guard(f"the plan of {statement}", ANSWER_S):
            return self._named(text, parameters)

    def named_rows(self, statement: str) -> list[dict[str, Any]]:
        """Run sql/mysql/STATEMENT.sql, whose columns differ by version; see rows()."""
        with self._guard(statement, ANSWER_S):
            return self._named(read_sql(FAMILY, statement), None)

    def _named(
        self, text: str, parameters: Mapping[str, object] | None
    ) -> list[dict[str, Any]]:
        cursor: Any = self.connection.cursor()
        cursor.execute(text, parameters or ())
        names = cursor.column_names
        return [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]

    def texts(self, *statements: str) -> list[Texts]:
        """Run several of sql/mysql at once; return the rows of each, as texts.

        In one round trip, and past the driver, which reads each packet by two calls of
        the system: in a process whose other threads work, each call may have to wait
        for the interpreter.  Raise EngineError.
        """
        name = " and ".join(statements)
        texts = (
            read_sql(FAMILY, name).rstrip().removesuffix(";") for name in statements
        )
        text = "\n;".join(texts).encode()
        data, found, ends_s = b"", None, time.monotonic() + ANSWER_S
        with self._errors(name), translate_unreadable_answers():
            wire = self.wire(ANSWER_S)
            try:
                wire.sendall(
                    query_packets(
                        text, has_attributes=self.connection.has_query_attributes
                    )
                )
                while found is None:
                    data += _receive(wire)
                    if len(data) > ANSWER_BYTES or time.monotonic() > ends_s:
                        raise no_answer_error(self._target, name, ANSWER_S)
                    found = parse_text_rows(data, len(statements))
            except TimeoutError:
                raise no_answer_error(self._target, name, ANSWER_S) from None
            if isinstance(found, Refusal):
                raise mysql.connector.Error(found.message, errno=found.number)
        return found

    def create_database(self, name: str) -> None:
        """Create the database *name*; an identifier cannot be a parameter."""
        quoted = name.replace("`", "``")
        with self._guard("create database", ANSWER_S):
            self._execute(f"create database if not exists `{quoted}`", None)

    def set_global(self, settings: Mapping[str, Value], *, persist: bool) -> None:
        """Set settings of the whole server, in their order.

        settings: their names, which cannot be parameters, must be dbcheck's own.
        persist: also for the server's next starts, which MariaDB cannot do.
        """
        scope = "persist" if persist else "global"
        names = ", ".join(f"@@{scope}.{name} = %s" for name in settings)
        with self._guard(f"set {scope} {', '.join(settings)}", ANSWER_S):
            self._execute(f"set {names}", tuple(settings.values()))

    def require(self, server: ServerFacts) -> None:
        require_same(self._target, server, identify_server(self, self.product))

    def stream(
        self, tables: Sequence[TableSpec], server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Yield every row of the tables in batches, all as of one moment.

        server: raise OtherServer if, in that transaction, another one answers.
        The driver takes ten times as long to make objects of a row as the server takes
        to send it, so its socket is read here.  Raise EngineError if the server counts
        more rows, or fewer, and IndexDamaged, after the last row, if one of a table's
        indexes disagrees with it.
        """
        self.rows("snapshot")
        if server is not None:
            self.require(server)
        self._require_engine(tables)
        read = {table: RowsRead(has_key_index=bool(table.key)) for table in tables}
        for table, rows in read.items():
            for batch in self._rows_of(table):
                rows.add(batch.records)
                yield table, batch
        for table, rows in read.items():
            require_indexes(self, table, rows.count, rows.key_digest)

    def _require_engine(self, tables: Sequence[TableSpec]) -> None:
        """Raise TableConverted if one of *tables* is not of the URL's storage engine.

        A crash takes commits from a table of another engine by design, and may leave
        it damaged.
        """
        engine = self.storage.name
        found = dict(self.rows("other_engines", {"engine": engine}))
        others = {t.name: found[t.name] for t in tables if t.name in found}
        if others:
            shown = ", ".join(f"{table} of {now}" for table, now in others.items())
            raise TableConverted(
                f"{shown}, not of {engine}",
                others,
                id=ErrorId.TABLE_CONVERTED,
                hint="Find out who changed the engine; drop the table, which dbcheck"
                f" creates with engine = {engine}, and cut anew.",
            )

    def _rows_of(self, table: TableSpec) -> Iterator[RowBatch]:
        statement = f"survivors_{table.name}"
        with self._guard(statement, SCAN_S):
            prepared = self.connection.cmd_stmt_prepare(
                read_sql(FAMILY, statement).encode()
            )
            answered = self.connection.cmd_stmt_execute(prepared["statement_id"])
        with self._errors(statement):
            layout = Layout([column[1] for column in answered[1]])
            batches = RowReader(layout, self.wire(SCAN_S).recv_into).batches()
        read = 0
        while True:
            with self._guard(statement, SCAN_S, BATCH_BYTES_MAX):
                batch = next(batches, None)
            if batch is None:
                break
            read += len(batch)
            yield batch
        self.connection.forget_rows()
        ((counted,),) = self.rows(f"count_{table.name}", answer_s=SCAN_S)
        require_all(table.name, read, counted)

    def prepared(self, statement: str, text: bytes) -> int:
        """Prepare *text*; return its number.  statement: its name in messages."""
        with self._guard(statement, ANSWER_S):
            return int(self.connection.cmd_stmt_prepare(text)["statement_id"])

    def insert_all(self, statement: str, packets: Iterable[bytes], rows: int) -> None:
        """Run INSERTs of a packet each, *rows* rows together, in one transaction.

        Raise EngineError if another number went in.
        Each packet is made while the server works on the one before it.  statement: how
        error messages name them.  The transaction is open still if one was refused.
        """
        attributes = self.connection.has_query_attributes
        begin = query_packets(_BEGIN, has_attributes=attributes)
        commit = query_packets(_COMMIT, has_attributes=attributes)
        found = 0
        with self._guard(statement, SCAN_S):
            wire = self.wire(SCAN_S)
            wire.sendall(begin)
            for packet in chain(packets, (commit,)):
                found += _parse_answer(wire).rows
                wire.sendall(packet)
            if _parse_answer(wire).is_open:
                raise ProtocolViolation("a transaction is open after its commit")
        require_inserted(self._target, found, rows)

    def wire(self, answer_s: float) -> socket.socket:
        """Return the driver's socket, whose calls raise TimeoutError after answer_s.

        If that is 0, no call blocks.  Raise EngineError if what comes is compressed.
        """
        if self.connection.is_compressed:
            raise EngineError(
                "the connection is compressed",
                id=ErrorId.CONNECTION_COMPRESSED,
                hint="Remove compress from the URL.",
            )
        wire = self.connection.wire()
        assert wire is not None
        wire.settimeout(answer_s)
        return wire

    def received(self) -> int:
        """Return the number of bytes received so far, 0 if that is unknown."""
        return count_received_bytes(self.connection.wire())

    def sever(self) -> None:
        """Break the connection, whichever thread is waiting on it."""
        self.connection.shutdown()

    def close(self) -> None:
        with contextlib.suppress(mysql.connector.Error, OSError):
            self.connection.close()

    def _fix_session(self, answer_s: float) -> None:
        """Set what a session depends on, and verify that it is in effect."""
        wanted = {
            **SESSION[self.product],
            "default_storage_engine": self.storage.name,
        }
        with self._guard("setting the session", answer_s):
            self._execute(read_sql(FAMILY, "session_clock"), None)
            self._execute(*set_statement(wanted))
            (found,) = self._execute(read_statement(wanted), None)
        for (name, value), now in zip(wanted.items(), found, strict=True):
            if not is_in_effect(value, now):
                raise wrong_setting_error(name, now, value)

    def _execute(
        self, text: str, parameters: Mapping[str, object] | Sequence[object] | None
    ) -> list[tuple[Any, ...]]:
        # Not closed: a cursor holds nothing on the server, and to close one whose rows
        # are not all read is an error, in whose stead an interrupt would be lost.
        cursor: Any = self.connection.cursor()
        cursor.execute(text, parameters or ())
        return list(cursor.fetchall()) if cursor.with_rows else []

    @contextlib.contextmanager
    def _guard(
        self, statement: str, answer_s: float, most: int = ANSWER_BYTES
    ) -> Iterator[None]:
        """Limit time and bytes, and turn the driver's errors into EngineError."""
        with (
            self._errors(statement),
            deadline(answer_s, self.sever, self.received, most) as overrun,
        ):
            try:
                with translate_unreadable_answers():
                    yield
            except (mysql.connector.Error, OSError, ProtocolViolation):
                require_within(overrun, self._target, statement, answer_s, most)
                raise
        # Cut off although it ended in time: the next statement would be blamed for it.
        require_within(overrun, self._target, statement, answer_s, most)

    @contextlib.contextmanager
    def _errors(self, statement: str) -> Iterator[None]:
        try:
            yield
        except (mysql.connector.Error, OSError) as error:
            text = f"{self._target} failed at {statement}: {self.message(error)}"
            if _is_lost(error):
                raise ConnectionLost(
                    text, self._session, id=ErrorId.CONNECTION_LOST
                ) from error
            raise _table_or_engine_error(error, text) from error
        except ProtocolViolation as error:
            text = f"{self._target} failed at {statement}: {error}"
            if isinstance(error, Ended):
                raise ConnectionLost(
                    text, self._session, id=ErrorId.CONNECTION_LOST
                ) from error
            raise EngineError(
                text, id=ErrorId.ANSWER_NOT_UNDERSTOOD, hint=NOT_THE_SERVER
            ) from error


@contextlib.contextmanager
def explain_withheld_rows(
    connect: Callable[[], MysqlLink], database: str
) -> Iterator[None]:
    """Raise RowsWithheld for what keeps the body from reading rows of *database*.

    connect: opens another connection, over which it is asked who has the lock.
    """
    try:
        yield
    except EngineError as error:
        number = error_code(error)
        if number == LOCK_WAIT_TIMEOUT:
            raise locked_table_error(
                error, _find_blockers(connect, database)
            ) from error
        if number in _NOT_PERMITTED:
            raise not_permitted_error(error) from error
        raise


def _find_blockers(connect: Callable[[], MysqlLink], database: str) -> str:
    """Return the connections that may hold a lock which blocks readers.

    Each with its account and state; "" if the server shows none.
    """
    found = []
    with contextlib.suppress(EngineError), connect() as link:
        statement = f"blockers_{link.product.lower()}"
        for number, account, what, state in link.rows(
            statement, {"database": database}
        ):
            more = ", ".join(filter(None, (account, what, state)))
            found.append(f"connection {number} ({more})")
    return "; ".join(found)


class MysqlWatch(Watch):
    """A link that repeatedly asks several small questions at once."""

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._mysql = link

    def _texts(self, *statements: str) -> list[Texts]:
        with self._abandon_on_error():
            return self._mysql.texts(*statements)


def _receive(wire: socket.socket) -> bytes:
    """Return the next bytes; raise Ended if the server closed the connection."""
    read = wire.recv(_READ_BYTES)
    if not read:
        raise Ended("the server closed the connection")
    return read


def _parse_answer(wire: socket.socket) -> Ok:
    """Return the answer to one statement; raise the driver's error for a refusal."""
    data, found = b"", None
    while found is None:
        data += _receive(wire)
        found = parse_answers(data, 1)
    if isinstance(found, Refusal):
        raise mysql.connector.Error(found.message, errno=found.number)
    return found[0]


def _is_lost(error: Exception) -> bool:
    """Return True if the connection broke; one that waits too long did not."""
    if isinstance(error, OSError):
        return not isinstance(error, TimeoutError)
    if isinstance(error, mysql.connector.OperationalError) and error.errno == -1:
        return True  # the driver's, of a connection that it has closed
    return getattr(error, "errno", None) in _LOST


def require_off(link: MysqlLink, statement: str, is_on: str) -> None:
    """Raise EngineError if a setting that this session switched off is on.

    statement: reads it.  is_on: says so, for the error.
    """
    (value,) = link.row(statement)
    if value:
        raise EngineError(
            f"{is_on} although the session set another value",
            id=ErrorId.CONNECTION_NOT_DIRECT,
            hint="Connect to the server directly, without a pooler or proxy.",
        )
