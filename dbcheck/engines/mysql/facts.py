"""Reads a MySQL or MariaDB server's settings and identity, before and during a load.

The identity shows after a cut that the server has the same data directory.  MySQL keeps
server_uuid there (auto.cnf).  MariaDB has nothing like it: its server_uid is computed
at each start from the network card's hardware address and the port (sql/mysqld.cc,
calculate_server_uid()), so it changes with the card and stays the same with another
data directory.  So on MariaDB dbcheck keeps a UUID of its own in a table, which goes
where the data go.  A replica has that row as well, but another server_id.  A managed
service gets such a table too, as its failover leads to another server with the same
data.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

from dbcheck.audit.mysql import BINLOG_STORAGE, UNSAFE_TABLES
from dbcheck.audit.mysql import TABLES as TABLES_IN
from dbcheck.audit.rules import list_facts_of_family
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError
from dbcheck.engines.link import SCAN_S, Watch
from dbcheck.engines.mysql.answering import VARIABLES
from dbcheck.engines.mysql.check import (
    foreign_object_parameters,
    parse_definition,
    read_product,
)
from dbcheck.engines.mysql.link import FAMILY, MysqlLink
from dbcheck.engines.mysql.places import name_database_folder
from dbcheck.engines.mysql.replicating import SEMI_SYNC
from dbcheck.engines.mysql.settings import SESSION
from dbcheck.engines.tables import MARK
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.cluster import IGNORE_MAJORITY
from dbcheck.model.managed import SERVICE
from dbcheck.model.server import DATA_NAME
from dbcheck.model.watched import (
    Fact,
    FactKind,
    make_facts_of_settings,
    make_facts_of_tables,
)
from dbcheck.rows.table import Definition, TableSpec
from dbcheck.server_log import Product

# All that decides whether, and how fast, a commit is on the drive: what the audit's
# rules judge comes first.
SETTINGS = (
    *list_facts_of_family(FAMILY),
    "version_compile_os",
    "innodb_use_native_aio",
    "innodb_use_fdatasync",
    "innodb_read_only",
    "innodb_fast_shutdown",
    TABLES_IN,
    SERVICE,
    "rocksdb_datadir",
    "rocksdb_wal_dir",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
    "innodb_log_file_buffering",
    "innodb_log_file_write_through",
    "innodb_data_file_buffering",
    "innodb_data_file_write_through",
    "innodb_log_writer_threads",
    # Where all of that lies.
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "log_bin_basename",
    "sql_log_bin",
    BINLOG_STORAGE,
    "binlog_format",
    "binlog_group_commit_sync_delay",
    "binlog_commit_wait_count",
    "binlog_order_commits",
    "read_only",
    "super_read_only",
    # Which replicas a commit waits for, and what they keep of it.
    *SEMI_SYNC,
    "relay_log_recovery",
    "sync_relay_log",
    *IGNORE_MAJORITY,
    "group_replication_consistency",
    "group_replication_single_primary_mode",
)


# Any session may set these for itself, as each of dbcheck's does. MySQL then shows the
# time of that as set_time, to every session (seen with 9.7), so it dates no change of
# the server. Their scope: MySQL 8.4 manual, 7.1.8, 19.1.6.4 and 20.9.1.
_OF_SESSIONS = frozenset(
    ("default_storage_engine", "binlog_format", "group_replication_consistency")
)
TABLE, MARKER = "identity", "marker"
_MANAGED = ("version",)
Open = Callable[[], MysqlLink]


class Look(Watch):
    """A connection that looks at what is set for the server; see ports.host.Look.

    What every session of dbcheck sets for itself is left out: it does not change.
    """

    def __init__(
        self,
        link: MysqlLink,
        settings: Collection[str],
        tables: Sequence[TableSpec],
        database: str,
    ) -> None:
        """Take over *link*; *tables* are those of *database*."""
        super().__init__(link)
        product = read_product(link)
        self._statement = f"look_settings_{product.lower()}"
        self._names = ",".join(set(settings) - SESSION[product].keys())
        self._tables = {
            t.name: foreign_object_parameters(link, t, database) for t in tables
        }

    def read(self) -> dict[Fact, str]:
        rows = self._rows(self._statement, {"names": self._names})
        looked = make_facts_of_settings({name: value for name, value, _ in rows})
        for name, _, set_time in rows:
            if set_time is not None and name not in _OF_SESSIONS:
                looked[Fact(FactKind.CHANGE_TIME, name)] = set_time
        for name, count in self._rows("changes"):
            looked[Fact(FactKind.CHANGE_COUNT, name)] = count
        found = {name: self._definition(w) for name, w in self._tables.items()}
        return looked | make_facts_of_tables(found)

    def _definition(self, where: Mapping[str, object]) -> Definition:
        """Return it with a version, by which looks at one running server compare.

        MariaDB's is the ctime of a file: what has its owner set at a restart, as
        containers do, changes it.
        """
        found = parse_definition(self._rows, where)
        versions = self._rows("table_version", where)
        return found._replace(version=versions[0][0]) if versions else found


def find_non_durable_engines(link: MysqlLink) -> tuple[ScopedSettings, ...]:
    """Return the storage engines without durable commits that have users' tables."""
    rows = link.rows("unsafe_tables", answer_s=SCAN_S)
    shown = ", ".join(f"{tables} {engine}" for engine, tables in rows) or "none"
    how = "information_schema.tables, as far as this account may see it"
    return (ScopedSettings("the server's tables", how, {UNSAFE_TABLES: shown}),)


