"""One psycopg2 connection that another thread can sever, with errors as ours."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import psycopg2
import psycopg2.extensions

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError, TableLost, TableRefused
from dbcheck.config.files import read_sql
from dbcheck.engines.indexes import RowsRead
from dbcheck.engines.link import (
    ACCOUNT_HINT,
    ANSWER_BYTES,
    ANSWER_S,
    BATCH_BYTES_MAX,
    NOT_GRANTED,
    NOT_THE_SERVER,
    SCAN_S,
    UNREACHABLE_HINT,
    UNREADABLE,
    WRONG_PASSWORD_HINT,
    Link,
    Overrun,
    ProtocolViolation,
    count_received_bytes,
    deadline,
    format_message,
    require_inserted,
    require_within,
    run_interruptible,
    unreadable_answer_error,
    wrong_setting_error,
)
from dbcheck.engines.peer import Answering, require_same
from dbcheck.engines.postgresql import libpq as logins
from dbcheck.engines.postgresql.index import require_indexes
from dbcheck.engines.postgresql.libpq import REFUSED, UNVERIFIED_HINT, password_advice
from dbcheck.engines.postgresql.product import require_at_login
from dbcheck.engines.postgresql.rows import Copy, CopyParser
from dbcheck.engines.postgresql.settings import HEAP, SESSION, SNAPSHOT
from dbcheck.model.server import ServerFacts
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import TableSpec

FAMILY = "postgresql"  # the folder below sql/

logins.silence_stderr()  # before any connection

# SQLSTATEs (PostgreSQL 17, appendix A) of a table that is not there any more or whose
# files are damaged: undefined table or schema; I/O error, internal error (among them
# XX001 data_corrupted, XX002 index_corrupted).  An undefined file (58P01) is damage
# only if it is one of a relation: libraries are files as well (md.c, dfmgr.c).
_MISSING, _DAMAGED, _NO_FILE = ("42P01", "3F000"), ("58030", "XX"), "58P01"
_OF_A_RELATION = re.compile(r"\b(?:base|global|pg_tblspc)/[0-9]")
# Also where a policy would leave rows out and row_security is off (settings.SESSION).
NOT_PERMITTED = "42501"
# Those of a relation's file that may be sound: no permission, no space, no memory, too
# many open files (elog.c, errcode_for_file_access); or of one in a tablespace that is
# not there, for a volume that is not mounted looks so.
_REFUSED = (NOT_PERMITTED, "53100", "53200", "53000")
_IN_A_TABLESPACE = re.compile(r"\bpg_tblspc/[0-9]")

# How a server ends a login, and what it says of a database that it does not have
# (PostgreSQL 17, postinit.c).
_ANSWERED, _NO_DATABASE = "FATAL:", re.compile(r'FATAL: +database ".*" does not exist')
# A login that is refused by what the server itself knows (auth.c, miscinit.c).  Others
# ask a service, such as LDAP, which may not be up yet.
_REFUSED_BY_ROLE = re.compile(
    r'FATAL: +role ".*" (?:does not exist|is not permitted to log in)'
)
_REFUSED_BY_RULE = re.compile(
    r"FATAL: +(?:no pg_hba\.conf entry for|pg_hba\.conf rejects connection"
    r"|(?:Peer|certificate) authentication failed)"
)

_PIECE_BYTES = 1 << 20  # of a COPY to the server, at most at once


def connect_advice(error: BaseException) -> tuple[ErrorId, str]:
    """Return the id of a connection that failed, and what to do about it.

    The server's own message is read: libpq has no code for a login that was refused.
    A message in another language than English has the id of any failed connection.
    """
    text = str(error)
    if REFUSED in text or "requirepeer specifies" in text:
        return ErrorId.SERVER_NOT_VERIFIED, UNVERIFIED_HINT
    if "password authentication failed" in text:
        return ErrorId.PASSWORD_REFUSED, WRONG_PASSWORD_HINT
    if _NO_DATABASE.search(text):
        return ErrorId.DATABASE_UNKNOWN, (
            "The name at the end of the URL may be mistyped. If there is no such"
            " database yet, dbcheck grants prints the statements that create it."
        )
    if _REFUSED_BY_ROLE.search(text):
        return ErrorId.LOGIN_REFUSED, f"Correct the user in the URL. {ACCOUNT_HINT}"
    if _REFUSED_BY_RULE.search(text):
        return ErrorId.LOGIN_REFUSED, (
            "The server answers, and its pg_hba.conf does not let this account log in"
            " from here, or not in this way. Correct the user in the URL, or that file."
        )
    about_tls = "certificate" in text or "SSL" in text
    if about_tls and "pg_hba.conf" not in text:
        return ErrorId.SERVER_CERTIFICATE_REFUSED, (
            "Check sslmode and sslrootcert in the URL, and the server's certificate:"
            " verify-full needs one for the host name in the URL."
        )
    if _ANSWERED in text or getattr(error, "sqlstate", None):
        return ErrorId.CONNECTION_FAILED, (
            "The server answers, and its message says why it refuses this login. Check"
            " the account in the URL, and max_connections."
        )
    return ErrorId.CONNECTION_FAILED, UNREACHABLE_HINT


class _Connection(Protocol):
    """psycopg's or psycopg2's."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


