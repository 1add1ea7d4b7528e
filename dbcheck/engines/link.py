"""Base class of connections, whichever the driver, with limits on each answer."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, RowsWithheld
from dbcheck.model.server import ServerFacts
from dbcheck.ports.connection import KeyRead, LoginRefused
from dbcheck.rows.table import TableSpec

_COUNT_EVERY_S = 0.05  # between two counts of the received bytes
_SEVER_AGAIN_S = 1.0  # between two attempts to sever a connection
# tcpi_bytes_received in struct tcp_info of Linux (include/uapi/linux/tcp.h), whose
# fields keep their places.
_BYTES_RECEIVED = struct.Struct("=128xQ")
# What to do about a login that failed, whichever the server.
UNREACHABLE_HINT = (
    "Nothing answers there as a server does. Check host and port in the URL, that the"
    " server runs and listens on that address, and the firewall."
)
ACCOUNT_HINT = (
    "If the account does not exist yet: dbcheck grants prints the statements that"
    " create it."
)
WRONG_PASSWORD_HINT = (
    "The server was reached and refuses account or password: check the user in the URL,"
    f" and where the password comes from. {ACCOUNT_HINT}"
)
_REFUSALS = (ErrorId.PASSWORD_REFUSED, ErrorId.LOGIN_REFUSED)
T = TypeVar("T")


def explain_not_ready(error: EngineError | OSError) -> str:
    """Return the error as it is shown while dbcheck waits for the server."""
    if isinstance(error, EngineError) and error.id in _REFUSALS:
        return LoginRefused(error)
    return str(error)


class Overrun:
    """Which limit cut the server off, if one did.

    is_late: the server took too long.  is_flood: it sent too much.
    """

    is_late = is_flood = False


@contextlib.contextmanager
def deadline(
    seconds: float,
    sever: Callable[[], None],
    count: Callable[[], int] | None = None,
    most: int = 0,
) -> Iterator[Overrun]:
    """Call *sever*, from another thread, if the body goes beyond a limit.

    seconds: how long the body may take.  The drivers have no timeout for an answer, and
             a server without power sends nothing: without a limit a reader would wait
             for ever.
    count:   returns how many bytes came so far, as count_received_bytes() does; None:
             any number may come.
    most:    how many bytes may come meanwhile.  libpq keeps a whole answer in memory,
             whatever its size.

    Yield an Overrun that says which limit was exceeded; it is set before *sever* is
    called.  *sever* is called again and again while the body continues, as the
    connection that it breaks may not be there yet.
    """
    overrun, done = Overrun(), threading.Event()
    before = count() if count else 0

    def watch() -> None:
        end_s = time.monotonic() + seconds
        while not done.wait(_pause_s(end_s, is_counting=count is not None)):
            overrun.is_flood = count() - before > most if count else False
            overrun.is_late = time.monotonic() >= end_s
            if overrun.is_flood or overrun.is_late:
                break
        else:
            return
        sever()
        while not done.wait(_SEVER_AGAIN_S):
            sever()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield overrun
    finally:
        done.set()
        thread.join()


def count_received_bytes(wire: socket.socket | None) -> int:
    """Return the number of bytes received over a TCP connection, 0 if unknown.

    Only Linux reports it, and only for TCP.
    """
    if wire is None or sys.platform != "linux":
        return 0
    try:
        info = wire.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size
        )
        return int(_BYTES_RECEIVED.unpack(info)[0])
    except (OSError, struct.error):  # no TCP, or a kernel before 4.1
        return 0


def _pause_s(end_s: float, *, is_counting: bool) -> float:
    """Return how long to wait until the limits are looked at again."""
    left_s = max(0.0, end_s - time.monotonic())
    return min(left_s, _COUNT_EVERY_S) if is_counting else left_s


class StillRunning(TimeoutError):
    """A call that was severed, and is left in its *thread*, since it did not end."""

    def __init__(self, limit_s: float, thread: threading.Thread) -> None:
        super().__init__(f"it did not end within {limit_s:g} s")
        self.thread = thread


def run_interruptible(
    call: Callable[[], T], sever: Callable[[], None], limit_s: float | None = None
) -> T:
    """Run *call* in a thread; return its result; call *sever* if an interrupt comes.

    Raise StillRunning after limit_s, unless that is None.

    The handler of a signal runs in the main thread between two steps of Python, so not
    while libpq waits there for an answer.  So *call* runs in a thread of its own, and
    after *sever* its end is not waited for.  Signals interrupt the main thread alone:
    in another thread, without a limit, *call* is called directly.
    """
    if limit_s is None and threading.current_thread() is not threading.main_thread():
        return call()
    outcome: Future[T] = Future()
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)
        ended.put(None)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        ended.get(timeout=limit_s)
    except queue.Empty:
        sever()
        assert limit_s is not None
        raise StillRunning(limit_s, thread) from None
    except BaseException:
        sever()
        raise
    return outcome.result()


ANSWER_S = 30.0  # limit for a catalogue query
LOCK_S = 2  # how long a statement that reads rows or a canary waits for a lock
SCAN_S = 3600.0  # limit for the scan of a whole table, and for a batch of its rows
ANSWER_BYTES = 16 << 20  # most bytes of an answer
# Most bytes of a batch of rows: far above the largest row, 1 MiB, so that also a row
# that was changed, and is longer now, is read and judged.
BATCH_BYTES_MAX = 64 << 20

# The remedy for a statement that the account may not run.
NOT_GRANTED = "The account lacks a right. dbcheck grants prints all that it needs."
# The remedy for an answer that no server of the engine gives.
NOT_THE_SERVER = (
    "Check that the URL leads to the database server itself, and not to another"
    " service."
)
# What a driver raises when it decodes bytes or columns that no server of the engine
# sends; the driver itself checks few of these.
UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
    struct.error,
)


class ProtocolViolation(Exception):
    """The server sent bytes that its protocol does not allow at this point."""


def format_message(error: BaseException, secret: str) -> str:
    """Return the message of *error* on one line, without the password.

    libpq quotes the statement, with a "^" in the next line at the place that is meant;
    both are left out.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    text = "; ".join(
        line
        for line, next_one in pairwise([*lines, ""])
        if line and "^" not in (line, next_one)
    )
    text = text or type(error).__name__
    return text.replace(secret, "***") if secret else text