def identity(
    product: Product,
    variables: Mapping[str, str],
    connect: Open,
    *,
    managed: bool = False,
) -> dict[str, str]:
    """Return the identifiers that must be the same after a restart.

    connect: opens a connection in dbcheck's database.  Where that, or the row in it, is
    not there or cannot be read, the data have no name to compare.
    managed: it is a managed service's, where another host, and another server with the
    same data, may answer after a failover.
    """
    names = _MANAGED if managed else VARIABLES[product]
    found = {key: variables[key] for key in names if key in variables}
    if product is Product.MARIADB or managed:
        with contextlib.suppress(EngineError), connect() as link:
            for (name,) in link.rows("identity"):
                found[DATA_NAME] = name
    return found


def name_data(
    link: MysqlLink, product: Product, database: str, *, managed: bool = False
) -> None:
    """Give the data a name that they keep, unless they have one.

    link: in *database*.  managed: see identity().  Raise EngineError if a table there
    is in the way.
    """
    if product is not Product.MARIADB and not managed:
        return
    link.rows("create_identity")
    _require_ours(link, database, TABLE)
    link.rows("draw_identity", {"uuid": str(uuid.uuid4())})


def read_table_id(link: MysqlLink, database: str, name: str) -> str:
    """Return the storage engine's number of a table, "" if this account may not see it.

    Raise ConnectionLost.
    """
    where = {
        "folder": name_database_folder(database),
        "database": database,
        "name": name,
    }
    try:
        found = link.rows(link.storage.identities[read_product(link)], where)
    except ConnectionLost:
        raise
    except EngineError:  # the privilege PROCESS is needed
        return ""
    return found[0][0] if found else ""


def mark_data(link: MysqlLink, database: str) -> str:
    """Write a new mark into a file of MariaDB's data directory, and return it.

    A table's .frm holds the comments of its columns, and is there once the table is.
    link: in *database*.  Raise EngineError if a table there is in the way.
    """
    _require_ours(link, database, MARKER)
    mark = f"dbcheck-mark-{uuid.uuid4().hex}"
    link.rows("mark_data", {"word": mark})
    return mark


def _require_ours(link: MysqlLink, database: str, name: str) -> None:
    """Raise EngineError if there is such a table and dbcheck did not make it."""
    found = link.rows("table", {"database": database, "name": name})
    if found and tuple(found[0]) != ("BASE TABLE", "InnoDB", MARK):
        raise EngineError(
            f"the table {database}.{name} was not created by dbcheck",
            id=ErrorId.TABLE_OF_OTHERS,
            hint="Rename or drop that table, or give dbcheck a database of its own.",
        )
