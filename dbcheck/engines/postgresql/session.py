"""A session of the load on PostgreSQL, through psycopg 3's view of libpq.

libpq's asynchronous interface (PostgreSQL 17 manual, 34.4 and 34.5) never blocks, with
TLS or without, and keeps the protocol its own affair.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.errors import Diagnostic, error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown, CommitWarned, EngineError
from dbcheck.config.files import read_sql
from dbcheck.engines.link import (
    ANSWER_BYTES,
    ANSWER_S,
    UNREADABLE,
    count_received_bytes,
    deadline,
    format_message,
    unreadable_answer_error,
    wrong_setting_error,
)
from dbcheck.engines.peer import Answering, require_same, takes_no_writes_error
from dbcheck.engines.postgresql.audited import SessionLook
from dbcheck.engines.postgresql.direct import (
    RowPacker,
    TakenResult,
    find_address,
    find_calls,
)
from dbcheck.engines.postgresql.libpq import new_session
from dbcheck.engines.postgresql.link import FAMILY, connect_advice, duplicate_socket
from dbcheck.engines.postgresql.settings import SESSION
from dbcheck.engines.postgresql.statements import (
    BEGIN,
    BINARY,
    COMMIT,
    CONTROLS,
    DECISION_STEPS,
    MARKED,
    PREPARE,
    TAGS,
    Late,
    Packer,
    Prepared,
)
from dbcheck.model.cluster import Weakens
from dbcheck.model.server import ServerFacts
from dbcheck.ports.connection import Taken, Wire
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb

if TYPE_CHECKING:
    from dbcheck.rows.batches import Batch

_CONNECT_S = 10.0
# Values of synchronous_commit; never fsync, which can corrupt the files.
WEAK = {Weakens.FLUSH: "off", Weakens.REPLICATION: "local"}

# Looked up once: each takes as long as a call of libpq.
_IDLE = TransactionStatus.IDLE
_from_bytes = int.from_bytes
_SYNC = ExecStatus.PIPELINE_SYNC

# More than answer any operation.  Of a COPY that was not asked for, libpq gives another
# result whenever it is asked.
_RESULTS_MAX = 256

# After a FATAL error, or one of these SQLSTATEs, the row may be there: the connection
# failed, or the server itself reports that it does not know.
_UNKNOWN = ("08", "40003")
_FAREWELLS = ("57P01", "57P02")  # admin_shutdown, crash_shutdown (of another backend)
# PostgreSQL reports a crash, where its main process was killed, under 57P01 as well.
_CRASHED = "unexpected postmaster exit"
# A commit whose wait for a standby was cancelled is answered with success behind a
# warning without a code of its own (PostgreSQL 15 syncrep.c, SyncRepWaitForLSN).
# statement_timeout does not cancel it: it ends before the commit (postgres.c,
# finish_xact_command).
_WARNING, _WARNED = "WARNING", "01000"
# A statement that another session prepared on this server connection, or that it did
# not (duplicate_prepared_statement, invalid_sql_statement_name).
_POOLED = ("42P05", "26000")
_SHARED = "several sessions share a connection to the server"
_POOLER = (
    "A pooler in transaction mode does that (PgBouncer: pool_mode = transaction);"
    " connect to the server directly."
)


class PostgresqlSession:
    """One connection of the load; see ports.connection.Session.

    Operations of several statements go in libpq's pipeline mode (PostgreSQL 17 manual,
    34.5): all of them in one write, between BEGIN and COMMIT.  After an error the
    server skips what is left, COMMIT included.  One of a single statement goes without,
    but for when settings are read as well.
    """

    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        statements: Sequence[StatementSpec],
        *,
        weakens: Weakens | None = None,
        server: ServerFacts | None = None,
        as_client: bool = False,
        connect_s: float = _CONNECT_S,
    ) -> None:
        """Connect, and prepare the statements; raise EngineError if that is refused.

        target: how error messages name the server.  arguments: libpq's.
        weakens: the kind of the control that it is for, None without one.
        server: which one it must be, None for any.
        as_client: set and prepare nothing, which would stay in a pooler's connection.
        Refuse a server that is in recovery or read-only.
        """
        self._target = target
        self._secret = str(arguments.get("password") or "")
        self._in_flight, self._id_at = False, -1
        self._tags: list[bytes] = []  # what the operation in flight is answered with
        self._prepared: dict[str, Prepared] = {}
        late = [spec for spec in statements if spec.is_late or as_client]
        self._late = {spec.name: self._later(spec) for spec in late}
        # What cannot run in a transaction is the first in the pipeline.
        vacuums = (
            statement.name for statement in statements if statement.verb is Verb.VACUUM
        )
        self._alone = DECISION_STEPS.union(vacuums)
        self._first, self._is_single = statements[0], len(statements) == 1
        self._pipelined = not self._is_single
        self._look = SessionLook(server)
        self._results: list[PGresult] = []
        # Bytes received when an answer was first seen to be incomplete.
        self._before: int | None = None
        self._farewell = self._warning = ""
        with self._guard("connect"):
            self.connection = new_session(target, arguments, connect_s)
        self._wire = duplicate_socket(target, self.connection)
        try:
            with (
                self._guard("prepare"),
                deadline(
                    connect_s if as_client else ANSWER_S,
                    self._sever,
                    lambda: count_received_bytes(self._wire),
                    ANSWER_BYTES,
                ),
            ):
                (self._require_writable if as_client else self._set)()
                if server is not None:
                    self._require(server)
                if weakens is not None:
                    self._weaken(WEAK[weakens])
                for statement in statements:
                    if statement not in late:
                        self._prepare(statement, returns_id=statement is statements[0])
        except BaseException:
            self.close()
            raise
        self.connection.add_notice_handler(self._on_notice)
        self._pgconn = self.connection.pgconn
        self._pgconn.nonblocking = 1
        if self._pipelined:
            self._pgconn.enter_pipeline_mode()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._wire.fileno()

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Begin to commit *operation*; see Session."""
        self._in_flight = True
        self._before = None
        self._warning = ""
        pgconn = self._pgconn
        try:
            if look or self._pipelined:
                look = self._look.begin_operation(wanted=look)
                if look and not self._pipelined:
                    pgconn.enter_pipeline_mode()
                    self._pipelined = True
            if self._pipelined:
                self._send_pipelined(operation.statements, look=look)
            elif (statement := operation.statements[0]).name in self._late:
                self._tags, self._id_at = [], -1
                self._send_other(statement, self._tags)
            else:
                name, pack, formats, _, _, alone = self._prepared[statement.name]
                self._tags, self._id_at = alone
                pgconn.send_query_prepared(
                    name, pack(statement.values), formats, BINARY
                )
            return pgconn.flush() == 0
        except psycopg.Error as error:
            raise self._refusal(error) from error
        except struct.error as error:
            raise EngineError(
                f"{self._target}: a generated value does not fit its column: {error}",
                id=ErrorId.VALUE_DOES_NOT_FIT,
            ) from None

    def _send_pipelined(self, statements: Sequence[Statement], *, look: bool) -> None:
        """Send *statements* as one transaction; look: read the settings at its end."""
        pgconn = self._pgconn
        tags: list[bytes] = []
        self._id_at = -1
        if statements[0].name in self._alone:
            first, *statements = statements
            self._send_other(first, tags)
        pgconn.send_query_params(BEGIN, None)
        tags.append(BEGIN)
        for statement in statements:
            if look and statement.name == PREPARE:
                self._look.send(pgconn, tags)
            if statement.name not in self._prepared:
                self._send_other(statement, tags)
                continue
            name, pack, formats, tag, returns_id, _ = self._prepared[statement.name]
            pgconn.send_query_prepared(name, pack(statement.values), formats, BINARY)
            if returns_id:
                self._id_at = len(tags)
            tags.append(tag)
        if statement.name != PREPARE:
            if look:
                self._look.send(pgconn, tags)
            pgconn.send_query_params(COMMIT, None)
            tags.append(COMMIT)
        pgconn.pipeline_sync()
        self._tags = tags

    def _send_other(self, statement: Statement, tags: list[bytes]) -> None:
        """Send what is not prepared."""
        if late := self._late.get(statement.name):
            packed = late.packer.pack(statement.values)
            for text, tag in late.texts:
                self._pgconn.send_query_params(text, packed, None, late.packer.formats)
                tags.append(tag)
            return
        for text, tag in CONTROLS[statement.name]:
            sent = text % statement.values if b"%s" in text else text
            self._pgconn.send_query_params(sent, None)
            tags.append(tag)

    def flush(self) -> bool:
        """Send what is left; return True once nothing is."""
        try:
            return self._pgconn.flush() == 0
        except psycopg.Error as error:
            raise self._refusal(error) from error

    def receive(self) -> int | None:
        """Read what came; return the row's id once its commit is answered."""
        pgconn, taken = self._pgconn, 0
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    if not (self._pipelined and self._in_flight):
                        return self._outcome()
                    # else that was all of one statement in a pipeline
                elif self._pipelined and result.status == _SYNC:
                    return self._outcome()
                else:
                    self._results.append(result)
                taken += 1
                if taken == _RESULTS_MAX:
                    raise self._endless()
        except psycopg.Error as error:
            raise self._refusal(error) from error
        came = count_received_bytes(self._wire)
        self._before = came if self._before is None else self._before
        if came - self._before > ANSWER_BYTES:
            raise self._endless()
        return None

    def settings(self) -> Mapping[str, str]:
        """Return the settings that the last answered operation found; see Session."""
        return self._look.found

    def wire(self, on_notice: Callable[[], None]) -> Wire | None:
        first = self._first
        is_insert = self._is_single and first.verb is Verb.INSERT and not first.is_late
        calls, address = find_calls(), find_address(self._pgconn)
        if not is_insert or not RowPacker.can_pack(first.parameters):
            return None
        if calls is None or address is None:
            return None
        self._packer = RowPacker(first.parameters)
        self.connection.add_notice_handler(lambda _: on_notice())
        name, tag = self._prepared[first.name].name, TAGS[first.verb] % first.rows
        return Wire(address, calls, name, tag, len(first.parameters))

    def pack(self, batch: Batch) -> tuple[bytes, bytes]:
        return self._packer.pack(batch)

    def resume(self, taken: Sequence[Taken]) -> None:
        self._in_flight, self._before = True, None
        self._tags, self._id_at = self._prepared[self._first.name].alone
        self._results = [cast(PGresult, TakenResult(one)) for one in taken]

    def refused(self) -> EngineError:
        text = self._pgconn.error_message.decode("utf-8", "replace")
        return self._refusal(psycopg.OperationalError(f"sending failed: {text}"))

    def close(self) -> None:
        if self._in_flight:
            self._sever()
        with contextlib.suppress(psycopg.Error):
            self.connection.close()
        self._wire.close()

    def _outcome(self) -> int | None:
        """Return the id if the server's answers show that all is committed."""
        results, self._results = self._results, []
        if not self._in_flight:
            return None
        self._in_flight = False
        if [
            result.command_status for result in results
        ] == self._tags and self._pgconn.transaction_status == _IDLE:
            if self._warning:
                raise CommitWarned(
                    f"the server committed and warned: {self._warning}",
                    id=ErrorId.COMMIT_WARNED,
                )
            if self._pipelined:
                self._look.take(results)
                if self._is_single:
                    self._pgconn.exit_pipeline_mode()
                    self._pipelined = False
            if self._id_at < 0:
                return 0
            if (value := results[self._id_at].get_value(0, 0)) is not None:
                return _from_bytes(value)
        raise self._not_committed(results)

    def _not_committed(self, results: list[PGresult]) -> EngineError:
        """Return the error for what the server answered instead."""
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                return self._refusal(error_from_result(result))
        tags = [result.command_status or b"" for result in results]
        shown = ", ".join(repr(tag.decode("utf-8", "replace")) for tag in tags)
        over = self._pgconn.transaction_status == _IDLE
        self._sever()  # the server rolls back what is still open
        return EngineError(
            f"the server answered {shown} and the transaction is"
            f" {'over' if over else 'still open'}",
            id=ErrorId.CONNECTION_NOT_DIRECT,
            hint="Connect to the server directly, without a pooler or proxy.",
        )

    def _endless(self) -> CommitUnknown:
        """Return the error for an answer that libpq would collect for ever."""
        self._results = []
        self._sever()
        return CommitUnknown(
            "the connection was broken during a commit: replies without end",
            id=ErrorId.COMMIT_UNKNOWN,
        )

    def _refusal(self, error: psycopg.Error) -> EngineError:
        """Return EngineError if the row is certainly absent, else CommitUnknown."""
        for (
            result
        ) in self._results:  # the server's own message, before it closed the connection
            error = error_from_result(result)
        message = format_message(error, self._secret)
        definite = (
            self._pgconn.transaction_status != TransactionStatus.UNKNOWN
            and error.diag.severity_nonlocalized == "ERROR"
            and error.sqlstate is not None
            and not error.sqlstate.startswith(_UNKNOWN)
        )
        if definite and error.sqlstate in _POOLED:
            return EngineError(
                f"{_SHARED}: {message}", id=ErrorId.CONNECTION_NOT_DIRECT, hint=_POOLER
            )
        if definite:
            if self._pipelined:  # its transaction is open, and can only be rolled back
                self._sever()
            return EngineError(
                f"the server refused a commit: {message}", id=ErrorId.COMMIT_REFUSED
            )
        farewell = message if _is_farewell(error.sqlstate, message) else self._farewell
        text = f"the connection broke during a commit: {message}"
        return CommitUnknown(text, farewell=farewell, id=ErrorId.COMMIT_UNKNOWN)

    def _on_notice(self, notice: Diagnostic) -> None:
        """Keep a warning about the commit, and the farewell of a server that ends."""
        message = f"{notice.severity}: {notice.message_primary}"
        if (notice.severity_nonlocalized, notice.sqlstate) == (_WARNING, _WARNED):
            self._warning = message
        if _is_farewell(notice.sqlstate, message):
            self._farewell = message

    def _require_writable(self) -> None:
        """Raise EngineError if the server is in recovery, or read-only.

        A pooler has answered the login itself: it needs the server from here on, and
        what it refuses now has certainly committed nothing.
        """
        ((_, _, is_standby, read_only),) = self._run("server").fetchall()
        if is_standby or read_only == "on":
            raise takes_no_writes_error(self._target)

    def _set(self) -> None:
        """Set what a session depends on, and read it back."""
        parameters = {"settings": json.dumps(SESSION)}
        self._run("session", parameters)
        for name, found in self._run("session_check", parameters).fetchall():
            raise wrong_setting_error(name, found, SESSION[name])

    def _require(self, server: ServerFacts) -> None:
        """Raise OtherServer unless it is *server* that answers."""
        (row,) = self._run("answering").fetchall()
        require_same(self._target, server, Answering(*row))

    def _prepare(self, spec: StatementSpec, *, returns_id: bool) -> None:
        """Prepare a statement; raise psycopg.Error if the server refuses it."""
        name, text = (
            f"dbcheck_{spec.name}".encode(),
            read_sql(FAMILY, spec.name).encode(),
        )
        result = self.connection.pgconn.prepare(name, text)
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)
        tag = TAGS[spec.verb] % spec.rows
        packer = Packer(spec.parameters)
        self._prepared[spec.name] = Prepared(
            name,
            packer.pack,
            packer.formats,
            tag,
            returns_id,
            ([tag], 0 if returns_id else -1),
        )

    def _later(self, spec: StatementSpec) -> Late:
        tag = TAGS[spec.verb]
        tag = tag % spec.rows if b"%d" in tag else tag
        texts = [(read_sql(FAMILY, spec.name).encode(), tag)]
        if spec.verb is Verb.CREATE:
            mark = read_sql(FAMILY, f"mark_{spec.table.name}").encode()
            texts.append((mark, MARKED))
        return Late(tuple(texts), Packer(spec.parameters))

    def _weaken(self, wanted: str) -> None:
        """Give synchronous_commit the value *wanted*, and verify that."""
        self._run("weaken_session", {"value": wanted})
        (value,) = self._run("commit_setting").fetchall()[0]
        if value != wanted:
            raise EngineError(
                f"synchronous_commit is {value} although the session set another value",
                id=ErrorId.CONNECTION_NOT_DIRECT,
                hint="Connect to the server directly, without a pooler or proxy.",
            )

    def _run(
        self, statement: str, parameters: Mapping[str, str] | None = None
    ) -> psycopg.Cursor[Any]:
        return self.connection.execute(read_sql(FAMILY, statement).encode(), parameters)

    def _sever(self) -> None:
        """Break the connection, whichever thread is waiting on it."""
        with contextlib.suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate in _POOLED:
                text = f"{_SHARED}: {format_message(error, self._secret)}"
                raise EngineError(
                    text, id=ErrorId.CONNECTION_NOT_DIRECT, hint=_POOLER
                ) from None
            id, hint = connect_advice(error)
            raise EngineError(
                f"cannot {what} a session on {self._target}:"
                f" {format_message(error, self._secret)}",
                id=id,
                hint=hint,
            ) from None
        except UNREADABLE as error:
            message = format_message(error, self._secret)
            raise unreadable_answer_error(self._target, message) from None


def _is_farewell(sqlstate: str | None, message: str) -> bool:
    """Return True if *message* is that of a server that shuts down."""
    return sqlstate in _FAREWELLS and _CRASHED not in message