def duplicate_socket(target: str, connection: _Connection) -> socket.socket:
    """Return a duplicate of libpq's socket: it stays ours when libpq closes its own.

    Close the connection and raise EngineError if this process may open no more files.
    """
    try:
        try:
            return socket.socket(fileno=os.dup(connection.fileno()))
        except OSError as error:
            raise EngineError(
                f"cannot keep a connection to {target}: {error.strerror}",
                id=ErrorId.OPEN_FILES_LIMIT,
                hint="Raise the limit of open files (ulimit -n), or use fewer"
                " sessions.",
            ) from error
    except BaseException:
        connection.close()
        raise


class _Opening:
    """A connection while it is made, which another thread can watch and sever."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._made: psycopg2.extensions.connection | None = None

    def connect(self) -> psycopg2.extensions.connection:
        """Connect; raise psycopg2.Error."""
        made: psycopg2.extensions.connection
        try:
            made = psycopg2.connect(connection_factory=self._make, **self._options)
        finally:
            self._made = None  # one that failed is closed as it is forgotten
        return made

    def _make(self, *given: Any, **more: Any) -> psycopg2.extensions.connection:
        kind = psycopg2.extensions.connection
        self._made = kind.__new__(kind)  # known before its constructor connects
        self._made.__init__(*given, **more)  # type: ignore[misc]
        return self._made

    def received(self) -> int:
        """Return the number of bytes received so far, 0 if that is unknown."""
        with self._wire() as wire:
            return count_received_bytes(wire)

    def sever(self) -> None:
        """Break it; what has no socket yet is left to libpq's own limit."""
        with self._wire() as wire, contextlib.suppress(OSError):
            if wire is not None:
                wire.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _wire(self) -> Iterator[socket.socket | None]:
        """Give a duplicate of libpq's socket, None as long as there is none."""
        found, made = None, self._made  # which connect() forgets meanwhile
        with contextlib.suppress(psycopg2.Error, OSError):
            if made is not None:
                found = socket.socket(fileno=os.dup(made.fileno()))
        try:
            yield found
        finally:
            if found is not None:
                found.close()


