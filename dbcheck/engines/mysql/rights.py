"""The one list of what dbcheck's account must be allowed to do on MySQL and MariaDB.

The checks of the preflight, the GRANT in each hint, the output of `dbcheck grants` and
docs/privileges.md all come from here.  Nothing imported connects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.dialects.mysql.reserved_words import (
    RESERVED_WORDS_MARIADB,
    RESERVED_WORDS_MYSQL,
)

from dbcheck.model.cluster import SiteKind
from dbcheck.model.rights import Right
from dbcheck.rows.operation import Usage
from dbcheck.rows.tasks import TaskKind
from dbcheck.server_log import Product

SERVER = "*.*"
_TABLES = "{database}.*"
_SCHEMA = "performance_schema"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_KEYWORDS = {"user"} | RESERVED_WORDS_MYSQL | RESERVED_WORDS_MARIADB


@dataclass(frozen=True, slots=True)
class Privileges:
    """Privileges by the names in SHOW GRANTS, and the object of their GRANT.

    on: "*.*", a table, or dbcheck's database ({database}).
    """

    names: tuple[str, ...]
    on: str = _TABLES

    def grant(self, account: str, database: str = "") -> str:
        """Return the GRANT.

        account: quoted where that is needed.  database: see quote_database().
        """
        place = self.on.format(database=database)
        return f"grant {', '.join(self.names).lower()} on {place} to {account};"


def quote_name(name: str) -> str:
    """Return a name in backticks, which no character of it ends."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def quote_if_needed(name: str) -> str:
    """Return a name in backticks if MySQL or MariaDB needs them."""
    return name if _is_plain(name) else quote_name(name)


def quote_database(name: str) -> str:
    r"""Return the name of a database for a GRANT ON database.*, of that one alone.

    A GRANT takes _ and % for any characters (MySQL 8.4 manual, 15.7.1.6; the same in
    MariaDB's): without \ the account would get rights on other databases, too.
    """
    return quote_name(re.sub(r"([\\_%])", r"\\\1", name))


def quote_database_if_needed(name: str) -> str:
    """Return the name of a database for a GRANT, in backticks if it needs them."""
    needs_none = _is_plain(name) and "_" not in name
    return name if needs_none else quote_database(name)


def _is_plain(name: str) -> bool:
    return bool(_PLAIN.fullmatch(name)) and name not in _KEYWORDS


MONITOR: Mapping[Product, Privileges] = {
    Product.MYSQL: Privileges(("REPLICATION CLIENT",), SERVER),
    Product.MARIADB: Privileges(("SLAVE MONITOR",), SERVER),
}
PREPARED = Privileges(("XA_RECOVER_ADMIN",), SERVER)  # MariaDB has no such privilege
SUPER = Privileges(("SUPER",), SERVER)
# On MySQL, SUPER is enough as well.
WEAKENING: Mapping[Product, Privileges] = {
    Product.MYSQL: Privileges(("SYSTEM_VARIABLES_ADMIN",), SERVER),
    Product.MARIADB: SUPER,
}
# For sync_binlog on MariaDB; from 11.0 on SUPER no longer includes it.
WEAKENING_BINLOG = Privileges(("BINLOG ADMIN",), SERVER)
BINLOG_ADMIN_SINCE = 11
# For SET SESSION sql_log_bin (MySQL 8.4 manual, 7.1.9.1; MariaDB's, SET SQL_LOG_BIN).
UNREPLICATING = Privileges(("SESSION_VARIABLES_ADMIN",), SERVER)
CANARY = Privileges(("LOCK TABLES",))
ERROR_LOG = Privileges(("SELECT",), f"{_SCHEMA}.error_log")
OTHER_DATABASES = Privileges(("SHOW DATABASES",), SERVER)
# MySQL 8.4 manual: 15.1.9, 15.1.15 and 15.7.8.3; the same in MariaDB's.
TASKS: Mapping[TaskKind, Privileges] = {
    TaskKind.INDEX: Privileges(("INDEX",)),
    TaskKind.REWRITE: Privileges(("ALTER",)),
    TaskKind.CHECKPOINT: Privileges(("RELOAD",), SERVER),
    TaskKind.ROTATE: Privileges(("RELOAD",), SERVER),
}


