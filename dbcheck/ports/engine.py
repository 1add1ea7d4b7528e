"""Base class of all engines; each docstring is the contract.

What only some servers can do has a default here: "not observable", never a finding
about the server, or a refusal.  Methods of a node of a cluster, and methods that are
called only after has(), have no default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import NoCanary, UsageError
from dbcheck.base.points import PointKind, PointRead
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import OtherUsers
from dbcheck.model.depth import HeldCanary
from dbcheck.model.places import Place
from dbcheck.model.replication import (
    Descent,
    Detached,
    Membership,
    Received,
    SourceLogin,
)
from dbcheck.model.server import Refill, ServerFacts, TableCheck
from dbcheck.ports.connection import Detaching, Followers, NewestRows, Session
from dbcheck.ports.feature import REFUSALS, Feature
from dbcheck.ports.host import Look
from dbcheck.rows.acks import Row
from dbcheck.rows.loss import ConditionCheck
from dbcheck.rows.operation import StatementSpec, Usage
from dbcheck.rows.prepared import Decisions
from dbcheck.rows.table import Definition, TableFacts, TableSpec
from dbcheck.rows.tasks import TaskKind

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.rows.fill import Fill
    from dbcheck.rows.survivors import RowBatch


class Engine(ABC):
    """One database server.  Every call opens what it needs and leaves nothing open.

    server: the facts of the server that must answer, None for any.  Raise OtherServer
            if the connection that does the work reaches another server, or another
            process of this one.
    """

    family: str  # whose rules hold (audit.rules.RULES): "postgresql" or "mysql"
    target: str  # the URL without any password
    # What precedes the name of a table in a statement: dbcheck's schema or database.
    schema: str

    @abstractmethod
    def endpoints(self) -> Sequence[tuple[str, int]]:
        """Return each host that the driver may connect to, and its port.

        "" stands for a socket file of this machine.  What the URL leaves open may come
        from the environment, or from a file.  Raise EngineError if the endpoints cannot
        be found out.
        """

    @abstractmethod
    def facts(self) -> ServerFacts:
        """Read the server's facts; raise EngineError if it cannot be reached."""

    @abstractmethod
    def require_rights(
        self,
        usage: Usage,
        *,
        control: Weakens | None = None,
        asks_host: bool = False,
    ) -> None:
        """Raise EngineError if the account lacks a right that a load of *usage* needs.

        The error names every such right, and its hint every GRANT.  Raise EngineError
        also for a product or a version that dbcheck does not judge.
        control: the kind of the control that comes first, None without one.
        asks_host: the target's host is asked as well, which takes the data directory.
        """

    @abstractmethod
    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        """Raise EngineError (with the fix as hint) if this server cannot be tested.

        payload_bytes: of all rows of the largest operation.  Nothing is created.
        Refuses an unsupported version, a replica, a server in recovery or read-only, a
        table of *statements* that is unlogged, temporary, not transactional, not
        dbcheck's, or changed since (a trigger ...), and a limit that the largest
        operation would exceed.
        """

    @abstractmethod
    def places(self, tables: Sequence[TableSpec]) -> tuple[Place, ...]:
        """Return the directories that an ack depends on, as far as SQL shows them.

        The data directory comes first; the tables need not exist yet.
        """

    @abstractmethod
    def other_users(self) -> OtherUsers:
        """Return the other users of this server, as far as this account may see."""

    @abstractmethod
    def prepare(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> dict[str, TableFacts]:
        """Create the tables that are not there; return what each holds, by its name."""

    @abstractmethod
    def open_session(
        self,
        statements: Sequence[StatementSpec],
        *,
        server: ServerFacts | None = None,
    ) -> Session:
        """Connect for operations of *statements*; raise EngineError if refused.

        The first statement is an INSERT of one row, which every operation has once.
        """

    def open_client(self, statement: StatementSpec, connect_s: float) -> Session:
        """Connect as open_session() does, to whichever server answers.

        Raise EngineError unless that server takes writes and follows no other server: a
        commit on a standby would be one that its writer never made, even where this
        account may write to it.
        connect_s: for each of the few answers that a login takes.
        """
        raise NotImplementedError

    @abstractmethod
    def open_newest(
        self, table: TableSpec, epoch: int, *, server: ServerFacts | None = None
    ) -> NewestRows:
        """Connect to read the newest rows of *epoch*; raise EngineError if refused."""

    @abstractmethod
    def row(self, table: TableSpec, row_id: int) -> Row | None:
        """Return the row with that id over a new connection; in classic only its id."""

    @abstractmethod
    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None if the server takes queries and is out
        of recovery, else the reason; a LoginRefused if it refuses the account.

        Raise OtherProduct if dbcheck does not judge such servers, for which no wait
        helps; nothing else."""

    @abstractmethod
    def survivors(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Stream every row of the tables, one after the other, in batches.

        All rows are read in one read-only transaction, so they are of one moment, and
        from the tables themselves, not from an index; *server* is looked at in that
        very transaction.  Raise TableLost if the server reports a table as gone or
        damaged, TableRefused if it does not open a table that may be sound,
        IndexDamaged after the last row if an index disagrees with its table,
        ConnectionLost if the connection broke.
        """

    @abstractmethod
    def drop(self) -> list[str]:
        """Drop what dbcheck created here; return the names."""

    def has(self, feature: Feature) -> bool:
        """Return True if servers of this kind have a feature, or may have it."""
        return all(
            getattr(type(self), name) is not getattr(Engine, name)
            for name in feature.value
        )

    def require(self, feature: Feature) -> None:
        """Raise UsageError if servers of this kind lack what a user asks for."""
        if not self.has(feature):
            raise self._refusal(feature)

    def _refusal(self, feature: Feature) -> UsageError:
        text, error_id, hint = REFUSALS[feature]
        return UsageError(text % self.target, id=error_id, hint=hint)

    def checkpoint(self) -> str:
        """Request a checkpoint; return "" once it is made, or why there was none."""
        return "this server has no statement that requests a checkpoint"

    def plant_canary(
        self, epoch: int, *, server: ServerFacts | None = None, local: bool = False
    ) -> HeldCanary | None:
        """Leave a row that recovery from a crash removes and a shutdown keeps.

        local: leave it on this server alone.  A cut may damage its table, and a standby
               with a damaged table could not apply the next canary.
        Return what has to be held until the server is back; raise NoCanary.
        """
        raise NoCanary(
            "no crash canary: this kind of server has none",
            id=ErrorId.CANARY_NOT_POSSIBLE,
        )

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return True if the canary that was planted is there, None if unknown."""
        return None

    def weaken_durability(self, *, process: bool) -> str:
        """Prepare the server for a control; return a description of the change.

        In a control commits are acked before they are durable.
        process: the cut ends the server's process and takes nothing else.
        What this changes beyond sessions ends with the server's process, or is recorded
        on the server before it is changed, for restore_durability().
        """
        raise self._refusal(Feature.CONTROL)

    def open_weak_session(
        self,
        statements: Sequence[StatementSpec],
        weakens: Weakens,
        *,
        server: ServerFacts | None = None,
    ) -> Session:
        """Connect as open_session() does; require early acks.

        REPLICATION changes this session alone.  FLUSH follows weaken_durability();
        raise EngineError if the server's commits are durable when they are acked.
        """
        raise self._refusal(Feature.CONTROL)

    def check_weakening(self) -> None:
        """Raise EngineError if another program's table prevents a control."""
        return

    def restore_durability(self) -> str | None:
        """Undo weaken_durability(), also if a client that died called it.

        Return a description of what was restored, None if there was nothing.
        """
        return None

    def logged(self, since_us: int, *, server: ServerFacts | None = None) -> str | None:
        """Return the lines logged since *since_us* about crashes and shutdowns.

        None if SQL does not show them, or not to this account.
        since_us: microseconds, on the clock of ServerFacts.clock_us.
        """
        return None

    def names_in_log(self, tables: Sequence[TableSpec]) -> tuple[str, ...]:
        """Return the names of tables and files in the server's log, () if unknown.

        A line that has one of them, not followed by more of a name, is about a table.
        """
        return ()

    def table_identity(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> str:
        """Return the identifier of the table itself, "" if the account may not see it.

        Restarts, crashes, inserts and deletes keep it.  After TRUNCATE, a rewrite, or
        DROP and CREATE it is another one.  Raise ConnectionLost.
        """
        return ""

    def table_definition(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> Definition:
        """Return the table's definition now.  Raise ConnectionLost."""
        return Definition()

    def deleted(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> int | None:
        """Return the number of rows deleted from *table* since the server started.

        Rows of transactions that were rolled back may count, and rows of the last
        seconds may be missing.  None if the server counts none, or if its count may be
        older.
        Raise EngineError, also if the account may not see the count.
        """
        return None

    def refill(
        self,
        tables: Sequence[TableSpec],
        since_us: int,
        *,
        server: ServerFacts | None = None,
    ) -> Refill | None:
        """Return data that other servers may have given this one since it started.

        tables: the tables whose rows count.  since_us: what the server shows from
        before this moment does not count; microseconds since the epoch, by the server's
        clock.  None if it took nothing, so far as a server of this kind shows that; if
        this server hides it, Refill.unknown is set.
        Raise EngineError, also if another server answers.
        """
        return None

    def broken_conditions(
        self, statement: str, epoch: int, *, server: ServerFacts | None = None
    ) -> ConditionCheck:
        """Return the rows of *epoch* that sql/FAMILY/STATEMENT.sql finds.

        Raise EngineError if the server does not answer.
        """
        return ConditionCheck(not_done="this kind of server cannot be asked for them")

    def check_tables(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> TableCheck | None:
        """Have the server check all of the tables, whose rows have been read before.

        The check may mark what it finds, and the server may end itself during it.  None
        if the server has no such check.  Raise ConnectionLost, OtherServer.
        """
        return None

    def require_two_phase(self, transactions: int, *, weak: bool) -> None:
        """Raise EngineError, with the fix as hint, if so many cannot be prepared.

        weak: for a control; raise also if none of them can be acked before it is
        durable.
        """
        raise self._refusal(Feature.TWO_PHASE)

    def prepared(self, *, server: ServerFacts | None = None) -> tuple[str, ...]:
        """Return the names of dbcheck's transactions that are prepared.

        Only of transactions that write to its tables; see rows.prepared.Name.
        """
        raise self._refusal(Feature.TWO_PHASE)

    def decide(
        self, name: str, *, commit: bool, server: ServerFacts | None = None
    ) -> None:
        """Commit a prepared transaction, or roll it back.

        Raise NotPrepared if the server has none of that name, else EngineError.
        """
        raise self._refusal(Feature.TWO_PHASE)

    def decisions(self, *, server: ServerFacts | None = None) -> Decisions | None:
        """Return how many prepared transactions were decided since the server started.

        None if the server does not count them.  Raise EngineError.
        """
        return None

    def fill(
        self, table: TableSpec, rows: Fill, *, server: ServerFacts | None = None
    ) -> Iterator[int]:
        """Insert *rows* in transactions; yield how many each committed.

        What was committed stays, whatever ends the rest.  Raise EngineError if the
        server inserts another number of rows than it was sent.
        """
        raise self._refusal(Feature.FILL)

    def lacking(self, kinds: Sequence[TaskKind]) -> dict[TaskKind, str]:
        """Return the tasks that cannot be done, and why; with the GRANT if it helps."""
        return dict.fromkeys(kinds, "dbcheck knows no such statement here")

    def present(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> tuple[TableSpec, ...]:
        """Return the tables that are there, all of *tables* if none is missing.

        Raise EngineError if a table with such a name is not dbcheck's.
        """
        raise NotImplementedError

    def discard(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> None:
        """Drop the tables that are there and are dbcheck's."""
        return

    def other_settings(self) -> tuple[ScopedSettings, ...]:
        """Return settings of other accounts and databases, and tables not durable.

        Only what this account may see; raise EngineError.
        """
        return ()

    def open_look(
        self,
        settings: Collection[str],
        epoch: int | None,
        tables: Sequence[TableSpec] = (),
        *,
        server: ServerFacts | None = None,
    ) -> Look:
        """Connect to look at those *settings* that can change while the server runs.

        Also at how *tables* are defined; at how often triggers and the like were
        changed in the whole database or server, as far as it counts that; and at when
        the server last loaded or set a setting, as far as it shows that.
        epoch: of the crash canary, if its row can vanish and be looked at; else None.
        """
        raise NotImplementedError

    def mark_data(self) -> str:
        """Write a new mark into the data directory and return it.

        Return "" if the files of this server's data directory identify it.
        """
        return ""

    def require_point(self, kind: PointKind) -> None:
        """Raise an error, with the fix as hint, if no point of *kind* can be read here.

        UsageError: such a server has none; EngineError: this one, or this account.
        """
        raise self._refusal(Feature.POINT)

    def read_point(
        self, kind: PointKind, name: str, *, server: ServerFacts | None = None
    ) -> PointRead:
        """Read the point of the log that is now; raise EngineError.  See base.points.

        name: of a restore point, which is made.
        """
        raise self._refusal(Feature.POINT)

    def open_followers(self, *, server: ServerFacts | None = None) -> Followers:
        """Connect to list the nodes that follow this one.

        Here and below, down to open_detaching(): the server can be a node of a cluster,
        one node of which takes the writes.
        """
        raise NotImplementedError

    def membership(self) -> Membership | None:
        """Return this node's name at the node that it follows, None without one."""
        raise NotImplementedError

    def received(self) -> Received:
        """Return the positions of the writer's log that it received and applied."""
        raise NotImplementedError

    def promote(self) -> None:
        """Ask this node to take over from the writer, and do not wait for that.

        Raise EngineError, with the GRANT as hint if one helps.
        """
        raise NotImplementedError

    def accepts(self) -> bool:
        """Return True if anything accepts connections at the server's address.

        Also a server that starts, or refuses us; never raises.
        """
        raise NotImplementedError

    def takes_writes(self) -> bool:
        """Return True if this node follows no other and takes writes; never raises."""
        raise NotImplementedError

    def descent(self) -> Descent:
        """Return the log that this node continues, once it was promoted."""
        raise NotImplementedError

    def transactions(self) -> str:
        """Return the transactions that this node has, for follow(); "" if unneeded."""
        raise NotImplementedError

    def follow(self, source: SourceLogin, transactions: str) -> None:
        """Have this node follow *source*, which has *transactions*, with its own data.

        Raise EngineError, with what to do, if it has others, cannot, or does not.
        """
        raise NotImplementedError

    def lead(
        self, settings: Mapping[str, str], renamed: Mapping[str, str], slots: list[str]
    ) -> None:
        """Have this node, which took over, wait for its standbys as the writer did.

        settings: the writer's, from before the cut.  renamed: names of standbys ->
        names to await in their place.  slots: of the standbys.  Raise EngineError.
        """
        raise NotImplementedError

    def clone(self, source: SourceLogin) -> None:
        """Replace its data by *source*'s; return once it runs; raise EngineError."""
        raise NotImplementedError

    def describe_unreplicated(self) -> str:
        """Return the sentence on how a control keeps commits from the other nodes.

        Raise EngineError.
        """
        raise NotImplementedError

    def open_detaching(
        self, names: Collection[str], *, server: ServerFacts | None = None
    ) -> Detaching | None:
        """Connect to end the connections of the followers *names* for a control.

        names: as Membership has them.  None if sessions alone keep their commits from
        the followers.
        """
        raise NotImplementedError

    def count_rows(self, table: TableSpec) -> Mapping[int, int]:
        """Return the number of rows of each epoch, also of a node that follows."""
        raise NotImplementedError

    def require_alone(self) -> None:
        """Raise EngineError if other servers would give this one back what it lost."""
        return

    def require_may_bootstrap(self) -> None:
        """Raise EngineError, with the GRANT, if this account may not do what follows.

        Here and below: a group that does not form by itself once all nodes were cut.
        """
        raise NotImplementedError

    def detached(self) -> Detached:
        """Return the server's identity and transactions.

        Raise EngineError if it is in a group, or tries to join one.
        """
        raise NotImplementedError

    def require_all_of(self, others: Mapping[str, str]) -> None:
        """Raise EngineError if another node has transactions that this one lacks.

        others: by the names of the other nodes, the transactions that they have.
        """
        raise NotImplementedError

    def bootstrap_group(self) -> None:
        """Have the server form its group again, as the only member so far.

        Raise EngineError, with what to do, and StillBootstraps if end_bootstrap() is
        due.
        """
        raise NotImplementedError

    def end_bootstrap(self) -> None:
        """Have the server form no group at its next start; raise StillBootstraps."""
        raise NotImplementedError

    def join_group(self) -> None:
        """Have the server join the group that another node formed, if it has not.

        Raise EngineError, with what to do if that helps.
        """
        raise NotImplementedError
