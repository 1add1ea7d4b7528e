"""A session of the load on MySQL or MariaDB, and its transactions in two phases.

mysql-connector-python connects, with TLS where the server has it, and prepares the
statement; from then on its socket carries the packets of engines.mysql.wire, since the
driver can only block.

The transactions in two phases are XA transactions (MySQL 8.4 manual, 15.3.8).
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import struct
from collections.abc import Collection, Mapping, Sequence

import mysql.connector

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown, EngineError, NotPrepared
from dbcheck.config.files import read_sql
from dbcheck.engines.link import ANSWER_BYTES, ANSWER_S, ProtocolViolation, deadline
from dbcheck.engines.mysql.account import DENIED
from dbcheck.engines.mysql.connection import translate_unreadable_answers
from dbcheck.engines.mysql.grants import quote_account
from dbcheck.engines.mysql.link import FAMILY, MysqlLink, error_code
from dbcheck.engines.mysql.rights import PREPARED
from dbcheck.engines.mysql.settings import OF_A_SESSION, look_statement
from dbcheck.engines.mysql.wire import (
    Execution,
    Ok,
    Refusal,
    Template,
    parse_answers,
    parse_row_and_answers,
    query_packets,
)
from dbcheck.rows.operation import (
    DECISIONS,
    ROLLBACK,
    ROLLBACK_TO,
    SAVEPOINT,
    Operation,
    Statement,
    StatementSpec,
    TwoPhase,
    Verb,
)
from dbcheck.rows.prepared import PREFIX, Decisions

_BRANCH_CHARS = 8
_XAER_NOTA = 1397  # ER_XAER_NOTA: unknown XID (MySQL 8.4 error reference)


def branch_of(database: str) -> str:
    """Return the branch qualifier of transactions in *database*.

    XA RECOVER lists those of the whole server and names no database.
    """
    return hashlib.sha256(database.encode()).hexdigest()[:_BRANCH_CHARS]


def xid(name: bytes, database: str) -> bytes:
    """Return the identifier of the transaction *name*, as a statement has it."""
    return b"'%s','%s'" % (name, branch_of(database).encode())


def list_prepared(link: MysqlLink, database: str) -> tuple[str, ...]:
    """Return the names of dbcheck's transactions that are prepared in *database*.

    Raise EngineError; its hint is the GRANT if the account may not list them.
    """
    branch, names = branch_of(database), []
    try:
        found = link.rows("prepared")
    except EngineError as error:
        if error_code(error) not in DENIED:
            raise
        *_, account = link.row("server")
        raise EngineError(
            f"cannot list prepared transactions: {error}",
            id=ErrorId.PRIVILEGE_MISSING,
            hint=f"Run: {PREPARED.grant(quote_account(account))}",
        ) from error
    for _, length, _, data in found:
        text = data.decode("latin-1") if isinstance(data, bytes) else str(data)
        if text.startswith(PREFIX) and text[length:] == branch:
            names.append(text[:length])
    return tuple(names)


def decide(link: MysqlLink, name: str, database: str, *, commit: bool) -> None:
    """Commit or roll back a prepared transaction; raise NotPrepared if it is none."""
    statement = "commit_prepared" if commit else "rollback_prepared"
    try:
        link.rows(statement, {"name": name, "branch": branch_of(database)})
    except EngineError as error:
        if error_code(error) == _XAER_NOTA:
            raise NotPrepared(str(error), id=ErrorId.STATEMENT_FAILED) from error
        raise


def roll_back_all(link: MysqlLink, database: str) -> None:
    """Roll back dbcheck's prepared transactions, if the account may list them.

    An account that may not was never used to prepare one.  Raise EngineError.
    """
    try:
        names = list_prepared(link, database)
    except EngineError as error:
        if error.id is not ErrorId.PRIVILEGE_MISSING:
            raise
        return
    for name in names:
        with contextlib.suppress(NotPrepared):  # it was decided meanwhile
            decide(link, name, database, commit=False)


def read_decisions(link: MysqlLink) -> Decisions:
    """Read the server's counters of XA commits and rollbacks."""
    counted = {name: int(value) for name, value in link.rows("decisions")}
    return Decisions(counted["Com_xa_commit"], counted["Com_xa_rollback"])


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
_HINTS = {
    4061: "Run a workload that rolls back to no savepoint, such as insert, order-entry"
    " or two-phase."  # MyRocks (its ER_ROLLBACK_TO_SAVEPOINT)
}
_BEGIN = b"start transaction"
_CLIENT_ERRORS = range(2000, 3000)  # numbers of a client's library, not of a server

