"""Protocols of an engine's connections; each docstring is the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

from dbcheck.base.errors import EngineError
from dbcheck.model.replication import Follower
from dbcheck.rows.operation import Operation

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.rows.batches import Batch


class Session(Protocol):
    """One client connection of the load, with one operation in flight at most.

    No call blocks.  Every call but close() may raise CommitUnknown if the connection
    broke (the operation in flight is then legally present or absent, as a whole), and
    EngineError if the server refused and it is certainly absent.
    """

    def fileno(self) -> int:
        """Return the descriptor that an event loop waits on; the same until close()."""

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Begin to commit *operation*, in one round trip however many its statements.

        Return whether all of it was sent; if not, call flush() whenever the
        descriptor is writable, until that returns True.
        look: read this session's own settings() in the same round trip.
        """

    def flush(self) -> bool:
        """Send the rest of the operation; return True if nothing is left to send."""

    def receive(self) -> int | None:
        """Read what has come, to be called whenever the descriptor is readable.

        Return the auto-increment id that the first of the session's statements gave its
        row, once the operation in flight is answered, and only if the server confirmed
        that each statement changed as many rows as it must, that the transaction is
        committed and that none is open any more; None as long as more must come.
        """

    def settings(self) -> Mapping[str, str]:
        """Return the settings that decide whether this session's commits are durable.

        Only settings that a session may have otherwise than its server.  Their values
        are those that the last operation found that was sent with *look* and that
        receive() has confirmed; {} if there was none, or if the server has no such
        settings.
        """

    def close(self) -> None:
        """End the connection, also in the middle of an operation; never raises."""


class Wire(NamedTuple):
    """A connection of libpq, for code in C that commits over it; see load._rounds.

    connection: the address of the PGconn.
    calls:      the addresses of libpq's functions, in the order that the code expects.
    statement:  the name of the prepared statement that each operation executes.
    tag:        the command tag of its success.
    parameters: how many values it takes.
    """

    connection: int
    calls: bytes
    statement: bytes
    tag: bytes
    parameters: int


# The status, the command tag, the first value, the message and the fields of a result
# of libpq, as code in C took it.
Taken = tuple[int, bytes, bytes | None, bytes, Mapping[int, bytes]]


@runtime_checkable
class WiredSession(Session, Protocol):
    """A session whose operations may also be committed by code in C.

    An operation that the code has sent, and does not take for acked, becomes the
    session's by resume(): then it is judged as if the session had sent it.
    """

    def wire(self, on_notice: Callable[[], None]) -> Wire | None:
        """Return the connection; None if only the session can commit its operations.

        on_notice: called whenever the server says something beside its answers.
        """

    def pack(self, batch: Batch) -> tuple[bytes, bytes]:
        """Return the values of a batch's rows; see Rounds.prepare() of load._rounds."""

    def resume(self, taken: Sequence[Taken]) -> None:
        """Take over the operation in flight, and the results taken of its answer."""

    def refused(self) -> EngineError:
        """Return the error of an operation that libpq did not send.

        To be called after resume().
        """


class LoginRefused(str):
    """Why a server takes no queries: it refuses the account, as *error* says.

    It may do so until a person acts, so what to do is named.
    """

    error: EngineError

    def __new__(cls, error: EngineError) -> Self:
        """Return the message and the hint of *error*."""
        made = super().__new__(cls, error.with_hint)
        made.error = error
        return made


class KeyRead(NamedTuple):
    """The id of a row, and the session and seq of its key, as they were read."""

    row_id: int
    session: int
    seq: int


class NewestRows(Protocol):
    """A connection that reads a table's newest rows while others write to it."""

    def read(self, after_id: int) -> Sequence[KeyRead]:
        """Return the newest rows with an id above *after_id*, in order of their ids.

        Only rows of one epoch that are committed at this moment, as far as the server
        shows it; 1000 at most.  Blocks.  Raise EngineError.
        """

    def sever(self) -> None:
        """End a read() of another thread, which then raises; never raises."""

    def close(self) -> None:
        """End the connection; never raises."""


class Followers(Protocol):
    """A connection to the writer of a cluster that lists the nodes that follow it."""

    def read(self) -> Sequence[Follower]:
        """Return the nodes that follow the writer now; blocks.  Raise EngineError."""

    def sever(self) -> None:
        """End a read() of another thread, which then raises; never raises."""

    def close(self) -> None:
        """End the connection; never raises."""


class Detaching(Protocol):
    """A connection to the writer of a cluster that ends those of its followers."""

    def detach(self) -> int:
        """End the connections of the followers; return how many there were.

        Blocks.  Each follower may connect again.  Raise EngineError.
        """

    def sever(self) -> None:
        """End a detach() of another thread, which then raises; never raises."""

    def close(self) -> None:
        """End the connection; never raises."""