class PostgresqlLink(Link):
    """A connection in autocommit mode; a context manager that closes it.

    target: how error messages name the server.  arguments: psycopg2's.
    """

    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        connect_s: float,
    ) -> None:
        self._target = target
        self._secret = str(arguments.get("password") or "")
        opening = _Opening({**arguments, "connect_timeout": max(2, round(connect_s))})
        limit_s, overrun = connect_s + logins.LOGIN_S, Overrun()
        try:
            with deadline(
                limit_s, opening.sever, opening.received, ANSWER_BYTES
            ) as overrun:
                self.connection = logins.log_in(
                    target, opening.connect, opening.sever, limit_s
                )
        except psycopg2.Error as error:
            require_within(overrun, target, "the login", limit_s, ANSWER_BYTES)
            id, hint = connect_advice(error)
            if "no password supplied" in str(error):
                id, hint = ErrorId.PASSWORD_REFUSED, password_advice(arguments)
            raise EngineError(
                f"cannot connect to {target}: {self.message(error)}",
                id=id,
                hint=hint,
            ) from None
        except UNREADABLE as error:
            raise unreadable_answer_error(target, self.message(error)) from None
        self._wire = duplicate_socket(target, self.connection)
        try:
            require_at_login(target, self.connection.get_parameter_status)
            self.connection.autocommit = True
            self._pid = self.connection.get_backend_pid()
            self.fix(SESSION, max(2, connect_s))
            # The driver caches it and does not see that the statement changed it.
            self.connection.set_client_encoding("UTF8")
        except BaseException as error:
            self.abandon(error)
            raise

    def message(self, error: BaseException) -> str:
        return format_message(error, self._secret)

    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> list[tuple[Any, ...]]:
        """Run sql/FAMILY/STATEMENT.sql; see Link.rows."""

        def run() -> list[tuple[Any, ...]]:
            with self.connection.cursor() as cursor:
                cursor.execute(read_sql(FAMILY, statement), parameters)
                return cursor.fetchall() if cursor.description else []

        with self._guard(statement, answer_s):
            return run_interruptible(run, self.sever)

    def copy_in(self, statement: str, pieces: Iterator[bytes], rows: int) -> None:
        """Run a COPY of *pieces*, which are *rows* rows, in a transaction of its own.

        Raise EngineError if another number went in.
        """

        def run() -> int:
            with self.connection.cursor() as cursor:
                source = _Pieces(pieces)
                text = read_sql(FAMILY, statement)
                cursor.copy_expert(text, source, _PIECE_BYTES)
                return int(cursor.rowcount)

        with self._guard(statement, SCAN_S):
            found = run_interruptible(run, self.sever)
        require_inserted(self._target, found, rows)

    def insert_ids(self, statement: str, rows: int) -> None:
        """Have the server insert this number of rows that have an id alone."""
        ((found,),) = self.rows(statement, {"rows": rows}, answer_s=SCAN_S)
        require_inserted(self._target, found, rows)

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
            run_interruptible(self.connection.commit, self.sever)
            self.connection.autocommit = True

    def require(self, server: ServerFacts) -> None:
        found = Answering(*self.row("answering"))
        require_same(self._target, server, found)

    def stream(
        self, tables: Sequence[TableSpec], server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Yield every row of the tables in batches, all as of one moment.

        server: raise OtherServer if, in that transaction, another one answers.
        A batch has about BATCH_BYTES bytes, or ends with the row that exceeds them.
        After the last one, raise EngineError if the server counts more rows, or fewer,
        and IndexDamaged if one of a table's indexes disagrees with it.
        """
        with self._guard("begin", ANSWER_S):
            self.connection.set_session(
                "REPEATABLE READ", readonly=True, autocommit=False
            )
        self.fix(HEAP)
        self._require(SNAPSHOT)
        if server is not None:
            self.require(server)
        read = {table: RowsRead(has_key_index=bool(table.key)) for table in tables}
        for table, rows in read.items():
            for batch in self._rows_of(table):
                rows.add(batch.records)
                yield table, batch
        for table, rows in read.items():  # last: an error ends the transaction
            require_indexes(self, table, rows)

    def _rows_of(self, table: TableSpec) -> Iterator[RowBatch]:
        self.require_plan(f"count_{table.name}", "Seq Scan")
        statement, parser = f"survivors_{table.name}", CopyParser()
        with Copy(self.connection, read_sql(FAMILY, statement), self.sever) as copy:
            while True:
                with self._guard(statement, SCAN_S, BATCH_BYTES_MAX):
                    messages = copy.read()
                    batch = parser.parse(messages)
                if batch:
                    yield batch
                if not messages:
                    return

    def require_plan(self, statement: str, scan: str) -> None:
        """Raise EngineError unless the server runs the statement by *scan*."""
        explain = f"explain (costs off) {read_sql(FAMILY, statement)}"
        with self._guard("the plan to read survivors", ANSWER_S):
            cursor = self.connection.cursor()
            cursor.execute(explain)
            plan = "\n".join(line for (line,) in cursor.fetchall())
        if f"{scan} " not in plan:
            raise EngineError(
                f"{self._target} does not plan a {scan.lower()} for {statement}, but:"
                f" {plan}",
                id=ErrorId.PLAN_NOT_AS_ASKED,
                hint="Set the planner's enable_ settings to their defaults, then run"
                " dbcheck reconcile again.",
            )

    def is_failed(self) -> bool:
        """Return True if an error ended the transaction, or the connection."""
        status = self.connection.info.transaction_status
        return status != psycopg2.extensions.TRANSACTION_STATUS_INTRANS

    def sever(self) -> None:
        """Break the connection, whichever thread is waiting on it."""
        with contextlib.suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(psycopg2.Error):
            self.connection.close()
        self._wire.close()

    def fix(self, settings: Mapping[str, str], answer_s: float = ANSWER_S) -> None:
        """Set *settings*, as far as the server has them, and read them back."""
        parameters = {"settings": json.dumps(settings)}
        self.rows("session", parameters, answer_s=answer_s)
        self._require(settings, answer_s)

    def _require(self, settings: Mapping[str, str], answer_s: float = ANSWER_S) -> None:
        """Raise EngineError unless *settings* are in effect."""
        parameters = {"settings": json.dumps(settings)}
        for name, found in self.rows("session_check", parameters, answer_s=answer_s):
            raise wrong_setting_error(name, found, settings[name])

    @contextlib.contextmanager
    def _guard(
        self, statement: str, answer_s: float, most: int = ANSWER_BYTES
    ) -> Iterator[None]:
        """Limit time and bytes, and turn the driver's errors into EngineError."""
        overrun = Overrun()
        try:
            with deadline(
                answer_s, self.sever, lambda: count_received_bytes(self._wire), most
            ) as overrun:
                yield
            # Cut off although it ended in time: the next one would be blamed for it.
            require_within(overrun, self._target, statement, answer_s, most)
        except psycopg2.Error as error:
            require_within(overrun, self._target, statement, answer_s, most)
            text = f"{self._target} failed at {statement}: {self.message(error)}"
            missing = (error.pgcode or "").startswith(_MISSING)
            if _is_refused(error):
                raise TableRefused(text, id=ErrorId.TABLE_REFUSED) from error
            if missing or _is_damage(error):
                raise TableLost(text, missing=missing, id=ErrorId.TABLE_LOST) from error
            if self.connection.closed:
                raise ConnectionLost(
                    text, self._pid, id=ErrorId.CONNECTION_LOST
                ) from error
            hint = NOT_GRANTED if error.pgcode == NOT_PERMITTED else ""
            raise EngineError(text, id=ErrorId.STATEMENT_FAILED, hint=hint) from error
        except (ProtocolViolation, UnicodeError) as error:
            text = f"{self._target} failed at {statement}: {error}"
            raise EngineError(
                text, id=ErrorId.ANSWER_NOT_UNDERSTOOD, hint=NOT_THE_SERVER
            ) from error


def error_code(error: EngineError) -> str | None:
    """Return the SQLSTATE of the error that *error* stands for, None if it has none."""
    return getattr(error.__cause__ or error.__context__, "pgcode", None)


def _is_damage(error: psycopg2.Error) -> bool:
    """Return True if an error names damaged data, and not another file."""
    state = error.pgcode or ""
    if state == _NO_FILE:
        return _OF_A_RELATION.search(str(error)) is not None
    return state.startswith(_DAMAGED)


def _is_refused(error: psycopg2.Error) -> bool:
    """Return True if an error is of a relation's file that may be sound."""
    if error.pgcode == _NO_FILE:
        return _IN_A_TABLESPACE.search(str(error)) is not None
    return error.pgcode in _REFUSED and _OF_A_RELATION.search(str(error)) is not None


class _Pieces(io.RawIOBase):
    """Stream for COPY to read: pieces of bytes, one after the other."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int = _PIECE_BYTES) -> bytes:
        """Return at most *size* bytes, none at the end; psycopg2 calls this."""
        self._left = self._left or next(self._pieces, b"")
        found, self._left = self._left[:size], self._left[size:]
        return found
