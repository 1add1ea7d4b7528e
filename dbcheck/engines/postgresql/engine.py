"""PostgreSQL, through psycopg2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy.exc

from dbcheck.core.bystanders import Bystanders
from dbcheck.core.history import Row
from dbcheck.core.places import Place
from dbcheck.core.server import LogPosition, ServerFacts
from dbcheck.core.survivors import RowBatch
from dbcheck.engines.link import SCAN_S
from dbcheck.engines.postgresql.check import (
    require_privileges,
    require_server,
    require_table,
)
from dbcheck.engines.postgresql.link import FAMILY, PostgresqlLink
from dbcheck.engines.postgresql.options import libpq_options
from dbcheck.engines.postgresql.places import places
from dbcheck.engines.postgresql.session import RELAXED, PostgresqlSession
from dbcheck.engines.server_log import postgresql_log
from dbcheck.engines.tables import NAMES, SHAPES, row_of, table_facts
from dbcheck.engines.url import read_url
from dbcheck.errors import EngineError, TableLost, TableRefused, UsageError
from dbcheck.ports.engine import Shape, TableFacts

CONNECT_S = 10.0
READY_CONNECT_S, READY_ANSWER_S = 3.0, 2.0
CHECKPOINT_S = 600.0

# All that decides whether, and how fast, a commit is on the drive.
SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "wal_level",
    "synchronous_standby_names",
    "data_checksums",
    "data_sync_retry",
    "commit_delay",
    "commit_siblings",
    "wal_writer_delay",
    "wal_compression",
    "wal_recycle",
    "checkpoint_timeout",
    "max_wal_size",
    "zero_damaged_pages",
    "ignore_checksum_failure",
    "ignore_invalid_pages",
    "debug_io_direct",
    "io_method",
)

_DROPS = {"dbcheck.canary": "canary"} | {
    f"dbcheck.{name}": shape.value for name, shape in SHAPES.items()
}


class PostgresqlEngine:
    """One PostgreSQL server; see ports.engine.Engine for what each call promises.

    The tables are dbcheck.ledger and dbcheck.fs in the URL's database.
    """

    family = FAMILY
    checkpoints = True

    def __init__(self, url: str, password: str | None = None) -> None:
        parsed = read_url(url).set(drivername="postgresql+psycopg2")
        self.target = parsed.render_as_string()
        try:
            _, arguments = parsed.get_dialect()().create_connect_args(parsed)
        except sqlalchemy.exc.ArgumentError as error:
            raise UsageError(
                f"an option of the target's URL cannot be used: {error}",
                hint="Give each host its port: ?host=db1,db2&port=5432,5432.",
            ) from None
        self._arguments: dict[str, Any] = {"application_name": "dbcheck", **arguments}
        if password is not None:
            self._arguments["password"] = password

    def facts(self) -> ServerFacts:
        """Read the server's facts; raise EngineError if it cannot be reached."""
        unreadable: dict[str, str] = {}
        with self._open() as link:
            version, version_num, started_us, database, clock_us = link.row("facts")
            seen = dict(link.rows("settings"))
            identity = {"server_version_num": version_num, "database": database}
            try:
                found = link.row("system_identifier")
                identity["system_identifier"], identity["timeline"] = found
            except EngineError as error:
                unreadable["system_identifier"] = str(error)
            log = None
            with contextlib.suppress(EngineError):  # functions may be revoked
                log = LogPosition(*link.row("log_position"))
        if "data_directory" in seen:
            identity["data_directory"] = seen["data_directory"]
        else:
            unreadable["data_directory"] = "the role pg_read_all_settings is needed"
        return ServerFacts(
            product="PostgreSQL",
            version=version.split()[0],
            identity=identity,
            started_us=started_us,
            started_error_us=1,
            clock_us=clock_us,
            settings={name: seen[name] for name in SETTINGS if name in seen},
            unreadable=unreadable,
            log=log,
            server_log=postgresql_log(seen),
        )

    def check(self, shape: Shape, *, relaxed: bool = False) -> None:
        """Raise EngineError (with the mend as hint) if this server is not fit."""
        with self._open() as link:
            require_server(link)
            require_table(link, shape)
            require_privileges(link, shape)

    def places(self, shape: Shape) -> tuple[Place, ...]:
        """Return the directories that an ack depends on."""
        with self._open() as link:
            data = dict(link.rows("settings")).get("data_directory", "")
            rows = link.rows("places", {"name": NAMES[shape]})
        return places(data, {what: (space, file) for what, space, file in rows})

    def mark_data(self) -> str:
        """Return "": global/pg_control names the data."""
        return ""

    def bystanders(self) -> Bystanders:
        """Return who else uses this server; every account may see that."""
        with self._open() as link:
            databases = tuple(what for (what,) in link.rows("others"))
            (connections,) = link.row("connections")
        return Bystanders(databases, connections)

    def prepare(self, shape: Shape, *, server: ServerFacts | None = None) -> TableFacts:
        """Create the table if it is not there, and say what it holds."""
        with self._open(server=server) as link:
            if not require_table(link, shape):
                with link.transaction():  # no table without its mark
                    if not link.row("schema")[3]:
                        link.rows("create_schema")
                    link.rows(f"create_{shape.value}")
                    link.rows(f"mark_{shape.value}")
                if not require_table(link, shape):
                    raise EngineError(f"dbcheck.{NAMES[shape]} was not created")
            identity = _identity(link, shape)
            epochs = link.rows(f"epochs_{shape.value}", answer_s=SCAN_S)
        return table_facts(epochs, identity)

    def table_identity(self, shape: Shape, *, server: ServerFacts | None = None) -> str:
        """Return OID and file node of the table; every account may see them."""
        with self._open(server=server) as link:
            return _identity(link, shape)

    def relax(self, *, process: bool) -> str:
        """Change nothing, for each session relaxes itself; return in words how."""
        with self._open() as link:
            (value,) = link.row("relaxed")
        if value == RELAXED:
            return f"synchronous_commit is {value} for this account already"
        return f"synchronous_commit = {RELAXED} (else {value}) in its own sessions"

    def tighten(self) -> str | None:
        """Return None: a setting of a session ends with it."""
        return None

    def open_session(
        self, shape: Shape, *, relaxed: bool = False, server: ServerFacts | None = None
    ) -> PostgresqlSession:
        """Connect for the load; raise EngineError if that is refused."""
        options = libpq_options(self.target, self._arguments)
        return PostgresqlSession(
            self.target, options, shape, relaxed=relaxed, server=server
        )

    def row(self, shape: Shape, row_id: int) -> Row | None:
        """Return the row with that id, read over a new connection; None if none is."""
        with self._open() as link:
            found = link.rows(f"row_{shape.value}", {"id": row_id})
        return row_of(found[0]) if found else None

    def checkpoint(self) -> str | None:
        """Ask for a checkpoint; return None, or why there was none."""
        try:
            with self._open() as link:
                link.rows("checkpoint", answer_s=CHECKPOINT_S)
        except EngineError as error:
            return str(error)
        return None

    def plant_canary(self, epoch: int, *, server: ServerFacts | None = None) -> None:
        """Leave a row in an unlogged table; recovery from a crash removes it.

        Rows of other cycles stay: taking one away would show a crash that was none.
        """
        with self._open(server=server) as link, link.transaction():
            link.rows("create_canary")
            link.rows("mark_canary")
            link.rows("plant_canary", {"epoch": epoch})

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return whether that row is still there, None if its table is not."""
        try:
            with self._open(server=server) as link:
                return bool(link.rows("canary", {"epoch": epoch}))
        except (TableLost, TableRefused):
            return None

    def names_in_log(self, shape: Shape) -> tuple[str, ...]:
        """Return nothing: it names files, whose numbers change."""
        return ()

    def logged(self, since_us: int, *, server: ServerFacts | None = None) -> str | None:
        """Return None: no statement shows the log to an ordinary account."""
        return None

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None, or why the server takes no queries."""
        try:
            with self._open(READY_CONNECT_S) as link:
                ((_, _, standby, _),) = link.rows("server", answer_s=READY_ANSWER_S)
        except (EngineError, OSError) as error:
            return str(error)
        return "the server is in recovery" if standby else None

    def survivors(
        self, shape: Shape, *, server: ServerFacts | None = None
    ) -> Iterator[RowBatch]:
        """Stream every row of the table in one read-only transaction, in batches."""
        with self._open() as link:
            yield from link.stream(shape.value, server)

    def drop(self) -> list[str]:
        """Drop what dbcheck created here; return the names."""
        with self._open() as link:
            names = [name for (name,) in link.rows("present")]
            for name in names:
                link.rows(f"drop_{_DROPS[name]}")
            if link.rows("empty_schema"):
                link.rows("drop_schema")
                names.append("dbcheck")
        return names

    def _open(
        self, connect_s: float = CONNECT_S, *, server: ServerFacts | None = None
    ) -> PostgresqlLink:
        options = libpq_options(self.target, self._arguments)
        link = PostgresqlLink(self.target, options, connect_s)
        return link.leading_to(server)


def _identity(link: PostgresqlLink, shape: Shape) -> str:
    found = link.rows("table_identity", {"name": NAMES[shape]})
    return found[0][0] or "" if found else ""
