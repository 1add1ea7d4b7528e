"""MySQL and MariaDB, through mysql-connector-python."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dbcheck.audit.mysql import INNODB
from dbcheck.audit.mysql import TABLES as TABLES_IN
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.link import LOCK_S, SCAN_S, Newest, explain_not_ready
from dbcheck.engines.mysql import canary as mysql_canary
from dbcheck.engines.mysql import facts as mysql_facts
from dbcheck.engines.mysql import galera, session
from dbcheck.engines.mysql.account import (
    explain_hidden_databases,
    find_impossible_tasks,
    require_rights,
)
from dbcheck.engines.mysql.answering import read_uptime
from dbcheck.engines.mysql.canary import HeldRow
from dbcheck.engines.mysql.check import (
    foreign_object_parameters,
    parse_definition,
    parse_product,
    read_product,
    require_known,
    require_packet,
    require_redo_log,
    require_server,
    require_table,
)
from dbcheck.engines.mysql.connection import require_supported
from dbcheck.engines.mysql.durability import (
    check_weakening,
    has_change_table,
    require_weak,
    restore,
    weaken,
)
from dbcheck.engines.mysql.facts import SETTINGS, Look, find_non_durable_engines
from dbcheck.engines.mysql.fill import fill
from dbcheck.engines.mysql.index import check_tables
from dbcheck.engines.mysql.link import FAMILY, MysqlLink, explain_withheld_rows
from dbcheck.engines.mysql.optionfile import Client
from dbcheck.engines.mysql.options import (
    client_options,
    endpoints,
    url_options,
    uses_tls,
)
from dbcheck.engines.mysql.places import (
    OPTION,
    choose_storage_engine,
    innodb_log,
    name_database_folder,
    places,
)
from dbcheck.engines.mysql.replicating import (
    CONNECT_S,
    READY_S,
    Replicating,
    group_identity,
    leave_replication,
)
from dbcheck.engines.mysql.session import MysqlSession
from dbcheck.engines.peer import pick_log_settings
from dbcheck.engines.tables import parse_row, parse_table_facts
from dbcheck.engines.url import DATABASE, name_driver, read_url
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import OtherUsers
from dbcheck.model.managed import SERVICE, find_service_of_hosts, find_service_of_mysql
from dbcheck.model.places import Place, number_places
from dbcheck.model.server import ServerFacts, TableCheck
from dbcheck.rows.acks import Row
from dbcheck.rows.fill import Fill
from dbcheck.rows.loss import Broken, ConditionCheck
from dbcheck.rows.operation import StatementSpec, Usage, list_verbs_by_table
from dbcheck.rows.prepared import Decisions
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import TABLES, Definition, TableFacts, TableSpec
from dbcheck.rows.tasks import TaskKind
from dbcheck.server_log import Product

LOG_LINES_MAX = 1000  # one less than logged.sql asks for
_SYSTEM = "mysql"  # which every server has, and only who may see all databases sees

# Arguments of the driver that are set here and never from the URL.
_DECIDED = (
    "database",
    "buffered",
    "use_pure",
    "autocommit",
    "connect_timeout",
    "connection_timeout",
    "charset",
    "collation",
    "allow_local_infile",
    "allow_local_infile_in_path",
    OPTION,  # dbcheck's own
)

# The tables that are dropped, but for the canary.
_DROPS = (
    mysql_facts.TABLE,
    mysql_facts.MARKER,
    *(table.name for table in TABLES),
)

# A start is a whole second, the same as long as the process lives (see uptime);
# another process's differs by a second at least if it started a second later.
START_ERROR_US = 250_000


class MysqlEngine(Replicating):
    """One MySQL or MariaDB server; contracts in ports.engine.

    The tables are those of the plans, canary, on MariaDB identity and marker, and
    "relaxed" while a control runs, in the URL's database, by default "dbcheck".
    """

    family = FAMILY

    def __init__(self, url: str, password: str | None = None) -> None:
        require_supported()
        parsed = read_url(url)
        client = Client.of(parsed.drivername)
        parsed = name_driver(parsed)
        self.target = parsed.render_as_string()
        self._database: str = parsed.database or DATABASE
        arguments = url_options(parsed, client)
        self._storage = choose_storage_engine(arguments)
        for name in _DECIDED:
            arguments.pop(name, None)
        has_password = password is not None or "password" in arguments
        options = client_options(
            client, has_password=has_password, with_tls=uses_tls(arguments)
        )
        self._arguments: dict[str, Any] = {**options, **arguments}
        self._arguments["conn_attrs"] = {"program_name": "dbcheck"}
        if password is not None:
            self._arguments["password"] = password

    def _service(self, variables: Mapping[str, str], version: str, comment: str) -> str:
        by_host = find_service_of_hosts(host for host, _ in self.endpoints())
        return by_host or find_service_of_mysql(variables, version, comment)

    def endpoints(self) -> list[tuple[str, int]]:
        return endpoints(self._arguments)

    def facts(self) -> ServerFacts:
        with self._open(None) as link:
            version, comment, _ = link.row("server")
            name, _ = parse_product(version, comment)
            variables = dict(link.rows("variables"))
            require_known(variables)
            service = self._service(variables, version, comment)
            variables |= {SERVICE: service} if service else {}
            if self._storage.name != INNODB:
                variables[TABLES_IN] = self._storage.name
            (variables["default_storage_engine"],) = link.row("default_engine")
            variables |= galera.parse_quorum_options(variables)
            grouped = group_identity(link, variables)
            status, second, clock_us = read_uptime(link)
        lower = {name.lower(): value for name, value in {**variables, **status}.items()}
        return ServerFacts(
            product=name,
            version=version.split("-")[0],
            identity={
                "database": self._database,
                **grouped,
                **mysql_facts.identity(
                    name,
                    variables,
                    partial(self._open, self._database),
                    managed=bool(service),
                ),
            },
            started_us=(second - int(lower["uptime"])) * 1_000_000,
            started_error_us=START_ERROR_US,
            clock_us=clock_us,
            settings={key: lower[key] for key in SETTINGS if key in lower},
            log=self._storage.log_position(lower),
            server_log=innodb_log(variables),
            log_names=pick_log_settings(variables),
            hostname=variables.get("hostname", ""),
        )

    def require_rights(
        self,
        usage: Usage,
        *,
        control: Weakens | None = None,
        asks_host: bool = False,
    ) -> None:
        with self._open(None) as link:
            require_rights(link, usage, self._database, control)

    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        """Raise EngineError (with the fix as hint) if this server is not fit."""
        with self._open(None) as link:
            variables = dict(link.rows("variables"))
            require_server(link, variables)
            require_packet(variables, payload_bytes)
            require_redo_log(link)
            for table in list_verbs_by_table(statements):
                require_table(link, table, self._database)

    def places(self, tables: Sequence[TableSpec]) -> tuple[Place, ...]:
        """Return the directories that an ack depends on."""
        statements, undo_files = [""], None
        with self._open(None) as link:
            variables = dict(link.rows("variables"))
            known = bool(link.rows("database", {"database": self._database}))
            present = [
                table
                for table in tables
                if known and require_table(link, table, self._database)
            ]
            with contextlib.suppress(EngineError):  # not for this account
                undo_files = [file for (file,) in link.rows("undo_files")]
        if present:
            with self._open(self._database) as link:
                created = [
                    link.row(f"create_statement_{table.name}") for table in present
                ]
                statements = [statement for _, statement, *_ in created]
        lower = {name.lower(): value for name, value in variables.items()}
        database = self._database if known else ""
        return number_places(
            place
            for statement in statements
            for place in places(
                {**lower, TABLES_IN: self._storage.name},
                database,
                statement=statement,
                undo_files=undo_files,
            )
        )

    def other_settings(self) -> tuple[ScopedSettings, ...]:
        """Return the storage engines without durable commits that have tables."""
        with self._open(None) as link:
            return find_non_durable_engines(link)

    def open_look(
        self,
        settings: Collection[str],
        epoch: int | None,
        tables: Sequence[TableSpec] = (),
        *,
        server: ServerFacts | None = None,
    ) -> Look:
        """Connect to look at them; the canary's row is held by a session (HeldRow)."""
        link = self._open(None, server=server)
        return Look(link, settings, tables, self._database)

    def mark_data(self) -> str:
        """Write a new mark into the data directory of MariaDB; "" on MySQL."""
        with self._open(None) as link:
            if read_product(link) is not Product.MARIADB:  # auto.cnf names the data
                return ""
            if not link.rows("database", {"database": self._database}):
                link.create_database(self._database)
        with self._open(self._database) as link:
            return mysql_facts.mark_data(link, self._database)

    def other_users(self) -> OtherUsers:
        with self._open(None) as link:
            seen = [w for (w,) in link.rows("others", {"database": self._database})]
            _, threads = link.row("connections")
            unreadable = {}
            if _SYSTEM not in seen:
                unreadable["databases"] = explain_hidden_databases(link)
        databases = tuple(name for name in seen if name != _SYSTEM)
        return OtherUsers(databases, int(threads) - 1, unreadable)

    def prepare(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> dict[str, TableFacts]:
        with self._open(None) as link:
            if not link.rows("database", {"database": self._database}):
                link.create_database(self._database)
        with self._open(self._database, server=server) as link:
            for table in tables:
                if not require_table(link, table, self._database):
                    link.rows(f"create_{table.name}")
                    if not require_table(link, table, self._database):
                        raise EngineError(
                            f"{self._database}.{table.name} was not created",
                            id=ErrorId.TABLE_NOT_CREATED,
                            hint="Connect to the server directly, without a proxy.",
                        )
            version, comment, _ = link.row("server")
            variables = dict(link.rows("variables"))
            managed = self._service(variables, version, comment)
            mysql_facts.name_data(
                link, read_product(link), self._database, managed=bool(managed)
            )
            return {table.name: self._facts_of(link, table) for table in tables}

    def count_rows(self, table: TableSpec) -> Mapping[int, int]:
        with self._open(self._database) as link:
            return self._facts_of(link, table).rows_by_epoch

    def _facts_of(self, link: MysqlLink, table: TableSpec) -> TableFacts:
        identity = self._identity(link, table)
        definition = self._definition(link, table)
        epochs = link.rows(f"epochs_{table.name}", answer_s=SCAN_S)
        return parse_table_facts(epochs, identity, definition)

    def table_identity(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> str:
        """Return the engine's number of the table, "" without the privilege PROCESS."""
        with self._open(None, server=server) as link:
            return self._identity(link, table)

    def table_definition(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> Definition:
        """Return the definition in information_schema, as this account may see it."""
        with self._open(None, server=server) as link:
            return self._definition(link, table)

    def deleted(
        self, table: TableSpec, *, server: ServerFacts | None = None
    ) -> int | None:
        """Return the count of performance_schema, None where it is off."""
        where = {"database": self._database, "name": table.name}
        with self._open(None, server=server) as link:
            found = link.rows("deleted", where)
        return int(found[0][0]) if found else None

    def names_in_log(self, tables: Sequence[TableSpec]) -> tuple[str, ...]:
        """Return the tables' own names, and their files' without the suffix."""
        database, folder = self._database, name_database_folder(self._database)
        return tuple(
            name
            for table in tables
            for name in (f"`{database}`.`{table.name}`", f"{folder}/{table.name}")
        )

    def check_weakening(self) -> None:
        """Raise EngineError if this account cannot weaken the whole server."""
        with self._open(None) as link:
            check_weakening(link, self._database)

    def weaken_durability(self, *, process: bool) -> str:
        """Change settings of the whole server; return a description of the change."""
        with self._open(self._database) as link:
            return weaken(link, self._database, process=process)

    def restore_durability(self) -> str | None:
        """Undo weaken_durability(); return a description, None if nothing."""
        with self._open(None) as link:
            if not has_change_table(link, self._database):
                return None
        with self._open(self._database) as link:
            return restore(link)

    def open_session(
        self,
        statements: Sequence[StatementSpec],
        *,
        server: ServerFacts | None = None,
    ) -> MysqlSession:
        """Connect for the load; raise EngineError if that is refused."""
        return self._open_session(statements, server, None)

    def open_weak_session(
        self,
        statements: Sequence[StatementSpec],
        weakens: Weakens,
        *,
        server: ServerFacts | None = None,
    ) -> MysqlSession:
        """Connect for a control; raise EngineError if the server is durable."""
        return self._open_session(statements, server, weakens)

    def _open_session(
        self,
        statements: Sequence[StatementSpec],
        server: ServerFacts | None,
        weakens: Weakens | None,
    ) -> MysqlSession:
        link = self._open(self._database, server=server)
        try:
            if weakens is Weakens.FLUSH:
                require_weak(link)
            elif weakens is Weakens.REPLICATION:
                leave_replication(link)
            settings = server.settings if server is not None else ()
            return MysqlSession(link, statements, self._database, settings)
        except BaseException as error:
            link.abandon(error)
            raise

    def open_newest(
        self, table: TableSpec, epoch: int, *, server: ServerFacts | None = None
    ) -> Newest:
        """Connect to read the newest rows of *epoch*."""
        return Newest(self._open(self._database, server=server), table, epoch)

    def fill(
        self, table: TableSpec, rows: Fill, *, server: ServerFacts | None = None
    ) -> Iterator[int]:
        """Insert *rows* by prepared statements of many rows each."""
        with self._open(self._database, server=server) as link:
            yield from fill(link, table, rows)

    def row(self, table: TableSpec, row_id: int) -> Row | None:
        """Return the row with that id, read over a new connection; None if none is."""
        with self._open(self._database) as link:
            found = link.rows(f"row_{table.name}", {"id": row_id})
        return parse_row(found[0]) if found else None

    def plant_canary(
        self, epoch: int, *, server: ServerFacts | None = None, local: bool = False
    ) -> HeldRow:
        """Leave a row that only the orderly end of its session commits."""
        connect = partial(self._open, self._database, server=server)
        return mysql_canary.plant(connect, self._database, epoch, local=local)

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return True if that row is there, None if its table is not."""
        connect = partial(self._open, self._database, server=server)
        return mysql_canary.is_there(connect, epoch)

    def logged(self, since_us: int, *, server: ServerFacts | None = None) -> str | None:
        """Read performance_schema.error_log, which MySQL has from 8.0.22 on."""
        with self._open(None, server=server) as link:
            try:
                lines = link.rows("logged", {"since_us": since_us})
            except EngineError:  # no such table, or not for this account
                return None
        if len(lines) > LOG_LINES_MAX:  # a shutdown may stand in the rest
            return None
        return "\n".join(line for (line,) in lines)

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None, or why the server takes no queries."""
        try:
            with self._open(None, READY_S) as link:
                link.rows("server", answer_s=READY_S)
        except (EngineError, OSError) as error:
            return explain_not_ready(error)
        return None

    def survivors(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Stream every row of the tables in one read-only transaction, in batches."""
        other = partial(self._open, None)
        with (
            explain_withheld_rows(other, self._database),
            self._open(self._database) as link,
        ):
            link.rows("read_patience", {"wait_s": LOCK_S})
            yield from link.stream(tables, server)

    def broken_conditions(
        self, statement: str, epoch: int, *, server: ServerFacts | None = None
    ) -> ConditionCheck:
        with self._open(self._database, server=server) as link:
            rows = link.rows(statement, {"epoch": epoch}, answer_s=SCAN_S)
        return ConditionCheck(tuple(Broken(*map(int, row)) for row in rows))

    def check_tables(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> TableCheck:
        """Run CHECK TABLE."""
        with self._open(self._database, server=server) as link:
            return check_tables(link, tables)

    def lacking(self, kinds: Sequence[TaskKind]) -> dict[TaskKind, str]:
        with self._open(None) as link:
            return find_impossible_tasks(link, self._database, kinds)

    def present(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> tuple[TableSpec, ...]:
        with self._open(None, server=server) as link:
            return self._present(link, tables)

    def discard(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> None:
        with self._open(self._database, server=server) as link:
            for table in self._present(link, tables):
                link.rows(f"drop_{table.name}")

    def _present(
        self, link: MysqlLink, tables: Sequence[TableSpec]
    ) -> tuple[TableSpec, ...]:
        """Return the tables that exist and are dbcheck's."""
        names = {n for (n,) in link.rows("present", {"database": self._database})}
        return tuple(table for table in tables if table.name in names)

    def require_two_phase(self, transactions: int, *, weak: bool) -> None:
        """Require that the account may list them; their number has no limit."""
        self.prepared()

    def prepared(self, *, server: ServerFacts | None = None) -> tuple[str, ...]:
        with self._open(None, server=server) as link:
            return session.list_prepared(link, self._database)

    def decide(
        self, name: str, *, commit: bool, server: ServerFacts | None = None
    ) -> None:
        with self._open(None, server=server) as link:
            session.decide(link, name, self._database, commit=commit)

    def decisions(self, *, server: ServerFacts | None = None) -> Decisions:
        with self._open(None, server=server) as link:
            return session.read_decisions(link)

    def drop(self) -> list[str]:
        """Drop what dbcheck created here; return the names.  The database stays."""
        self.restore_durability()
        with self._open(None) as link:
            session.roll_back_all(link, self._database)
            names = [n for (n,) in link.rows("present", {"database": self._database})]
        if names:
            with self._open(self._database) as link:
                # The canary first: it is locked while a run uses the others.
                if mysql_canary.TABLE in names:
                    mysql_canary.drop(link)
                for name in names:
                    if name in _DROPS:
                        link.rows(f"drop_{name}")
        return [f"{self._database}.{name}" for name in names]

    def _identity(self, link: MysqlLink, table: TableSpec) -> str:
        return mysql_facts.read_table_id(link, self._database, table.name)

    def _definition(self, link: MysqlLink, table: TableSpec) -> Definition:
        return parse_definition(
            link.rows, foreign_object_parameters(link, table, self._database)
        )

    def _open(
        self,
        database: str | None,
        connect_s: float = CONNECT_S,
        *,
        server: ServerFacts | None = None,
    ) -> MysqlLink:
        arguments: Mapping[str, Any] = self._arguments
        if database is not None:
            arguments = {**arguments, "database": database}
        link = MysqlLink(self.target, arguments, connect_s, self._storage)
        return link.require_or_close(server)