# How answers must be: rows that were changed, and whether a transaction is open.
_Answer = tuple[int, bool | None]
_OPEN, _CLOSED = (0, True), (0, False)
_ONE_ROW: list[_Answer] = [(1, False)]
# A session that has prepared a transaction may have it open or not: on MariaDB it has,
# on MySQL that is xa_detach_on_prepare (8.4 manual, 15.3.8.3).
_PREPARED = (0, None)

# What is sent for each of rows.operation.CONTROLS and for each step of a TwoPhase
# commit, whose name takes the place of %s, and how it must be answered.
_Controls = Sequence[tuple[bytes, _Answer]]
_CONTROLS: Mapping[str, _Controls] = {
    ROLLBACK.name: ((b"rollback", _CLOSED), (_BEGIN, _OPEN)),
    SAVEPOINT.name: ((b"savepoint dbcheck", _OPEN),),
    ROLLBACK_TO.name: ((b"rollback to savepoint dbcheck", _OPEN),),
    TwoPhase.COMMIT.value: ((b"xa commit %s", _CLOSED),),
    TwoPhase.ROLLBACK.value: ((b"xa rollback %s", _CLOSED),),
    TwoPhase.BEGIN.value: ((b"commit", _CLOSED), (b"xa start %s", _OPEN)),
    TwoPhase.PREPARE.value: ((b"xa end %s", _OPEN), (b"xa prepare %s", _PREPARED)),
}
_OF_ROWS = (Verb.INSERT, Verb.UPDATE, Verb.DELETE)
_DECISIONS = frozenset(step.value for step in DECISIONS)
_PREPARE = TwoPhase.PREPARE.value

