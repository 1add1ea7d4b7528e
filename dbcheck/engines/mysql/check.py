"""Refuses MySQL and MariaDB servers and tables that dbcheck cannot test."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbcheck.audit.mysql import BULK_LOAD, ROCKSDB
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql import group_replication
from dbcheck.engines.mysql.grants import missing, quote_account
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.places import OPTION
from dbcheck.engines.mysql.refill import OFF, in_galera, in_group, lowered
from dbcheck.engines.registry import NAME_ANOTHER
from dbcheck.engines.tables import besides_of, require_ours, require_plain
from dbcheck.rows.operation import Verb
from dbcheck.rows.table import Definition, TableSpec

MYSQL_MIN = (8, 0, 0)
MARIADB_MIN = (10, 5, 0)
_SHOW_REPLICA_MIN = (8, 0, 22)

# Other products speak the protocol; none keeps its rows in InnoDB's files.
_OTHERS = (
    "TiDB",
    "Vitess",
    "SingleStore",
    "MemSQL",
    "OceanBase",
    "StarRocks",
    "Doris",
    "Dolt",
    "Databend",
    "ClickHouse",
)

# Beginnings of variables that only they have.
_OTHER_VARIABLES = {
    "tidb_": "TiDB",
    "ob_": "OceanBase",
    "dolt_": "Dolt",
    "memsql_": "SingleStore",
}

_TEXT_BYTES = 16 << 10  # of an operation's statements, without their payloads
_HEXADECIMAL = 2  # characters for each byte of a payload in a query's text

_READ_ONLY = ("innodb_read_only", "super_read_only", "read_only")
_READ_ONLY_SESSION = ("transaction_read_only", "tx_read_only")
_OF_A_GROUP = (
    "Set dbcheck_writer to the primary (MEMBER_ROLE in"
    " performance_schema.replication_group_members). Leave the setting as it is: a row"
    " that is written to a secondary is on no other member."
)
_WRITABLE = "SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF;"
_LEFT_ITS_GROUP = (
    "It is in no replication group now. Start it in its group again, or, to test it"
    f" alone, run: {_WRITABLE}"
)


def product(version: str, comment: str) -> tuple[str, tuple[int, ...]]:
    """Return the product's name and its version as numbers.

    Raise EngineError if it is another product, or too old.
    """
    whole = f"{version} ({comment})"
    other = next((name for name in _OTHERS if name.lower() in whole.lower()), None)
    digits = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if other is not None or digits is None:
        raise EngineError(
            f"the server is neither MySQL nor MariaDB but {whole}",
            id=ErrorId.SERVER_NOT_SUPPORTED,
            hint=NAME_ANOTHER,
        )
    name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    numbers = tuple(int(part) for part in digits.groups())
    least = MARIADB_MIN if name == "MariaDB" else MYSQL_MIN
    if numbers < least:
        raise EngineError(
            f"{name} {digits[0]} is not supported",
            id=ErrorId.SERVER_VERSION_NOT_SUPPORTED,
            hint=f"Use {name} {least[0]}.{least[1]} or newer.",
        )
    return name, numbers


def require_known(variables: Mapping[str, str]) -> None:
    """Raise EngineError if a server that calls itself MySQL shows another's variables.

    TiDB's and others' version is a setting of theirs: what they have beside MySQL's
    variables is not (TiDB documentation, System Variables; server-version).
    """
    for name in variables:
        for beginning, other in _OTHER_VARIABLES.items():
            if name.lower().startswith(beginning):
                raise EngineError(
                    f"the server is neither MySQL nor MariaDB but {other}: it has the"
                    f" variable {name}, and ignores those of InnoDB",
                    id=ErrorId.SERVER_NOT_SUPPORTED,
                    hint=NAME_ANOTHER,
                )


def product_of(link: MysqlLink) -> str:
    """Return "MySQL" or "MariaDB", whichever answers.

    Raise EngineError as product() does.
    """
    version, comment, _ = link.row("server")
    name, _ = product(version, comment)
    return name


def require_server(link: MysqlLink, variables: Mapping[str, str]) -> None:
    """Raise EngineError unless this is a supported server that takes writes."""
    version, comment, account = link.row("server")
    name, numbers = product(version, comment)
    require_known(variables)
    for setting in _READ_ONLY:
        if variables.get(setting, "") not in OFF:
            hint = f"Test a server that accepts writes, or set {setting} = OFF."
            if group_replication.is_member(variables):
                hint = _LEFT_ITS_GROUP if _is_in_no_group(link) else _OF_A_GROUP
            raise EngineError(
                f"the server is read-only: {setting} is {variables[setting]}",
                id=ErrorId.SERVER_READ_ONLY,
                hint=hint,
            )
    for setting in _READ_ONLY_SESSION:
        if variables.get(setting, "") not in OFF:
            raise EngineError(
                f"transactions are read-only: {setting} is {variables[setting]}",
                id=ErrorId.SERVER_READ_ONLY,
                hint=f"Run: set global {setting} = 0;",
            )
    _require_no_replica(link, name, numbers, account)
    if link.storage.name == ROCKSDB and variables.get(BULK_LOAD, "") not in OFF:
        raise EngineError(
            f"{BULK_LOAD} is {variables[BULK_LOAD]}: no session sees what another one"
            " committed before that one ends, and a crash loses it",
            id=ErrorId.BULK_LOAD_ON,
            hint=f"Run: set global {BULK_LOAD} = off; and take it out of the"
            " configuration file.",
        )


def _is_in_no_group(link: MysqlLink) -> bool:
    """Say whether the server certainly is in no group now: the account may see that."""
    try:
        return not link.rows("group_state")
    except EngineError:
        return False


def require_packet(variables: Mapping[str, str], payload_bytes: int) -> None:
    """Raise EngineError if the server may refuse the largest operation.

    payload_bytes: of all its rows.  An operation of several statements is one packet,
    a query whose text holds them all (MySQL 8.4 manual, B.3.2.8).
    """
    needed = _HEXADECIMAL * payload_bytes + _TEXT_BYTES
    limit = int(variables["max_allowed_packet"])
    if needed > limit:
        raise EngineError(
            f"max_allowed_packet is {limit:,} bytes, and the workload sends up to"
            f" {needed:,} in one packet",
            id=ErrorId.PACKET_LIMIT_TOO_SMALL,
            hint=f"Run: set global max_allowed_packet = {_rounded_up(needed)}; or use"
            " a workload with a smaller payload_bytes.",
        )


def _rounded_up(size: int) -> int:
    """Return the next power of two."""
    return 1 << (size - 1).bit_length()


def require_redo_log(link: MysqlLink) -> None:
    """Raise EngineError if the redo log is disabled: no crash could be survived."""
    status = lowered(link.rows("uptime"))
    if status.get("innodb_redo_log_enabled", "ON") in OFF:
        raise EngineError(
            "the server's redo log is disabled: a power cut would destroy its data",
            id=ErrorId.REDO_LOG_DISABLED,
            hint="Run: alter instance enable innodb redo_log;",
        )


def require_alone(link: MysqlLink) -> None:
    """Raise EngineError for a server that fetches what it lost from its peers.

    One that is a member now may be started as one again, whatever its settings are.
    """
    variables = lowered(link.rows("variables"))
    if joined := in_group(link, variables):
        raise EngineError(
            f"the server {joined}",
            id=ErrorId.SERVER_IN_CLUSTER,
            hint="Test the group (dbcheck_topology: group-replication), or this server"
            f" alone, outside of it: run STOP GROUP_REPLICATION; {_WRITABLE} Set"
            " group_replication_start_on_boot = OFF, and start it as a member only once"
            " its rows were read. The other members would hide its losses.",
        )
    if node := in_galera(variables, lowered(link.rows("refill"))):
        raise EngineError(
            f"the server {node}",
            id=ErrorId.SERVER_IN_CLUSTER,
            hint="Test the cluster (dbcheck_topology: galera), or this node alone,"
            " restarted with wsrep_on = OFF: the other nodes would hide its losses.",
        )


def _require_no_replica(
    link: MysqlLink, name: str, numbers: tuple[int, ...], account: str
) -> None:
    """Raise EngineError for a replica: its rows come from elsewhere."""
    statement = "replica_status"
    if name == "MariaDB":
        statement = "replica_status_mariadb"
    elif numbers < _SHOW_REPLICA_MIN:
        statement = "replica_status_8_0_21"
    try:
        found = link.rows(statement)
    except EngineError as error:
        privilege = "slave monitor" if name == "MariaDB" else "replication client"
        raise EngineError(
            f"cannot check whether the server is a replica: {error}",
            id=ErrorId.PRIVILEGE_MISSING,
            hint=f"Run: grant {privilege} on *.* to {quote_account(account)};",
        ) from error
    if found:
        raise EngineError(
            "the server is a replica",
            id=ErrorId.SERVER_IS_REPLICA,
            hint="Test its source, or end replication with RESET REPLICA ALL.",
        )


def require_privileges(
    link: MysqlLink, spec: TableSpec, verbs: Sequence[Verb], database: str
) -> None:
    """Raise EngineError, with the GRANT as hint, if the account may not do it all."""
    statements = [row[0] for row in link.rows("grants")]
    # In the order of docs/privileges.md.
    needed = ("SELECT", *(verb.name for verb in verbs), "CREATE", "DROP")
    lacking = missing(statements, database, spec.name, needed)
    if not lacking:
        return
    account = quote_account(link.row("server")[2])
    what = ", ".join(lacking)
    raise EngineError(
        f"the account {account} lacks {what} on {database}.{spec.name}",
        id=ErrorId.PRIVILEGE_MISSING,
        hint=f"Run: grant {what.lower()} on `{database}`.* to {account};",
    )


def require_table(link: MysqlLink, spec: TableSpec, database: str) -> bool:
    """Return whether the table is there; raise EngineError if it is not fit."""
    name = spec.name
    where = {"database": database, "name": name}
    found = link.rows("table", where)
    if not found:
        return False
    kind, engine, comment = found[0]
    table = f"{database}.{name}"
    wanted = link.storage.name
    if kind != "BASE TABLE" or engine != wanted:
        what = f"a table of engine {engine}" if kind == "BASE TABLE" else kind.lower()
        raise EngineError(
            f"{table} is {what}, not of engine {wanted}",
            id=ErrorId.TABLE_OF_WRONG_KIND,
            hint=f"Drop {table}; dbcheck creates it with engine = {wanted}, which the"
            f" target's URL can change ({OPTION}).",
        )
    require_ours(spec, table, comment, link.rows("columns", where))
    require_plain(table, link.rows("foreign", where_foreign(link, spec, database)))
    return True


def where_foreign(link: MysqlLink, spec: TableSpec, database: str) -> dict[str, object]:
    """Return the parameters of foreign.sql, which table_version.sql takes as well."""
    return {
        "database": database,
        "name": spec.name,
        "key": spec.key,
        "columns": ",".join(spec.column_names),
        "engine": link.storage.name,
    }


def definition_of(
    rows: Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]],
    where: Mapping[str, object],
) -> Definition:
    """Return how a table is defined; Definition() if there is no such table.

    rows: runs a statement of sql/.  where: see where_foreign().
    """
    if not rows("table", where):
        return Definition()
    return Definition(besides_of(rows("foreign", where)))