def tables_privileges(usage: Usage) -> Privileges:
    """Return the privileges that the load needs on dbcheck's tables."""
    return Privileges(
        ("SELECT", *(verb.name for verb in usage.all_verbs), "CREATE", "DROP")
    )


def list_unreplicating(
    product: Product, version: Sequence[int]
) -> tuple[Privileges, ...]:
    """Return the privileges any one of which keeps a session's commits unreplicated.

    version: of the server, as numbers.
    """
    if product is Product.MYSQL:
        return (UNREPLICATING, WEAKENING[product], SUPER)
    more = () if version[0] >= BINLOG_ADMIN_SINCE else (SUPER,)
    return (WEAKENING_BINLOG, *more)


def create_statements(account: str) -> tuple[str, ...]:
    """Return the statements that create the account; it creates its own database."""
    return (f"create user if not exists {account} identified by 'CHANGE-ME';",)


def list_rights(
    product: Product, usage: Usage, account: str, database: str, *, control: bool
) -> tuple[Right, ...]:
    """Return the rights for a load, and for a *control* before it; the required first.

    What not every server knows comes last: a client that stops at the first error has
    then done all else.
    """
    of_mysql = _list_rights_of_mysql(account) if product is Product.MYSQL else ()
    return (
        *_list_required(product, usage, account, database, control=control),
        *_list_rights_of_tasks(usage, account, database),
        *_list_optional(account, database),
        *of_mysql,
    )


def _list_required(
    product: Product, usage: Usage, account: str, database: str, *, control: bool
) -> list[Right]:
    on_mysql = product is Product.MYSQL
    found = [
        Right(
            tables_privileges(usage).grant(account, database),
            "Creates dbcheck's tables, loads them, reads and drops them.",
        ),
        Right(MONITOR[product].grant(account), "Sees whether the server is a replica."),
    ]
    if usage.prepares and on_mysql:
        why = "Lists the transactions that are prepared."
        found.append(Right(PREPARED.grant(account), why))
    if control:
        why = "Relaxes the whole server for the control's cut (--control)."
        found.append(Right(WEAKENING[product].grant(account), why))
        if not on_mysql:
            only = f"MariaDB {BINLOG_ADMIN_SINCE}.0 or newer, with a binary log."
            found.append(Right(WEAKENING_BINLOG.grant(account), why, only=only))
    return found


def _list_optional(account: str, database: str) -> list[Right]:
    return [
        Right(
            CANARY.grant(account, database),
            "Plants the crash canary, a row that tells a crash from a shutdown.",
            "There is no crash canary, so a PASS needs another proof that the server"
            " was not shut down.",
        ),
        Right(
            Privileges(("TRIGGER",)).grant(account, database),
            "Sees triggers on dbcheck's tables.",
            "A trigger is noticed only by what it does to the first rows.",
        ),
        Right(
            Privileges(("PROCESS",), SERVER).grant(account),
            "Sees whether a table was truncated or replaced, and where undo tablespaces"
            " are.",
            "Rows of a truncated or replaced table count as lost, and a PASS assumes"
            " that none was.",
        ),
        Right(
            OTHER_DATABASES.grant(account),
            "Sees the names of other databases before a switch cuts the server.",
            "An unattended switch cuts only with --i-know.",
        ),
    ]


def _list_rights_of_tasks(usage: Usage, account: str, database: str) -> list[Right]:
    """Return the rights for the housekeeping tasks, one for each object of a GRANT."""
    kinds_by_place: dict[str, list[TaskKind]] = {}
    for kind in usage.tasks:
        if kind in TASKS:
            kinds_by_place.setdefault(TASKS[kind].on, []).append(kind)
    found = []
    for place, kinds in kinds_by_place.items():
        names = dict.fromkeys(name for kind in kinds for name in TASKS[kind].names)
        words = " and ".join(kind.value for kind in kinds)
        grant = Privileges(tuple(names), place).grant(account, database)
        why = f"Does the housekeeping tasks {words}."
        without = f"The run leaves out the housekeeping tasks {words}."
        found.append(Right(grant, why, without))
    return found


