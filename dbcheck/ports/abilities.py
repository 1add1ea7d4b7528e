"""What only some database servers can do or show; each docstring is the contract.

An engine has an ability if it has the methods of its Protocol.  It has no stubs: what a
missing ability means for a cycle is decided in cycle.observable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard

from dbcheck.model.audited import OtherSettings
from dbcheck.model.depth import HeldCanary
from dbcheck.model.replication import (
    Descent,
    Detached,
    Follower,
    Membership,
    Received,
)
from dbcheck.model.server import Refill, ServerFacts, TableCheck
from dbcheck.ports.engine import Engine, Session
from dbcheck.ports.host import Look
from dbcheck.rows.chores import ChoreKind
from dbcheck.rows.conditions import Broken
from dbcheck.rows.operation import StatementSpec
from dbcheck.rows.prepared import Decisions
from dbcheck.rows.table import Definition, TableSpec

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.rows.fill import Fill


class Checkpoints(Protocol):
    """A checkpoint can be requested by a statement."""

    def checkpoint(self) -> str | None:
        """Request a checkpoint; return None once it is made, or why there was none."""


class CrashCanary(Protocol):
    """A row can show whether the server crashed or was shut down."""

    def plant_canary(
        self, epoch: int, *, server: ServerFacts | None = None
    ) -> HeldCanary | None:
        """Leave a row that recovery from a crash removes and a shutdown keeps.

        Return what has to be held until the server is back; raise NoCanary.
        """

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return whether the canary that was planted is there, None if unknown."""


class WeakSessions(Protocol):
    """The control: sessions whose commits are acked before they are durable."""

    def weaken_durability(self, *, process: bool) -> str:
        """Prepare the server for such sessions; return a description of the change.

        process: the cut ends the server's process and takes nothing else.
        What this changes beyond sessions ends with the server's process.
        """

    def open_weak_session(
        self,
        statements: Sequence[StatementSpec],
        *,
        server: ServerFacts | None = None,
    ) -> Session:
        """Connect as Engine.open_session() does; require early acks.

        Raise EngineError if the server's commits are durable when they are acked.
        """


class WeakServer(WeakSessions, Protocol):
    """A control that changes settings of the whole server.

    weaken_durability() records them on the server before it changes them.
    """

    def check_weakening(self) -> None:
        """Raise EngineError, with the GRANT as hint, if weakening would be refused."""

    def restore_durability(self) -> str | None:
        """Undo weaken_durability(), also that of a client that died.

        Return a description of what was restored, None if there was nothing.
        """


class ServerLogOverSql(Protocol):
    """The server's error log can be read over SQL."""

    def logged(self, since_us: int, *, server: ServerFacts | None = None) -> str | None:
        """Return the logged lines since then that are about crashes and shutdowns.

        None if this version has no such table or the account may not read it.
        since_us: microseconds, on the clock of ServerFacts.clock_us.
        """


class NamesInLog(Protocol):
    """The server's log names the tables that a message is about."""

    def names_in_log(self, tables: Sequence[TableSpec]) -> tuple[str, ...]:
        """Return how the server's log names the tables and their files.

        A line that has one of them, not followed by more of a name, is about a table.
        """


