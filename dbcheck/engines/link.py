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
from types import TracebackType
from typing import Any, Self, TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, RowsWithheld
from dbcheck.model.server import ServerFacts
from dbcheck.ports.connection import KeyRead
from dbcheck.rows.table import TableSpec

_LOOK_S = 0.05  # between two looks at how much came
_AGAIN_S = 1.0  # between two attempts to sever what continues
# tcpi_bytes_received in struct tcp_info of Linux (include/uapi/linux/tcp.h), whose
# fields keep their places.
_RECEIVED = struct.Struct("=128xQ")
T = TypeVar("T")


class Overrun:
    """Reason for which a limit cut the server off, if it did.

    is_late: it took too long.  is_flood: it sent too much.
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

    seconds: how long it may take.  The drivers know no timeout of their own for an
    answer; a power cut sends nothing, so without this a reader would wait for ever.
    most: how many bytes may come meanwhile, if *count* returns how many came so far, as
    count_received_bytes() does.  libpq holds an answer whole, whatever its size.

    Yield which limit was exceeded; it is set before *sever* is called, again and again
    while the body continues: what it breaks may not be there yet.
    """
    overrun, done = Overrun(), threading.Event()
    before = count() if count else 0

    def watch() -> None:
        end_s = time.monotonic() + seconds
        while not done.wait(_wait_s(end_s, often=count is not None)):
            overrun.is_flood = count() - before > most if count else False
            overrun.is_late = time.monotonic() >= end_s
            if overrun.is_flood or overrun.is_late:
                break
        else:
            return
        sever()
        while not done.wait(_AGAIN_S):
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
        found = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
        return int(_RECEIVED.unpack(found)[0])
    except (OSError, struct.error):  # no TCP, or a kernel of before 4.1
        return 0


def _wait_s(end_s: float, *, often: bool) -> float:
    left_s = max(0.0, end_s - time.monotonic())
    return min(left_s, _LOOK_S) if often else left_s


class StillRunning(TimeoutError):
    """A call that was severed, and is left in its *thread*, since it did not end."""

    def __init__(self, limit_s: float, thread: threading.Thread) -> None:
        super().__init__(f"it did not end within {limit_s:g} s")
        self.thread = thread


def run_interruptible(
    call: Callable[[], T], sever: Callable[[], None], limit_s: float | None = None
) -> T:
    """Run *call* in a thread; return its result; *sever* if an interrupt comes.

    Raise StillRunning after limit_s, unless that is None.

    A signal's handler runs in the main thread between two steps of Python, so not while
    libpq waits there for an answer.  So *call* runs in a thread of its own; once it is
    severed, it is not waited for.  No signal interrupts another thread, so there it is
    called as it is unless it has a limit.
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


ANSWER_S = 30.0  # a catalogue query on a server that works
LOCK_S = 2  # that a reader waits for a lock, each time
SCAN_S = 3600.0  # a scan of a whole table; a batch of its rows
# Most bytes of an answer.  Of a batch of rows: far above the largest row, 1 MiB, so
# that one that was changed, and is longer now, is judged.
ANSWER_BYTES = 16 << 20
BATCH_BYTES_MAX = 64 << 20

# The remedy for an answer that no server of the engine gives.
NOT_THE_SERVER = (
    "Check that the URL leads to the database server itself, and not to another"
    " service."
)
# What a driver raises over bytes or columns that no server sends; it checks few.
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
    """Return the message of *error* on one line, without the password."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if line)
    text = text or type(error).__name__
    return text.replace(secret, "***") if secret else text


def require_all(table: str, read: int, counted: int) -> None:
    """Raise EngineError unless as many rows were *read* as the server *counted*.

    Both in one snapshot.  What does not arrive was not shown to be missing: something
    on the way, or a limit of the session, left it out.
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
    """Return the error for a server that was cut off, as it did not answer in time."""
    return EngineError(
        f"{target} did not answer {statement} within {answer_s:g} s",
        id=ErrorId.SERVER_NOT_ANSWERING,
        hint="Check what the server waits for: a lock, a full disk, a missing standby.",
    )


def locked_table_error(error: EngineError, holders: str) -> RowsWithheld:
    """Return the error for a table that another session has locked.

    holders: who they are, "" if the server does not show it.
    """
    shown = f" ({holders})" if holders else ""
    return RowsWithheld(
        f"another session has a table locked{shown}: {error}",
        id=ErrorId.ROWS_LOCKED,
        hint="End that session, or wait until it has ended its transaction.",
    )


def not_permitted_error(error: EngineError) -> RowsWithheld:
    """Return the error for a table that the account may not read, or not all of it."""
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
    """Return the error for an answer that the driver, or its reader, cannot decode."""
    return EngineError(
        f"cannot read the answer of {target}: {why}",
        id=ErrorId.ANSWER_NOT_UNDERSTOOD,
        hint=NOT_THE_SERVER,
    )


class Link(ABC):
    """A connection in autocommit mode; a context manager that closes it.

    If its body fails to decode an answer, that becomes an EngineError.
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
        """Run sql/FAMILY/STATEMENT.sql and return its rows, if it has any.

        Raise EngineError if the server refuses it or is silent for answer_s.
        """

    def row(
        self, statement: str, parameters: Mapping[str, object] | None = None
    ) -> tuple[Any, ...]:
        """Return the one row of a statement that always has one."""
        (found,) = self.rows(statement, parameters)
        return found

    @abstractmethod
    def require(self, server: ServerFacts) -> None:
        """Raise OtherServer unless it is that process of that *server* that answers."""

    def require_or_close(self, server: ServerFacts | None) -> Self:
        """Return this link; close it and raise OtherServer if another one answers.

        server: None for any.
        """
        if server is not None:
            try:
                self.require(server)
            except BaseException as error:
                self.abandon(error)
                raise
        return self

    def abandon(self, error: BaseException) -> None:
        """Close the connection over *error*; raise EngineError as the link itself does.

        No context manager: an interrupt as that is entered would leave it open.
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
    """Takes over a link; another thread can end a question by sever()."""

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
        """End a question of another thread, which then raises; never raises."""
        self._link.sever()

    def close(self) -> None:
        """End the connection; never raises."""
        self._link.close()


class Newest(Watch):
    """See ports.engine.NewestRows."""

    def __init__(self, link: Link, table: TableSpec, epoch: int) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._epoch = epoch
        self._statement = f"newest_{table.name}"

    def read(self, after_id: int) -> Sequence[KeyRead]:
        found = self._rows(self._statement, {"after": after_id, "epoch": self._epoch})
        return [KeyRead(*map(int, values)) for values in reversed(found)]