def _list_rights_of_mysql(account: str) -> list[Right]:
    """Return the rights on tables of the performance schema that MariaDB lacks."""

    def readable(table: str, why: str, without: str, only: str = "") -> Right:
        privileges = Privileges(("SELECT",), f"{_SCHEMA}.{table}")
        return Right(privileges.grant(account), why, without, only)

    return [
        readable(
            "table_io_waits_summary_by_table",
            "Counts rows that were deleted since the server started.",
            "Rows that somebody deleted after the cut count as lost, and nothing names"
            " the deletion.",
        ),
        readable(
            "replication_group_members",
            "Refuses to test a member of a replication group alone.",
            "A member is noticed only after the cut, once it rejoined its group.",
        ),
        Right(
            ERROR_LOG.grant(account),
            "Reads in the error log whether the server crashed or was shut down.",
            "The error log is read only with --target-host.",
            "MySQL 8.0.22 or newer.",
        ),
        readable(
            "clone_status",
            "Sees that another server's data were cloned over this one's.",
            "A clone is not seen, and a PASS assumes that there was none.",
            "With the clone plugin; else there is no such table.",
        ),
    ]


def list_cluster_rights(
    kind: SiteKind,
    product: Product,
    account: str,
    *,
    forms: bool,
    promotes: bool,
    control: bool = False,
) -> tuple[Right, ...]:
    """Return the rights on a node of a cluster, beside those of a single server.

    promotes: dbcheck promotes a standby.  forms: dbcheck forms a group again after a
    cut of all its nodes.  control: a control comes first.
    """
    match kind:
        case SiteKind.SEMI_SYNC:
            return (
                *_list_replication_rights(product, account, promotes=promotes),
                _name_unreplicating_right(product, account, control=control),
            )
        case SiteKind.GALERA:
            table = Privileges(("SELECT",), "mysql.wsrep_cluster_members")
            return (Right(table.grant(account), "Sees the nodes of the cluster."),)
        case SiteKind.GROUP_REPLICATION:
            return _list_group_rights(account, forms=forms)
        case SiteKind.SINGLE | SiteKind.STREAMING:
            return ()


def _list_replication_rights(
    product: Product, account: str, *, promotes: bool
) -> tuple[Right, ...]:
    on_mysql = product is Product.MYSQL
    follows = "Sees who follows whom."
    name = "REPLICATION SLAVE" if on_mysql else "REPLICATION MASTER ADMIN"
    found = [Right(Privileges((name,), SERVER).grant(account), follows)]
    if on_mysql:
        table = f"{_SCHEMA}.replication_connection_status"
        found.append(Right(Privileges(("SELECT",), table).grant(account), follows))
    if promotes:
        names: Sequence[str] = (
            ("REPLICATION_SLAVE_ADMIN", "RELOAD", "SYSTEM_VARIABLES_ADMIN")
            if on_mysql
            else ("REPLICATION SLAVE ADMIN", "RELOAD", "READ_ONLY ADMIN")
        )
        grant = Privileges(tuple(names), SERVER).grant(account)
        found.append(Right(grant, "Promotes a standby."))
    return tuple(found)


def _name_unreplicating_right(
    product: Product, account: str, *, control: bool
) -> Right:
    on_mysql = product is Product.MYSQL
    grant = (UNREPLICATING if on_mysql else WEAKENING_BINLOG).grant(account)
    if control:
        why = "Keeps the commits of the control (--control) from the replicas."
        return Right(grant, why)
    return Right(
        grant,
        "Keeps the crash canary from the replicas.",
        "There is no crash canary, so a PASS needs another proof that the server was"
        " not shut down.",
    )


def _list_group_rights(account: str, *, forms: bool) -> tuple[Right, ...]:
    members = "Sees the members, and what each has received and applied."
    tables = {
        "replication_connection_status": members,
        "replication_group_members": members,
        "replication_group_member_stats": members,
    }
    names: tuple[str, ...] = ()
    if forms:
        tables["threads"] = "Sees whether a server is about to join its group."
        names = ("GROUP_REPLICATION_ADMIN", "SYSTEM_VARIABLES_ADMIN")
    found = [
        Right(Privileges(("SELECT",), f"{_SCHEMA}.{table}").grant(account), why)
        for table, why in tables.items()
    ]
    if names:
        grant = Privileges(names, SERVER).grant(account)
        found.append(Right(grant, "Forms the group again after a cut of all nodes."))
    return tuple(found)