def require_all(table: str, read: int, counted: int) -> None:
    """Raise EngineError unless as many rows were *read* as the server *counted*.

    The rows must be read and counted in one snapshot.  A row that did not arrive is
    not shown to be lost: something on the way, or a limit of the session, may have left
    it out.
    """
    if read != counted:
        raise EngineError(
            f"{read:,} rows of {table} were read, and the server counts {counted:,} in"
            " the same snapshot",
            id=ErrorId.ROWS_READ_INCOMPLETELY,
            hint="Connect to the server directly, without a proxy; then run dbcheck"
            " reconcile, before anything writes to the table.",
        )


def require_inserted(target: str, found: int, sent: int) -> None:
    """Raise EngineError unless the server inserted as many rows as were *sent*."""
    if found != sent:
        raise EngineError(
            f"{target} inserted {found:,} rows where {sent:,} were sent",
            id=ErrorId.ROWS_ALTERED_WHEN_STORED,
            hint="Look for a trigger or a rule on the table, or a proxy that rewrites"
            " statements; remove it.",
        )


def require_within(
    overrun: Overrun, target: str, statement: str, answer_s: float, most: int
) -> None:
    """Raise EngineError if the server was cut off for going beyond a limit."""
    if overrun.is_flood:
        raise EngineError(
            f"{target} sent more than {most >> 20} MiB in answer to {statement}",
            id=ErrorId.ANSWER_TOO_LARGE,
            hint="A sound server does not do that: check what answers at that address.",
        )
    if overrun.is_late:
        raise no_answer_error(target, statement, answer_s)


def no_answer_error(target: str, statement: str, answer_s: float) -> EngineError:
    """Return the error for a server that did not answer in time, and was cut off."""
    return EngineError(
        f"{target} did not answer {statement} within {answer_s:g} s",
        id=ErrorId.SERVER_NOT_ANSWERING,
        hint="Check what the server waits for: a lock, a full disk, a missing standby.",
    )


