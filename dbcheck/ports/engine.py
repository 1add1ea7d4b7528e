"""What a cycle needs of a database server; each docstring is the contract."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dbcheck.core.bystanders import Bystanders
from dbcheck.core.held import HeldCanary
from dbcheck.core.history import Row
from dbcheck.core.places import Place
from dbcheck.core.server import ServerFacts

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.core.survivors import RowBatch


class Shape(enum.Enum):
    """The table a workload writes to."""

    LEDGER = "ledger"  # key, payload and checksum in every row
    CLASSIC = "classic"  # an auto-increment id and nothing else


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The table before a cycle writes to it.

    rows_by_epoch: epoch -> rows that earlier cycles left; {0: n} if classic.
    row_id_max:    highest id present, 0 if the table is empty.
    weights_by_epoch: epoch -> sum of id times checksum, modulo 2^64; {} if classic.
    different:     ids of rows that the campaign's cycle before this one found changed.
    sound:         epochs of which that cycle read every row, as they are counted here:
                   all but those in *different* were then as they had been written.
    identity:      see Engine.table_identity(), read before the rows were counted.
    """

    rows_by_epoch: Mapping[int, int]
    row_id_max: int
    weights_by_epoch: Mapping[int, int] = field(default_factory=dict)
    different: tuple[int, ...] = ()
    identity: str = ""
    sound: tuple[int, ...] = ()


class Session(Protocol):
    """One client connection of the load, with one operation in flight at most.

    No call blocks.  Every call but close() may raise CommitUnknown if the connection
    broke (the row of an operation in flight is then legally present or absent), and
    EngineError if the server refused and the row is certainly absent.
    """

    def fileno(self) -> int:
        """Return the descriptor that an event loop waits on; the same until close()."""

    def send(self, row: Row) -> bool:
        """Begin to insert *row* in a transaction of its own.

        Return whether all of it was sent; if not, call flush() whenever the
        descriptor is writable, until that returns True.
        """

    def flush(self) -> bool:
        """Send what is left; return whether nothing is."""

    def receive(self) -> int | None:
        """Read what has come, to be called whenever the descriptor is readable.

        Return the auto-increment id once the operation in flight is answered, and
        only if the server said that its one row went in, that the transaction is
        committed and that none is open any more; None as long as more must come.
        """

    def close(self) -> None:
        """End the connection, also in the middle of an operation; never raises."""


class Engine(Protocol):
    """One database server.  Every call opens what it needs and leaves nothing open.

    server: the facts of a server, None for any.  Raise OtherServer if the connection
            that does the work reaches another one, or another process of it.
    """

    family: str  # folder under sql/: "postgresql" or "mysql"
    target: str  # the URL without any password
    checkpoints: bool  # a checkpoint can be asked for

    def facts(self) -> ServerFacts:
        """Read the server's facts; raise EngineError if it cannot be reached."""

    def check(self, shape: Shape, *, relaxed: bool = False) -> None:
        """Raise EngineError (with the mend as hint) if this server cannot be tested.

        relaxed: also refuse what relax() would be refused for.
        Nothing is created.  Refuses an unsupported version, a replica, a server
        in recovery or read-only, a missing privilege, a table that is unlogged,
        temporary, not transactional, not dbcheck's, or changed since (a trigger ...).
        """

    def places(self, shape: Shape) -> tuple[Place, ...]:
        """Return the directories that an ack depends on, as far as SQL shows them.

        The data directory comes first; the table need not exist yet.
        """

    def mark_data(self) -> str:
        """Leave a word in the data directory; return it, "" if its files name it."""

    def bystanders(self) -> Bystanders:
        """Return who else uses this server, as far as this account may see."""

    def prepare(self, shape: Shape, *, server: ServerFacts | None = None) -> TableFacts:
        """Create the table if it is not there, and say what it holds."""

    def table_identity(self, shape: Shape, *, server: ServerFacts | None = None) -> str:
        """Return what names the table itself, "" if the server does not tell.

        Restarts, crashes, inserts and deletes keep it.  After TRUNCATE, a rewrite, or
        DROP and CREATE it is another one.  Raise ConnectionLost.
        """

    def names_in_log(self, shape: Shape) -> tuple[str, ...]:
        """Return how the server's log names the table and its files, as far as known.

        A line that has one of them, not followed by more of a name, is about the table.
        """

    def relax(self, *, process: bool) -> str:
        """Prepare the server for relaxed sessions; return in words what relaxes them.

        process: the cut takes the server's process and no more.
        What this changes beyond sessions ends with the server's process, and is
        remembered there before it is changed, for tighten().
        """

    def tighten(self) -> str | None:
        """Undo relax(), also that of a client that died.

        Return in words what was put back, None if there was nothing.
        """

    def open_session(
        self, shape: Shape, *, relaxed: bool = False, server: ServerFacts | None = None
    ) -> Session:
        """Connect for the load; raise EngineError if that is refused.

        relaxed: commits are acked before they are durable, as only a control wants.
        """

    def row(self, shape: Shape, row_id: int) -> Row | None:
        """Return the row with that id over a new connection; classic: only its id."""

    def checkpoint(self) -> str | None:
        """Ask for a checkpoint; return None, or why there was none."""

    def plant_canary(
        self, epoch: int, *, server: ServerFacts | None = None
    ) -> HeldCanary | None:
        """Leave a row that recovery from a crash removes and a shutdown keeps.

        Return what has to be held until the server is back; raise NoCanary.
        """

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return whether the canary that was planted is there, None if unknown."""

    def logged(self, since_us: int, *, server: ServerFacts | None = None) -> str | None:
        """Return what the server logged of crashes and shutdowns since then.

        Read over SQL, in lines; None if this server has no such table or the account
        may not read it.  since_us: as ServerFacts.clock_us.
        """

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None if the server takes queries and is out
        of recovery, else the reason in words.  Never raises."""

    def survivors(
        self, shape: Shape, *, server: ServerFacts | None = None
    ) -> Iterator[RowBatch]:
        """Stream every row of the table in one read-only transaction, in batches.

        Reads the table itself, not an index; *server* is looked at in that very
        transaction.  Raise TableLost if the server says
        that the table is gone or damaged, TableRefused if it does not open a table
        that may be sound, ConnectionLost if the connection broke.
        """

    def drop(self) -> list[str]:
        """Drop what dbcheck created here; return the names."""
