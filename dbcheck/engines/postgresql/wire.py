"""What every product that speaks PostgreSQL's protocol can do, through psycopg2."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from dbcheck.core.history import Row
from dbcheck.core.managed import OWN_DATABASES
from dbcheck.core.operation import StatementSpec, verbs_by_table
from dbcheck.core.other_users import OtherUsers
from dbcheck.core.places import Place
from dbcheck.core.server import ServerFacts
from dbcheck.core.survivors import RowBatch
from dbcheck.core.table import Definition, TableFacts, TableSpec
from dbcheck.engines.link import SCAN_S
from dbcheck.engines.newest import Newest
from dbcheck.engines.postgresql.check import (
    Product,
    require_privileges,
    require_server,
    require_table,
)
from dbcheck.engines.postgresql.files import require_readable
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.options import (
    endpoints,
    host_names,
    libpq_options,
    url_arguments,
)
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.engines.tables import row_of, table_facts
from dbcheck.engines.url import read_url
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError

STATEMENTS = "postgresql"  # folder below sql/ that they share
CONNECT_S = 10.0
READY_CONNECT_S, READY_ANSWER_S = 3.0, 2.0
SCHEMA = "dbcheck."


class PostgresqlWire(ABC):
    """One server; contracts in ports.engine.

    The tables are those of the schema dbcheck in the URL's database.
    product: what the server must be.  own_databases: of the product itself.
    """

    family: str
    product: ClassVar[Product]
    own_databases: ClassVar[frozenset[str]] = OWN_DATABASES

    def __init__(self, url: str, password: str | None = None) -> None:
        parsed = read_url(url).set(drivername="postgresql+psycopg2")
        shown = parsed.set(drivername=f"{self.product.scheme}+psycopg2")
        self.target = shown.render_as_string()
        arguments = url_arguments(parsed)
        self._arguments: dict[str, Any] = {"application_name": "dbcheck", **arguments}
        if password is not None:
            self._arguments["password"] = password

    def endpoints(self) -> list[tuple[str, int]]:
        """Return where libpq may connect; see ports.engine."""
        require_readable(self.target, self._arguments)
        return endpoints(self.target, self._arguments)

    def _hosts(self) -> list[str]:
        """Return the names of the server's hosts."""
        require_readable(self.target, self._arguments)
        return host_names(self.target, self._arguments)

    @abstractmethod
    def facts(self) -> ServerFacts:
        """Read the server's facts; raise EngineError if it cannot be reached."""

    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        """Raise EngineError (with the fix as hint) if this server is not fit."""
        with self._open() as link:
            require_server(link, self.product)
            for table, verbs in verbs_by_table(statements).items():
                require_table(link, table)
                require_privileges(link, table, verbs)

    def places(self, tables: Sequence[TableSpec]) -> tuple[Place, ...]:
        """Return the directories that an ack depends on; () as SQL shows none."""
        return ()

    def other_users(self) -> OtherUsers:
        """Return who else uses this server; every account may see that."""
        with self._open() as link:
            others = [what for (what,) in link.rows("others")]
            (connections,) = link.row("connections")
        databases = tuple(what for what in others if what not in self.own_databases)
        return OtherUsers(databases, connections)

    def prepare(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> dict[str, TableFacts]:
        with self._open(server=server) as link:
            return {table.name: self._prepared(link, table) for table in tables}

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
                )
        identity, definition = (
            self._identity(link, table),
            self._definition(link, table),
        )
        epochs = link.rows(f"epochs_{table.name}", answer_s=SCAN_S)
        return table_facts(epochs, identity, definition)

    def _identity(self, link: PostgresqlLink, table: TableSpec) -> str:
        """Return the identifier of the table itself, "" if nothing shows one."""
        return ""

    def _definition(self, link: PostgresqlLink, table: TableSpec) -> Definition:
        """Return how the table is defined, as far as that is looked at."""
        return Definition()

    def open_session(
        self,
        statements: Sequence[StatementSpec],
        *,
        server: ServerFacts | None = None,
    ) -> PostgresqlSession:
        """Connect for the load; raise EngineError if that is refused."""
        return self._open_session(statements, server, weak=False)

    def _open_session(
        self,
        statements: Sequence[StatementSpec],
        server: ServerFacts | None,
        *,
        weak: bool,
    ) -> PostgresqlSession:
        options = self._options()
        return PostgresqlSession(
            self.target,
            options,
            statements,
            family=STATEMENTS,
            weak=weak,
            server=server,
            refusals=self.product.refusals,
        )

    def _options(self) -> dict[str, Any]:
        """Return libpq's arguments; raise EngineError if it must not connect."""
        require_readable(self.target, self._arguments)
        return libpq_options(self.target, self._arguments)

    def open_newest(
        self, table: TableSpec, epoch: int, *, server: ServerFacts | None = None
    ) -> Newest:
        """Connect to read the newest rows of *epoch*."""
        return Newest(self._open(server=server), table, epoch)

    def row(self, table: TableSpec, row_id: int) -> Row | None:
        """Return the row with that id, read over a new connection; None if none is."""
        with self._open() as link:
            found = link.rows(f"row_{table.name}", {"id": row_id})
        return row_of(found[0]) if found else None

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None, or why the server takes no queries."""
        try:
            with self._open(READY_CONNECT_S) as link:
                return self._unready(link)
        except (EngineError, OSError) as error:
            return str(error)

    def _unready(self, link: PostgresqlLink) -> str | None:
        """Return why a server that answers is not ready yet, None if it is."""
        ((_, _, standby, _),) = link.rows("server", answer_s=READY_ANSWER_S)
        return "the server is in recovery" if standby else None

    def survivors(
        self, tables: Sequence[TableSpec], *, server: ServerFacts | None = None
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        """Stream every row of the tables in one read-only transaction, in batches."""
        with self._open() as link, self._reading(link):
            yield from link.stream(tables, server)

    def _reading(self, link: PostgresqlLink) -> AbstractContextManager[None]:
        """Raise RowsWithheld for what keeps the body from reading rows, if known."""
        return contextlib.nullcontext()

    def drop(self) -> list[str]:
        with self._open() as link:
            besides = self._dropped_besides(link)
            names = [name for (name,) in link.rows("present")]
            for name in names:
                link.rows(f"drop_{name.removeprefix(SCHEMA)}")
            names += besides
            if link.rows("empty_schema"):
                link.rows("drop_schema")
                names.append("dbcheck")
        return names

    def _dropped_besides(self, link: PostgresqlLink) -> list[str]:
        """Remove objects other than tables, end sessions that hold locks; name them."""
        return []

    def _open(
        self, connect_s: float = CONNECT_S, *, server: ServerFacts | None = None
    ) -> PostgresqlLink:
        options = self._options()
        link = PostgresqlLink(
            self.target,
            options,
            connect_s,
            family=STATEMENTS,
            session=self.product.session,
        )
        return link.leading_to(server)