def locked_table_error(error: EngineError, holders: str) -> RowsWithheld:
    """Return the error for a table that another session has locked.

    holders: the sessions that may hold the lock; "" if the server does not show them.
    """
    shown = f" ({holders})" if holders else ""
    return RowsWithheld(
        f"another session has a table locked{shown}: {error}",
        id=ErrorId.ROWS_LOCKED,
        hint="End that session, or wait until it has ended its transaction.",
    )


def not_permitted_error(error: EngineError) -> RowsWithheld:
    """Return the error for a table of which the account may not read every row."""
    return RowsWithheld(
        f"the account may not read every row: {error}",
        id=ErrorId.ROWS_NOT_PERMITTED,
        hint="Give it back what it had before the cut: SELECT on dbcheck's tables, and"
        " no policy that hides rows from it.",
    )


def wrong_setting_error(name: str, found: object, wanted: object) -> EngineError:
    """Return the error for a setting that is not what the session set it to."""
    return EngineError(
        f"the session's {name} is {found!r} although it was set to {wanted!r}",
        id=ErrorId.CONNECTION_NOT_DIRECT,
        hint="Connect to the server directly, without a pooler or proxy.",
    )


def unreadable_answer_error(target: str, why: str) -> EngineError:
    """Return the error for an answer that the driver, or dbcheck, cannot decode."""
    return EngineError(
        f"cannot read the answer of {target}: {why}",
        id=ErrorId.ANSWER_NOT_UNDERSTOOD,
        hint=NOT_THE_SERVER,
    )


class Link(ABC):
    """A connection in autocommit mode; a context manager that closes it.

    If the body of its `with` cannot decode an answer, it raises EngineError.
    """

    _target: str  # how error messages name the server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon(error)

    @abstractmethod
    def message(self, error: BaseException) -> str:
        """Return the server's message on one line, without the password."""

    @abstractmethod
    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> list[tuple[Any, ...]]:
        """Run sql/FAMILY/STATEMENT.sql and return its rows, [] if it has none.

        Raise EngineError if the server refuses it, or does not answer within answer_s.
        """

    def row(
        self, statement: str, parameters: Mapping[str, object] | None = None
    ) -> tuple[Any, ...]:
        """Return the one row of a statement that always has one."""
        (only_row,) = self.rows(statement, parameters)
        return only_row

    @abstractmethod
    def require(self, server: ServerFacts) -> None:
        """Raise OtherServer unless the process that answers is that of *server*."""

    def require_or_close(self, server: ServerFacts | None) -> Self:
        """Return this link; close it and raise OtherServer if another server answers.

        server: the server that must answer; None: any may.
        """
        if server is not None:
            try:
                self.require(server)
            except BaseException as error:
                self.abandon(error)
                raise
        return self

    def abandon(self, error: BaseException) -> None:
        """Close the connection because of *error*; raise EngineError if UNREADABLE.

        To be called in an except clause, or by __exit__(): an interrupt while a context
        manager is being entered would leave the connection open.
        """
        self.close()
        if isinstance(error, UNREADABLE):
            raise unreadable_answer_error(self._target, self.message(error)) from error

    @abstractmethod
    def sever(self) -> None:
        """Break the connection, whichever thread waits on it; never raises."""

    @abstractmethod
    def close(self) -> None:
        """End the connection; never raises."""


class Watch:
    """Asks the server again and again over one link; sever() ends a pending question.

    sever() may be called from another thread.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def _rows(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        with self._abandon_on_error():
            return self._link.rows(statement, parameters)

    @contextlib.contextmanager
    def _abandon_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._link.abandon(error)
            raise

    def sever(self) -> None:
        """End a question of another thread, which then raises; never raises itself."""
        self._link.sever()

    def close(self) -> None:
        """End the connection; never raises."""
        self._link.close()


class Newest(Watch):
    """Reads the newest rows of a table; implements ports.connection.NewestRows."""

    def __init__(self, link: Link, table: TableSpec, epoch: int) -> None:
        """Take over *link*; read the rows of *epoch* in *table*."""
        super().__init__(link)
        self._epoch = epoch
        self._statement = f"newest_{table.name}"

    def read(self, after_id: int) -> Sequence[KeyRead]:
        rows = self._rows(self._statement, {"after": after_id, "epoch": self._epoch})
        return [KeyRead(*map(int, values)) for values in reversed(rows)]