class TableIdentity(Protocol):
    """A table can be distinguished from a later one of the same name."""

    def table_identity(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> str:
        """Return the identifier of the table itself, "" if the account may not see it.

        Restarts, crashes, inserts and deletes keep it.  After TRUNCATE, a rewrite, or
        DROP and CREATE it is another one.  Raise ConnectionLost.
        """

    def table_definition(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> Definition:
        """Return how the table is defined now.  Raise ConnectionLost."""


class CountsDeletes(Protocol):
    """The server counts the rows that are deleted from a table."""

    def deleted(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> int | None:
        """Return the number of rows deleted from *table* since the server started.

        Those of transactions that were rolled back may count, and those of the last
        seconds may be missing.  None if it counts none, or if its count may be older.
        Raise EngineError, also if the account may not see the count.
        """


class ShowsRefill(Protocol):
    """The server shows whether others may have given it back what it lost."""

    def refill(
        self,
        tables: Sequence[TableSpec],
        since_us: int,
        *,
        server: ServerFacts | None = None,
    ) -> Refill | None:
        """Return what it may have taken from others since its process started.

        tables: those whose rows count.  since_us: what it shows from before then does
        not count; microseconds since the epoch, by the server's clock.  None if it took
        nothing, so far as a server of this kind shows that; what this one hides is
        Refill.unknown.
        Raise EngineError, also if another server answers.
        """


class Conditions(Protocol):
    """The server can compute which conditions do not hold among a plan's rows."""

    def broken_conditions(
        self, statement: str, epoch: int, *, server: ServerFacts | None = None
    ) -> tuple[Broken, ...]:
        """Return what sql/FAMILY/STATEMENT.sql finds among the rows of *epoch*.

        Raise EngineError if the server does not answer.
        """


class TableChecks(Protocol):
    """The server can check its tables and indexes itself."""

    def check_tables(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> TableCheck:
        """Have all of the tables checked; never when their rows are yet to be read.

        The check may mark what it finds, and the server may end itself at it.  Raise
        ConnectionLost, OtherServer.
        """


class TwoPhaseCommits(Protocol):
    """Transactions can be prepared, and decided over another connection."""

    def require_two_phase(self, transactions: int, *, weak: bool) -> None:
        """Raise EngineError, with the fix as hint, if so many cannot be prepared.

        weak: for a control; and if none of them can be acked before it is durable.
        """

    def prepared(self, *, server: ServerFacts | None = None) -> tuple[str, ...]:
        """Return the names of dbcheck's transactions that are prepared.

        Of those that write to its tables; see rows.prepared.Name.
        """

    def decide(
        self, name: str, *, commit: bool, server: ServerFacts | None = None
    ) -> None:
        """Commit a prepared transaction, or roll it back.

        Raise NotPrepared if the server has none of that name, else EngineError.
        """


class CountsDecisions(Protocol):
    """The server counts what decides prepared transactions."""

    def decisions(self, *, server: ServerFacts | None = None) -> Decisions:
        """Return what it counted since it started.  Raise EngineError."""


class BulkFill(Protocol):
    """Many rows can be inserted at once."""

    def fill(
        self, table: TableSpec, rows: Fill, *, server: ServerFacts | None = None
    ) -> Iterator[int]:
        """Insert *rows* in transactions; yield how many each committed.

        What was committed stays, whatever ends the rest.  Raise EngineError if the
        server inserts another number of rows than it was sent.
        """


class Housekeeping(Protocol):
    """Tables can be created, changed and dropped by a session of the load."""

    def lacking(self, kinds: Sequence[ChoreKind]) -> dict[ChoreKind, str]:
        """Return which chores cannot be done, and why, with the GRANT if one helps."""

    def present(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> tuple[TableSpec, ...]:
        """Return those of the tables that are there; raise EngineError if one is not
        dbcheck's."""

    def discard(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> None:
        """Drop those that are there and are dbcheck's."""


class ShownSettings(Protocol):
    """What is set for other accounts and databases can be shown."""

    def other_settings(self) -> tuple[OtherSettings, ...]:
        """Return it, as far as this account may see it; raise EngineError."""


class Watchable(Protocol):
    """What a commit depends on can be looked at repeatedly beside a load."""

    def open_look(
        self,
        settings: Collection[str],
        epoch: int | None,
        tables: Sequence[TableSpec] = (),
        *,
        server: ServerFacts | None = None,
    ) -> Look:
        """Connect to look at those of the *settings* that can change while it runs.

        And at how *tables* are defined; at how often triggers and the like were
        changed in the whole database or server, as far as it counts that; and at when
        the server last loaded or set a setting, as far as it shows that.
        epoch: of the crash canary, if its row can vanish and be looked at; else None.
        """


class DataMark(Protocol):
    """A mark can be written into the data directory, where its own files have none."""

    def mark_data(self) -> str:
        """Write a new mark into the data directory and return it.

        Return "" if the files of this server's data directory identify it.
        """


class Followers(Protocol):
    """A connection to the writer of a cluster that lists the nodes that follow it."""

    def read(self) -> Sequence[Follower]:
        """Return them as they are now; blocks.  Raise EngineError."""

    def sever(self) -> None:
        """End a read() of another thread, which then raises; never raises."""

    def close(self) -> None:
        """End the connection; never raises."""


class Replicates(Protocol):
    """The server can be a node of a cluster, one node of which takes the writes."""

    def open_followers(self, *, server: ServerFacts | None = None) -> Followers:
        """Connect to list the nodes that follow this one."""

    def membership(self) -> Membership | None:
        """Return how the node that this one follows knows it, None if there is none."""

    def received(self) -> Received:
        """Return how far this node has received and applied the writer's log."""

    def promote(self) -> None:
        """Ask this node to take over from the writer, and do not wait for that.

        Raise EngineError, with the GRANT as hint if one helps.
        """

    def accepts(self) -> bool:
        """Return whether anything accepts connections at the server's address.

        Also a server that starts, or refuses us; never raises.
        """

    def takes_writes(self) -> bool:
        """Return whether this node follows no other and takes writes; never raises."""

    def descent(self) -> Descent:
        """Return whose log this node continues, once it was promoted."""


class Grouped(Protocol):
    """The server may be one of a group whose nodes give each other what they lost."""

    def require_alone(self) -> None:
        """Raise EngineError if it is."""


class Bootstraps(Protocol):
    """The server may be of a group that does not form by itself once all were cut."""

    def require_may_bootstrap(self) -> None:
        """Raise EngineError, with the GRANT, if this account may not do all of this."""

    def detached(self) -> Detached:
        """Return what the server is, and has.

        Raise EngineError if it is in a group, or tries to join one.
        """

    def require_all_of(self, others: Mapping[str, str]) -> None:
        """Raise EngineError if another node has transactions that this one lacks.

        others: by the names of the other nodes, the transactions that they have.
        """

    def bootstrap_group(self) -> None:
        """Have it form its group again, as the only member so far.

        Raise EngineError, with what to do, and StillBootstraps if end_bootstrap() is
        due.
        """

    def end_bootstrap(self) -> None:
        """Have it form no group when it next starts; raise StillBootstraps."""

    def join_group(self) -> None:
        """Have it join the group that another node has formed, unless it has joined.

        Raise EngineError, with what to do if that helps.
        """


def makes_checkpoints(engine: Engine) -> TypeGuard[Checkpoints]:
    """Return whether *engine* has that ability."""
    return _has(engine, Checkpoints)


def has_crash_canary(engine: Engine) -> TypeGuard[CrashCanary]:
    """Return whether *engine* has that ability."""
    return _has(engine, CrashCanary)


def weakens_sessions(engine: Engine) -> TypeGuard[WeakSessions]:
    """Return whether *engine* has that ability."""
    return _has(engine, WeakSessions)


def weakens_server(engine: Engine) -> TypeGuard[WeakServer]:
    """Return whether *engine* has that ability."""
    return _has(engine, WeakServer)


def shows_log(engine: Engine) -> TypeGuard[ServerLogOverSql]:
    """Return whether *engine* has that ability."""
    return _has(engine, ServerLogOverSql)


def knows_names_in_log(engine: Engine) -> TypeGuard[NamesInLog]:
    """Return whether *engine* has that ability."""
    return _has(engine, NamesInLog)


def identifies_tables(engine: Engine) -> TypeGuard[TableIdentity]:
    """Return whether *engine* has that ability."""
    return _has(engine, TableIdentity)


def counts_deletes(engine: Engine) -> TypeGuard[CountsDeletes]:
    """Return whether *engine* has that ability."""
    return _has(engine, CountsDeletes)


def shows_refill(engine: Engine) -> TypeGuard[ShowsRefill]:
    """Return whether *engine* has that ability."""
    return _has(engine, ShowsRefill)


def computes_conditions(engine: Engine) -> TypeGuard[Conditions]:
    """Return whether *engine* has that ability."""
    return _has(engine, Conditions)


def checks_tables(engine: Engine) -> TypeGuard[TableChecks]:
    """Return whether *engine* has that ability."""
    return _has(engine, TableChecks)


def commits_in_two_phases(engine: Engine) -> TypeGuard[TwoPhaseCommits]:
    """Return whether *engine* has that ability."""
    return _has(engine, TwoPhaseCommits)


def counts_decisions(engine: Engine) -> TypeGuard[CountsDecisions]:
    """Return whether *engine* has that ability."""
    return _has(engine, CountsDecisions)


def fills(engine: Engine) -> TypeGuard[BulkFill]:
    """Return whether *engine* has that ability."""
    return _has(engine, BulkFill)


def keeps_house(engine: Engine) -> TypeGuard[Housekeeping]:
    """Return whether *engine* has that ability."""
    return _has(engine, Housekeeping)


def shows_settings(engine: Engine) -> TypeGuard[ShownSettings]:
    """Return whether *engine* has that ability."""
    return _has(engine, ShownSettings)


def can_be_watched(engine: Engine) -> TypeGuard[Watchable]:
    """Return whether *engine* has that ability."""
    return _has(engine, Watchable)


def marks_data(engine: Engine) -> TypeGuard[DataMark]:
    """Return whether *engine* has that ability."""
    return _has(engine, DataMark)


def replicates(engine: Engine) -> TypeGuard[Replicates]:
    """Return whether *engine* has that ability."""
    return _has(engine, Replicates)


def may_be_grouped(engine: Engine) -> TypeGuard[Grouped]:
    """Return whether *engine* has that ability."""
    return _has(engine, Grouped)


def may_bootstrap(engine: Engine) -> TypeGuard[Bootstraps]:
    """Return whether *engine* has that ability."""
    return _has(engine, Bootstraps)


def _has(engine: object, ability: type) -> bool:
    """Return whether *engine* has the methods that *ability* itself declares.

    Raise TypeError if it has only some of them: a control would change a server and
    never restore it.  isinstance() would miss a wrapper that hands on what it does not
    define (from Python 3.12 on, it looks at the class alone).
    """
    names = [name for name in vars(ability) if not name.startswith("_")]
    lacking = [name for name in names if not hasattr(engine, name)]
    if lacking and len(lacking) < len(names):
        missing = f"{lacking[0]} of {ability.__name__}"
        raise TypeError(f"{type(engine).__name__} lacks {missing}")
    return not lacking