_READ_BYTES = 1 << 14
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class MysqlSession:
    """One connection of the load; see ports.connection.Session.

    A transaction of several statements begins with one that opens it, although it would
    be quicker without autocommit: a proxy may run each query on another connection,
    whose autocommit is on, and half of a transaction would be committed there.
    """

    def __init__(
        self,
        link: MysqlLink,
        statements: Sequence[StatementSpec],
        database: str,
        settings: Collection[str] = (),
    ) -> None:
        """Take over *link* and prepare the statements on it; raise EngineError.

        database: the one that it works in.  settings: names of those that the server
        has; settings() shows those of OF_A_SESSION.
        """
        self.link, self._database = link, database
        self._waiting_for = 0  # answers to the operation in flight
        self._unsent: bytes | memoryview = b""
        self._received = b""
        self._expected: list[_Answer] = []  # rows, and is one open
        self._acked_by = statements[0].name
        self._names = [name for name in OF_A_SESSION if name in settings]
        self._looks = False
        self._settings: Mapping[str, str] = {}
        self._rows = {spec.name: spec.rows for spec in statements}
        self._templates = {
            spec.name: Template(_text(spec), spec.parameters) for spec in statements
        }
        connection = link.connection
        self._has_attributes = connection.has_query_attributes
        self._executions: dict[str, Execution] = {}
        tasks = (
            statement.name for statement in statements if statement.verb not in _OF_ROWS
        )
        self._alone = _DECISIONS.union(tasks)
        try:
            link.wire(ANSWER_S)
            with (
                translate_unreadable_answers(),
                deadline(ANSWER_S, link.sever, link.received, ANSWER_BYTES),
            ):
                for spec in statements:
                    if spec.is_late:
                        continue
                    prepared = connection.cmd_stmt_prepare(_text(spec))
                    self._executions[spec.name] = Execution(
                        prepared["statement_id"],
                        spec.parameters,
                        has_attributes=self._has_attributes,
                    )
        except (mysql.connector.Error, OSError) as error:
            raise EngineError(
                f"cannot prepare a session: {link.message(error)}",
                id=ErrorId.SESSION_REFUSED,
                hint="Check the server's limit of connections, and the account.",
            ) from None
        self._wire = link.wire(0)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._wire.fileno()

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Begin to commit *operation*; see ports.connection.Session."""
        statements = operation.statements
        self._looks = look and bool(self._names)
        try:
            if self._looks:
                packet = self._prefix_with_look_query(statements)
            elif len(statements) == 1:
                (statement,) = statements
                self._id_at = 0
                packet = self._executions[statement.name].packet(statement.values)
                self._expected = _ONE_ROW
            else:
                packet = self._query(self._transaction(statements))
        except struct.error as error:
            raise EngineError(
                f"a generated value does not fit its column: {error}",
                id=ErrorId.VALUE_DOES_NOT_FIT,
            ) from None
        self._waiting_for = len(self._expected)
        self._unsent = packet
        return self.flush()

    def _prefix_with_look_query(self, statements: Sequence[Statement]) -> bytes:
        """Return the query that reads the settings, then runs *statements*.

        sql_log_bin cannot change within a transaction (MySQL 8.4 manual, 15.4.1.3), and
        what a trigger sets for the others lasts until the next look.
        """
        look = look_statement(self._names).encode()
        if len(statements) > 1:
            return self._query([look, *self._transaction(statements)])
        (statement,) = statements
        self._id_at = 0
        self._expected = _ONE_ROW
        filled = self._templates[statement.name].filled(statement.values)
        return self._query([look, filled])

    def _query(self, parts: Sequence[bytes]) -> bytes:
        return query_packets(b";".join(parts), has_attributes=self._has_attributes)

    def _transaction(self, statements: Sequence[Statement]) -> list[bytes]:
        """Return the statements that run *statements* as one transaction."""
        parts: list[bytes] = []
        self._expected = expected = []
        if statements[0].name in self._alone:  # it cannot run in a transaction
            first, *statements = statements
            self._add_preceding_parts(first, parts)
        parts.append(_BEGIN)
        expected.append(_OPEN)
        for statement in statements:
            name = statement.name
            if name in _CONTROLS:
                self._control(statement, parts)
                continue
            if name == self._acked_by:
                self._id_at = len(parts)
            parts.append(self._templates[name].filled(statement.values))
            expected.append((self._rows[name], True))
        if name != _PREPARE:
            parts.append(b"commit")
            expected.append(_CLOSED)
        return parts

    def _add_preceding_parts(self, statement: Statement, parts: list[bytes]) -> None:
        """Add what comes before the operation's own transactions."""
        if statement.name in _CONTROLS:
            self._control(statement, parts)
        else:
            parts.append(self._templates[statement.name].filled(statement.values))
            self._expected.append(_CLOSED)

    def _control(self, statement: Statement, parts: list[bytes]) -> None:
        for text, answer in _CONTROLS[statement.name]:
            if b"%s" in text:
                (named,) = statement.values
                assert isinstance(named, bytes)
                text = text % xid(named, self._database)
            parts.append(text)
            self._expected.append(answer)

    def flush(self) -> bool:
        """Send what is left; return True once nothing is."""
        try:
            while unsent := self._unsent:
                sent = self._wire.send(unsent)
                self._unsent = memoryview(unsent)[sent:] if sent < len(unsent) else b""
        except _NOT_NOW:
            return False
        except OSError as error:
            raise self._broken(self.link.message(error)) from error
        return True

    def receive(self) -> int | None:
        """Read what came; return the row's id once its commit is answered."""
        while True:
            try:
                read = self._wire.recv(_READ_BYTES)
            except _NOT_NOW:
                return None
            except OSError as error:
                raise self._broken(self.link.message(error)) from error
            if not read:
                raise self._broken("the server closed it")
            self._received += read
            try:
                found = self._answers()
            except ProtocolViolation as error:
                raise self._broken(str(error)) from error
            if found is not None:
                self._received = b""
                return self._outcome(found)

    def _answers(self) -> list[Ok] | Refusal | None:
        """Parse the answers, and keep the settings that came before them."""
        if not self._looks:
            return parse_answers(self._received, self._waiting_for or 1)
        columns, count = len(self._names), self._waiting_for or 1
        found = parse_row_and_answers(self._received, columns, count)
        if found is None or isinstance(found, Refusal):
            return found
        row, behind = found
        pairs = zip(self._names, row, strict=True)
        self._settings = {name: value for name, value in pairs if value is not None}
        return behind

    def settings(self) -> Mapping[str, str]:
        """Return the settings that the last answered operation found; see Session."""
        return self._settings

    def close(self) -> None:
        if self._waiting_for:
            self._sever()
        self.link.close()

    def _sever(self) -> None:
        """Break the connection, and keep its descriptor until it is closed."""
        with contextlib.suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)

    def _outcome(self, found: list[Ok] | Refusal) -> int:
        """Return the id if the server's answers show that all is committed."""
        if isinstance(found, Refusal):
            raise self._refusal(found)
        if not self._waiting_for or self._unsent:
            raise self._broken("the server sent a reply to no request")
        self._waiting_for = 0
        row_id = found[self._id_at].row_id
        if not (row_id and _is_committed(found, self._expected)):
            self._sever()  # the server rolls back what is still open
            ends = 1 if len(found) > 1 else 0  # of the transaction
            rows = ", ".join(
                str(answer.rows) for answer in found[ends : len(found) - ends]
            )
            raise EngineError(
                f"the server changed {rows} rows, the first with id {row_id}, and the"
                f" transaction is {'still open' if found[-1].is_open else 'over'}",
                id=ErrorId.CONNECTION_NOT_DIRECT,
                hint="Connect to the server directly, without a proxy.",
            )
        return row_id

    def _refusal(self, refusal: Refusal) -> EngineError:
        """Return EngineError if the row is certainly absent, else CommitUnknown."""
        text = f"{refusal.number}: {self.link.remove_secret(refusal.message)}"
        if refusal.number in _CLIENT_ERRORS or refusal.number in _UNKNOWN:
            return self._broken(text, text if refusal.number in _FAREWELLS else "")
        if self._waiting_for > 1:  # its transaction is open: the next would commit it
            self._sever()
        self._waiting_for = 0
        return EngineError(
            f"the server refused a commit: {text}",
            id=ErrorId.COMMIT_REFUSED,
            hint=_HINTS.get(refusal.number, ""),
        )

    def _broken(self, why: str, farewell: str = "") -> CommitUnknown:
        text = f"the connection broke during a commit: {why}"
        return CommitUnknown(text, farewell=farewell, id=ErrorId.COMMIT_UNKNOWN)


def _is_committed(found: Sequence[Ok], expected: Sequence[_Answer]) -> bool:
    """Return True if each statement did what it must, and the last ended it all."""
    if expected is _ONE_ROW:  # the usual one, quick
        return len(found) == 1 and found[0].rows == 1 and not found[0].is_open
    answered: list[_Answer] = [(answer.rows, answer.is_open) for answer in found]
    if expected[-1] is _PREPARED:
        answered[-1] = (found[-1].rows, None)
    return answered == expected


def _text(spec: StatementSpec) -> bytes:
    return read_sql(FAMILY, spec.name).encode()
