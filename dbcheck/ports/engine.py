"""What a cycle needs of every database server; each docstring is the contract.

What only some servers can do is in ports.abilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dbcheck.model.cut import OtherUsers
from dbcheck.model.places import Place
from dbcheck.model.server import ServerFacts
from dbcheck.rows.acks import Row
from dbcheck.rows.operation import Operation, StatementSpec
from dbcheck.rows.table import TableFacts, TableSpec

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.rows.survivors import RowBatch


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
        """Send what is left; return whether nothing is."""

    def receive(self) -> int | None:
        """Read what has come, to be called whenever the descriptor is readable.

        Return the auto-increment id that the first of the session's statements gave its
        row, once the operation in flight is answered, and only if the server confirmed
        that each statement changed as many rows as it must, that the transaction is
        committed and that none is open any more; None as long as more must come.
        """

    def settings(self) -> Mapping[str, str]:
        """Return the settings that decide whether this session's commits are durable.

        Those that a session may have otherwise than its server, as the last operation
        found them that was sent to look and that receive() has confirmed; {} if none
        was, or if the server has none of them.
        """

    def close(self) -> None:
        """End the connection, also in the middle of an operation; never raises."""


class KeyRead(NamedTuple):
    """The id of a row, and the session and seq of its key, as they were read."""

    row_id: int
    session: int
    seq: int


class NewestRows(Protocol):
    """A connection that reads a table's newest rows while others write to it."""

    def read(self, after_id: int) -> Sequence[KeyRead]:
        """Return the newest rows with an id above *after_id*, in order of their ids.

        Those of one epoch that are committed at this moment, as far as the server
        shows it; 1000 at most.  Blocks.  Raise EngineError.
        """

    def sever(self) -> None:
        """End a read() of another thread, which then raises; never raises."""

    def close(self) -> None:
        """End the connection; never raises."""


class Engine(Protocol):
    """One database server.  Every call opens what it needs and leaves nothing open.

    server: the facts of a server, None for any.  Raise OtherServer if the connection
            that does the work reaches another one, or another process of it.
    """

    family: str  # whose rules hold (audit.rules.RULES): "postgresql" or "mysql"
    target: str  # the URL without any password

    def endpoints(self) -> Sequence[tuple[str, int]]:
        """Return each host that the driver may connect to, and its port.

        "" stands for a socket file of this machine.  What the URL leaves open may come
        from the environment, or from a file.  Raise EngineError if it cannot be found
        out.
        """

    def facts(self) -> ServerFacts:
        """Read the server's facts; raise EngineError if it cannot be reached."""

    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        """Raise EngineError (with the fix as hint) if this server cannot be tested.

        payload_bytes: of all rows of the largest operation.  Nothing is created.
        Refuses an unsupported version, a replica, a server in recovery or read-only, a
        privilege that *statements* need and the account lacks, a table of theirs that
        is unlogged, temporary, not transactional, not dbcheck's, or changed since (a
        trigger ...), and a limit that the largest operation would exceed.
        """

    def places(self, tables: Sequence[TableSpec]) -> tuple[Place, ...]:
        """Return the directories that an ack depends on, as far as SQL shows them.

        The data directory comes first; the tables need not exist yet.
        """

    def other_users(self) -> OtherUsers:
        """Return who else uses this server, as far as this account may see."""

    def prepare(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> dict[str, TableFacts]:
        """Create the tables that are not there; return what each holds, by its name."""

    def open_session(
        self,
        statements: Sequence[StatementSpec],
        *,
        server: ServerFacts | None = None,
    ) -> Session:
        """Connect for operations of *statements*; raise EngineError if refused.

        The first of them is an INSERT of one row, which every operation has once.
        """

    def open_newest(
        self, table: TableSpec, epoch: int, *, server: ServerFacts | None = None
    ) -> NewestRows:
        """Connect to read the newest rows of *epoch*; raise EngineError if refused."""

    def row(self, table: TableSpec, row_id: int) -> Row | None:
        """Return the row with that id over a new connection; classic: only its id."""

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None if the server takes queries and is out
        of recovery, else the reason.

        Raise OtherProduct if dbcheck does not judge such servers, for which no wait
        helps; nothing else."""

    def survivors(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Stream every row of the tables, one after the other, in batches.

        All of it in one read-only transaction, so of one moment.  Reads the tables
        themselves, not an index; *server* is looked at in that very transaction.  Raise
        TableLost if the server reports a table as gone or damaged, TableRefused if it
        does not open a table that may be sound, IndexDamaged after the last row if an
        index disagrees with its table, ConnectionLost if the connection broke.
        """

    def drop(self) -> list[str]:
        """Drop what dbcheck created here; return the names."""
