"""PostgreSQL, through psycopg2."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dbcheck.audit.rules import list_facts_of_family
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, OtherProduct, TableLost, TableRefused
from dbcheck.engines.link import (
    LOCK_S,
    SCAN_S,
    Newest,
    explain_not_ready,
    locked_table_error,
    not_permitted_error,
)
from dbcheck.engines.peer import accepts, pick_log_settings
from dbcheck.engines.postgresql import amcheck, replication, twophase
from dbcheck.engines.postgresql.audited import Look, read_other_settings
from dbcheck.engines.postgresql.check import (
    explain_hidden_directory,
    find_impossible_tasks,
    parse_definition,
    require_rights,
    require_server,
    require_table,
)
from dbcheck.engines.postgresql.fill import fill
from dbcheck.engines.postgresql.libpq import (
    endpoints,
    expand_files,
    host_names,
    libpq_options,
    require_readable,
    url_arguments,
)
from dbcheck.engines.postgresql.link import (
    FAMILY,
    NOT_PERMITTED,
    PostgresqlLink,
    error_code,
)
from dbcheck.engines.postgresql.own_tables import (
    describe_blockers,
    drop_tables,
    find_own_tables,
    read_table_id,
)
from dbcheck.engines.postgresql.places import places, postgresql_log
from dbcheck.engines.postgresql.points import WithPoints
from dbcheck.engines.postgresql.product import require_own_storage, require_postgresql
from dbcheck.engines.postgresql.replication import (
    find_subscriptions,
    require_no_subscription,
)
from dbcheck.engines.postgresql.session import WEAK, PostgresqlSession
from dbcheck.engines.tables import parse_row, parse_table_facts
from dbcheck.engines.url import name_driver, read_url
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import OtherUsers
from dbcheck.model.managed import (
    OWN_DATABASES,
    SERVICE,
    find_service_of_hosts,
    find_service_of_postgresql,
)
from dbcheck.model.places import Place, number_places
from dbcheck.model.replication import Descent, Membership, Received, SourceLogin
from dbcheck.model.server import LogPosition, Refill, ServerFacts, TableCheck
from dbcheck.rows.acks import Row
from dbcheck.rows.fill import Fill
from dbcheck.rows.loss import Broken, ConditionCheck
from dbcheck.rows.operation import StatementSpec, Usage, list_verbs_by_table
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import Definition, TableFacts, TableSpec
from dbcheck.rows.tasks import TaskKind
from dbcheck.server_log import Product

CONNECT_S = 10.0
READY_CONNECT_S, READY_ANSWER_S = 3.0, 2.0
CHECKPOINT_S = 600.0
# SQLSTATE (PostgreSQL 17, appendix A).
_LOCK_NOT_AVAILABLE = "55P03"

# All that decides whether, and how fast, a commit is on the drive: what the audit's
# rules judge comes first.
SETTINGS = (
    *list_facts_of_family(FAMILY),
    "commit_delay",
    "commit_siblings",
    "wal_writer_delay",
    "wal_compression",
    "checkpoint_timeout",
    "max_wal_size",
    "debug_io_direct",
    "io_method",
)


class PostgresqlEngine(WithPoints):
    """One PostgreSQL server; contracts in ports.engine.

    The tables are those of the schema dbcheck in the URL's database.
    """

    family, schema = FAMILY, "dbcheck"

    def __init__(self, url: str, password: str | None = None) -> None:
        parsed = name_driver(read_url(url))
        self.target = parsed.render_as_string()
        arguments = expand_files(url_arguments(parsed))
        self._arguments: dict[str, Any] = {"application_name": "dbcheck", **arguments}
        if password is not None:
            self._arguments["password"] = password

    def endpoints(self) -> list[tuple[str, int]]:
        """Return the hosts and ports that libpq may connect to; see ports.engine."""
        require_readable(self.target, self._arguments)
        return endpoints(self.target, self._arguments)

    def facts(self) -> ServerFacts:
        unreadable: dict[str, str] = {}
        with self._open() as link:
            row = link.row("facts")
            version, version_num, started_us, database, clock_us, platform, standby = (
                row
            )
            require_postgresql(self.target, platform)
            seen = dict(link.rows("settings"))
            require_own_storage(self.target, seen)
            service = find_service_of_hosts(
                self._hosts()
            ) or find_service_of_postgresql(seen)
            identity = {"server_version_num": version_num, "database": database}
            try:
                identity |= _read_cluster_id(link, service)
            except EngineError as error:
                unreadable["system_identifier"] = str(error)
            log = None
            with contextlib.suppress(EngineError):  # functions may be revoked
                log = LogPosition(*link.row("log_position"))
            if service:
                pass  # another host has one of the same name
            elif "data_directory" in seen:
                identity["data_directory"] = seen["data_directory"]
            else:
                unreadable["data_directory"] = explain_hidden_directory(link)
        return ServerFacts(
            product=Product.POSTGRESQL,
            version=version.split()[0],
            identity=identity,
            started_us=started_us,
            started_error_us=1,
            clock_us=clock_us,
            settings={
                **{name: seen[name] for name in SETTINGS if name in seen},
                **({SERVICE: service} if service else {}),
            },
            unreadable=unreadable,
            log=log,
            server_log=postgresql_log(seen),
            log_names=pick_log_settings(seen),
            platform=platform,
            is_standby=standby,
        )

    def require_rights(
        self,
        usage: Usage,
        *,
        control: Weakens | None = None,
        asks_host: bool = False,
    ) -> None:
        with self._open() as link:
            require_rights(link, usage, self.target, control, asks_host=asks_host)

    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        """Raise EngineError (with the fix as hint) if this server is not fit."""
        with self._open() as link:
            require_server(link, self.target)
            for table in list_verbs_by_table(statements):
                require_table(link, table)
            require_no_subscription(link, [*list_verbs_by_table(statements)])

    def places(self, tables: Sequence[TableSpec]) -> tuple[Place, ...]:
        """Return the directories that an ack depends on."""
        found: list[Place] = []
        with self._open() as link:
            data = dict(link.rows("settings")).get("data_directory", "")
            for table in tables:
                rows = link.rows("places", {"name": table.name})
                lying = {what: (space, file) for what, space, file in rows}
                found += places(data, lying)
        return number_places(found)

    def other_users(self) -> OtherUsers:
        """Return the other users of this server; every account may see them."""
        with self._open() as link:
            others = [what for (what,) in link.rows("others")]
            (connections,) = link.row("connections")
        databases = tuple(what for what in others if what not in OWN_DATABASES)
        return OtherUsers(databases, connections)

    def other_settings(self) -> tuple[ScopedSettings, ...]:
        """Return the settings of accounts and databases; every account may see them."""
        with self._open() as link:
            return read_other_settings(link)

    def open_look(
        self,
        settings: Collection[str],
        epoch: int | None,
        tables: Sequence[TableSpec] = (),
        *,
        server: ServerFacts | None = None,
    ) -> Look:
        return Look(self._open(server=server), settings, epoch, tables)

    def prepare(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> dict[str, TableFacts]:
        with self._open(server=server) as link:
            prepared = {table.name: self._prepared(link, table) for table in tables}
            amcheck.create(link)
        return prepared

    def _prepared(self, link: PostgresqlLink, table: TableSpec) -> TableFacts:
        """Create the table if it is not there, and return what it holds."""
        if not require_table(link, table):
            with link.transaction():  # no table without its mark
                if not link.row("schema")[3]:
                    link.rows("create_schema")
                link.rows(f"create_{table.name}")
                link.rows(f"mark_{table.name}")
            if not require_table(link, table):
                raise EngineError(
                    f"dbcheck.{table.name} was not created",
                    id=ErrorId.TABLE_NOT_CREATED,
                    hint="Connect to the server directly, without a proxy.",
                )
        identity = read_table_id(link, table)
        definition = self._definition(link, table)
        epochs = link.rows(f"epochs_{table.name}", answer_s=SCAN_S)
        return parse_table_facts(epochs, identity, definition)

    def open_session(
        self,
        statements: Sequence[StatementSpec],
        *,
        server: ServerFacts | None = None,
    ) -> PostgresqlSession:
        """Connect for the load; raise EngineError if that is refused."""
        return self._open_session(statements, server, None)

    def open_client(
        self, statement: StatementSpec, connect_s: float
    ) -> PostgresqlSession:
        return PostgresqlSession(
            self.target,
            self._options(),
            [statement],
            as_client=True,
            connect_s=connect_s,
        )

    def _open_session(
        self,
        statements: Sequence[StatementSpec],
        server: ServerFacts | None,
        weakens: Weakens | None,
    ) -> PostgresqlSession:
        return PostgresqlSession(
            *(self.target, self._options(), statements),
            weakens=weakens,
            server=server,
        )

    def open_newest(
        self, table: TableSpec, epoch: int, *, server: ServerFacts | None = None
    ) -> Newest:
        """Connect to read the newest rows of *epoch*."""
        return Newest(self._open(server=server), table, epoch)

    def row(self, table: TableSpec, row_id: int) -> Row | None:
        """Return the row with that id, read over a new connection; None if none is."""
        with self._open() as link:
            found = link.rows(f"row_{table.name}", {"id": row_id})
        return parse_row(found[0]) if found else None

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None, or why the server takes no queries."""
        try:
            with self._open(READY_CONNECT_S) as link:
                ((_, _, standby, _),) = link.rows("server", answer_s=READY_ANSWER_S)
        except OtherProduct:
            raise
        except (EngineError, OSError) as error:
            return explain_not_ready(error)
        return "the server is in recovery" if standby else None

    def survivors(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Stream every row of the tables in one read-only transaction, in batches."""
        with self._open() as link, self._reading(link):
            yield from link.stream(tables, server)

    def table_identity(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> str:
        """Return OID and file node of the table; every account may see them."""
        with self._open(server=server) as link:
            return read_table_id(link, table)

    def table_definition(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> Definition:
        """Return the definition in the catalogs; every account may see them."""
        with self._open(server=server) as link:
            return self._definition(link, table)

    def deleted(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> int | None:
        """Return the count since the last crash recovery, which resets it."""
        with self._open(server=server) as link:
            found = link.rows("deleted", {"name": table.name})
        return int(found[0][0]) if found else None

    def refill(
        self,
        tables: Sequence[TableSpec],
        since_us: int,
        *,
        server: ServerFacts | None = None,
    ) -> Refill | None:
        """Return the subscriptions that write into the tables.

        A standby is asked for otherwise (answering.sql), and one that was promoted is
        on another timeline.
        """
        del since_us
        with self._open(server=server) as link:
            return find_subscriptions(link, tables)

    def weaken_durability(self, *, process: bool) -> str:
        """Change nothing: each weak session sets its own; return a description."""
        with self._open() as link:
            (value,) = link.row("commit_setting")
        weak = WEAK[Weakens.FLUSH]
        if value == weak:
            return f"synchronous_commit is {value} for this account already"
        return f"synchronous_commit = {weak} (else {value}) in its own sessions"

    def open_weak_session(
        self,
        statements: Sequence[StatementSpec],
        weakens: Weakens,
        *,
        server: ServerFacts | None = None,
    ) -> PostgresqlSession:
        """Connect for a control, with another synchronous_commit in that session."""
        return self._open_session(statements, server, weakens)

    def fill(
        self, table: TableSpec, rows: Fill, *, server: ServerFacts | None = None
    ) -> Iterator[int]:
        """Insert *rows* by COPY."""
        with self._open(server=server) as link:
            yield from fill(link, table, rows)

    def checkpoint(self) -> str:
        """Ask for a checkpoint; return "", or why there was none."""
        try:
            with self._open() as link:
                link.rows("checkpoint", answer_s=CHECKPOINT_S)
        except EngineError as error:
            return str(error)
        return ""

    def plant_canary(
        self, epoch: int, *, server: ServerFacts | None = None, local: bool = False
    ) -> None:
        """Leave a row in an unlogged table; recovery from a crash removes it.

        No unlogged table is replicated (PostgreSQL 18 manual, CREATE TABLE).  Rows of
        other cycles stay: taking one away would show a crash that was none.
        """
        with self._open(server=server) as link, link.transaction():
            link.rows("create_canary")
            link.rows("mark_canary")
            link.rows("plant_canary", {"epoch": epoch})

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return True if that row is still there, None if its table is not."""
        try:
            with self._open(server=server) as link, self._reading(link):
                return bool(link.rows("canary", {"epoch": epoch}))
        except (TableLost, TableRefused):
            return None

    @contextlib.contextmanager
    def _reading(self, link: PostgresqlLink) -> Iterator[None]:
        link.fix({"lock_timeout": f"{LOCK_S}s"})
        try:
            yield
        except EngineError as error:
            state = error_code(error)
            if state == _LOCK_NOT_AVAILABLE:
                raise locked_table_error(error, self._blockers()) from error
            if state == NOT_PERMITTED and not isinstance(error, TableRefused):
                raise not_permitted_error(error) from error
            raise

    def _blockers(self) -> str:
        with contextlib.suppress(EngineError), self._open() as link:
            return describe_blockers(link)
        return ""

    def broken_conditions(
        self, statement: str, epoch: int, *, server: ServerFacts | None = None
    ) -> ConditionCheck:
        with self._open(server=server) as link:
            rows = link.rows(statement, {"epoch": epoch}, answer_s=SCAN_S)
        return ConditionCheck(tuple(Broken(*map(int, row)) for row in rows))

    def check_tables(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> TableCheck:
        """Run amcheck's functions, where the account may."""
        with self._open(server=server) as link:
            return amcheck.check(link, tables)

    def lacking(self, kinds: Sequence[TaskKind]) -> dict[TaskKind, str]:
        with self._open() as link:
            return find_impossible_tasks(link, kinds)

    def present(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> tuple[TableSpec, ...]:
        with self._open(server=server) as link:
            return find_own_tables(link, tables)

    def discard(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> None:
        with self._open(server=server) as link:
            for table in find_own_tables(link, tables):
                link.rows(f"drop_{table.name}")

    def require_two_phase(self, transactions: int, *, weak: bool) -> None:
        if weak:
            twophase.refuse_control()
        with self._open() as link:
            twophase.require_free_slots(link, transactions)

    def prepared(self, *, server: ServerFacts | None = None) -> tuple[str, ...]:
        with self._open(server=server) as link:
            return twophase.list_prepared(link)

    def decide(
        self, name: str, *, commit: bool, server: ServerFacts | None = None
    ) -> None:
        with self._open(server=server) as link:
            twophase.decide(link, name, commit=commit)

    def open_followers(
        self, *, server: ServerFacts | None = None
    ) -> replication.Followers:
        return replication.Followers(self._open(server=server))

    def membership(self) -> Membership | None:
        with self._open() as link:
            return replication.membership(link)

    def received(self) -> Received:
        with self._open(READY_CONNECT_S) as link:
            return replication.received(link)

    def describe_unreplicated(self) -> str:
        return replication.UNREPLICATED

    def open_detaching(
        self, names: Collection[str], *, server: ServerFacts | None = None
    ) -> replication.Detaching:
        return replication.Detaching(self._open(server=server), names)

    def promote(self) -> None:
        """Ask for it by pg_promote()."""
        with self._open() as link:
            replication.promote(link)

    def accepts(self) -> bool:
        return accepts(self.endpoints)

    def takes_writes(self) -> bool:
        with contextlib.suppress(OtherProduct):
            return self.ready() is None  # a standby is in recovery
        return False

    def descent(self) -> Descent:
        with self._open() as link:
            return replication.descent(link)

    def transactions(self) -> str:
        """Return "": a standby that is ahead of its source does not follow it."""
        return ""

    def follow(self, source: SourceLogin, transactions: str) -> None:
        with self._open() as link:
            replication.follow(link, source)

    def lead(
        self, settings: Mapping[str, str], renamed: Mapping[str, str], slots: list[str]
    ) -> None:
        with self._open() as link:
            replication.lead(link, settings, renamed, slots)

    def drop(self) -> list[str]:
        with self._open() as link:
            twophase.roll_back_all(link)
            return drop_tables(link)

    def _definition(self, link: PostgresqlLink, table: TableSpec) -> Definition:
        return parse_definition(link.rows, table)

    def _hosts(self) -> list[str]:
        """Return the names of the server's hosts."""
        require_readable(self.target, self._arguments)
        return host_names(self.target, self._arguments)

    def _options(self) -> dict[str, Any]:
        """Return libpq's arguments; raise EngineError if it must not connect."""
        require_readable(self.target, self._arguments)
        return libpq_options(self.target, self._arguments)

    def _open(
        self, connect_s: float = CONNECT_S, *, server: ServerFacts | None = None
    ) -> PostgresqlLink:
        link = PostgresqlLink(self.target, self._options(), connect_s)
        return link.require_or_close(server)


def _read_cluster_id(link: PostgresqlLink, service: str) -> dict[str, str]:
    """Return the system identifier of the cluster; raise EngineError.

    service: the managed service that it is of.  Its failover may begin a new timeline,
    and its servers may have no functions that show one.
    """
    if service:
        (identifier,) = link.row("cluster")
        return {"system_identifier": identifier}
    identifier, timeline = link.row("system_identifier")
    return {"system_identifier": identifier, "timeline": timeline}
