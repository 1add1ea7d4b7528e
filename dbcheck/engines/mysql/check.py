"""Refuses MySQL and MariaDB servers and tables that dbcheck cannot test.

A member of a group, a node of a Galera cluster and a replica fetch the transactions
that they lack from their peers.  Settings alone do not exclude that: an operator, a
sidecar or a script may start replication once the server is up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbcheck.audit.mysql import BULK_LOAD, ROCKSDB
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError, OtherServer, unless_refused
from dbcheck.engines.mysql import galera, group_replication
from dbcheck.engines.mysql.answering import is_replica
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.places import OPTION
from dbcheck.engines.registry import NAME_ANOTHER
from dbcheck.engines.tables import parse_foreign_objects, require_ours, require_plain
from dbcheck.model.server import Refill
from dbcheck.rows.table import Definition, TableSpec
from dbcheck.server_log import Product

OFF = frozenset({"OFF", "0", ""})
_ADVICE_FOR_REPLICA = (
    "End replication (STOP REPLICA, RESET REPLICA ALL) and cut again, and start none"
    " before dbcheck has read its rows"
)
_ADVICE_FOR_GALERA = (
    "Cut again with wsrep_on = OFF in its configuration file, and have it join only"
    " once dbcheck has read its rows; or test the whole cluster (dbcheck_topology:"
    " galera)"
)
_ADVICE_FOR_CLONE = (
    "Cut again, and clone nothing onto it before dbcheck has read its rows"
)
_ADVICE_TO_SEE_CLONES = (
    "Before the next cut, set performance_schema = ON, and grant dbcheck's account"
    " SELECT on performance_schema.clone_status"
)
_UNSEEN_REPLICA = (
    "may follow another server as its replica: dbcheck's account may not see that"
)
_ADVICE_TO_SEE_REPLICAS = (
    "Before the next run, grant it REPLICATION CLIENT (MariaDB: SLAVE MONITOR)"
)
_VARIABLE_OF_CLONE_PLUGIN = "clone_buffer_size"  # no server has it without the plugin
_ADVICE_FOR_MEMBER = (
    "Cut again with group_replication_start_on_boot = OFF, and start it in its group"
    " only once dbcheck has read its rows; or test the whole group (dbcheck_topology:"
    " group-replication)"
)
# A counter of the server, what its value above 0 shows, and what to do.  Com_... also
# counts statements that failed.  The first counter, of MySQL 8.1 and later, counts no
# failure, but each START GROUP_REPLICATION, also one that fails, sets it to 0 again: 0
# does not show that the server was no member.
_REPLICA_COUNTERS = (
    *("com_replica_start", "com_slave_start"),  # MySQL
    *("com_start_slave", "com_start_all_slaves"),  # MariaDB
)
_START_COUNTERS = {
    "gr_total_messages_sent_count": (
        "was a member of a replication group after its last start",
        _ADVICE_FOR_MEMBER,
    ),
    "com_group_replication_start": (
        "was told after its last start to join its replication group (which may have"
        " failed)",
        _ADVICE_FOR_MEMBER,
    ),
    **dict.fromkeys(
        _REPLICA_COUNTERS,
        (
            "was told after its last start to replicate from another server (which may"
            " have failed)",
            _ADVICE_FOR_REPLICA,
        ),
    ),
}


def find_refill(link: MysqlLink, since_us: int) -> Refill | None:
    """Return how other servers may have given this one data, None if nothing shows it.

    since_us: look for clones since this moment.  Raise EngineError.
    """
    follows = is_replica(link, link.product)
    if follows:
        how = "follows another server as its replica"
        return Refill(how, _ADVICE_FOR_REPLICA, replaces=True)
    variables = lower_names(link.rows("variables"))
    status = lower_names(link.rows("refill"))
    if node := describe_galera(variables, status):
        return Refill(node, _ADVICE_FOR_GALERA, replaces=True)
    cloned = _describe_clone(link, since_us, variables)
    if cloned is not None and not cloned.unknown:
        return cloned
    if joined := describe_group(link, variables):
        return Refill(joined, _ADVICE_FOR_MEMBER)
    for counter, (how, advice) in _START_COUNTERS.items():
        if status.get(counter, "0") not in OFF:
            ended = counter in _REPLICA_COUNTERS and follows is False
            return Refill(how, advice, ended=ended)
    if follows is None and cloned is None:
        return Refill(_UNSEEN_REPLICA, _ADVICE_TO_SEE_REPLICAS, unknown=True)
    return cloned


def _describe_clone(
    link: MysqlLink, since_us: int, variables: Mapping[str, str]
) -> Refill | None:
    """Return that the server's data were cloned from another server, or may have been.

    None if they were not.  The table that shows it is empty with performance_schema =
    OFF.  An account without SELECT on it gets the same error with the clone plugin and
    without it, so a variable of the plugin shows whether there is any.
    """
    hidden = variables.get("performance_schema", "ON") in OFF
    why = "performance_schema is OFF" if hidden else ""
    try:
        for (begin,) in link.rows("cloned", {"since_us": since_us}):
            how = f"was cloned from another server, from {begin} on"
            return Refill(how, _ADVICE_FOR_CLONE, replaces=True, cloned=True)
    except (ConnectionLost, OtherServer):
        raise  # the next connection may see the table
    except EngineError as error:
        why = str(error)
    if not why or _VARIABLE_OF_CLONE_PLUGIN not in variables:
        return None
    how = f"may have been cloned from another one: dbcheck cannot see that ({why})"
    return Refill(how, _ADVICE_TO_SEE_CLONES, unknown=True, cloned=True)


def describe_galera(variables: Mapping[str, str], status: Mapping[str, str]) -> str:
    """Return that the server is in a Galera cluster, as in Refill.how; "" if it is not.

    variables, status: as lower_names() returns them.  With wsrep_on = OFF the other
    nodes get no commits of this one, but theirs still reach it.
    """
    if galera.is_node(variables):
        return "is a node of a Galera cluster (wsrep_on is ON)"
    if status.get("wsrep_connected", "OFF").upper() not in OFF:
        return "is a node of a Galera cluster (wsrep_connected is ON)"
    return ""


def describe_group(link: MysqlLink, variables: Mapping[str, str]) -> str:
    """Return that the server is in a replication group, or joins it at startup.

    The text is as in Refill.how, "" if neither is seen.
    variables: as lower_names() returns them.  They alone count for an account without
               SELECT on performance_schema.replication_group_members, and with
               performance_schema = OFF.
    """
    with unless_refused():
        for (state,) in link.rows("group_state"):
            return f"is a member of a replication group (its state is {state})"
    start_on_boot = variables.get("group_replication_start_on_boot", "OFF")
    if group_replication.is_member(variables) and start_on_boot not in OFF:
        return "rejoins its replication group at startup"
    return ""


def lower_names(rows: Sequence[Any]) -> dict[str, str]:
    """Return variables by their names in lower case, which not all servers use."""
    return {name.lower(): value for name, value in rows}


MYSQL_MIN = (8, 0, 0)
MARIADB_MIN = (10, 5, 0)
_SHOW_REPLICA_MIN = (8, 0, 22)

# Other products that speak the protocol; none keeps its rows in InnoDB's files.
_OTHER_PRODUCTS = (
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

# How the names of variables begin that only one other product has.
_OTHER_VARIABLES = {
    "tidb_": "TiDB",
    "ob_": "OceanBase",
    "dolt_": "Dolt",
    "memsql_": "SingleStore",
}

_STATEMENT_BYTES = 16 << 10  # of an operation's statements, without their payloads
_HEX_CHARACTERS = 2  # characters for each byte of a payload in a query's text

_READ_ONLY = ("innodb_read_only", "super_read_only", "read_only")
_READ_ONLY_SESSION = ("transaction_read_only", "tx_read_only")
_SECONDARY_HINT = (
    "Set dbcheck_writer to the primary (MEMBER_ROLE in"
    " performance_schema.replication_group_members). Leave the setting as it is: a row"
    " that is written to a secondary is on no other member."
)
_MAKE_WRITABLE = "SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF;"
_LEFT_GROUP_HINT = (
    "It is in no replication group now. Start it in its group again, or, to test it"
    f" alone, run: {_MAKE_WRITABLE}"
)


def parse_product(version: str, comment: str) -> tuple[Product, tuple[int, ...]]:
    """Return the product and its version as numbers.

    Raise EngineError if it is another product, or too old.
    """
    whole = f"{version} ({comment})"
    other = next(
        (name for name in _OTHER_PRODUCTS if name.lower() in whole.lower()), None
    )
    digits = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if other is not None or digits is None:
        raise EngineError(
            f"the server is neither MySQL nor MariaDB but {whole}",
            id=ErrorId.SERVER_NOT_SUPPORTED,
            hint=NAME_ANOTHER,
        )
    name = Product.MARIADB if "mariadb" in version.lower() else Product.MYSQL
    numbers = tuple(int(part) for part in digits.groups())
    least = MARIADB_MIN if name is Product.MARIADB else MYSQL_MIN
    if numbers < least:
        raise EngineError(
            f"{name} {digits[0]} is not supported",
            id=ErrorId.SERVER_VERSION_NOT_SUPPORTED,
            hint=f"Use {name} {least[0]}.{least[1]} or newer.",
        )
    return name, numbers


def require_known(variables: Mapping[str, str]) -> None:
    """Raise EngineError if a server that calls itself MySQL has another's variables.

    TiDB and other products let a setting decide which version they show, but not which
    variables they have beside MySQL's (TiDB documentation, System Variables;
    server-version).
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


def read_product(link: MysqlLink) -> Product:
    """Return the product that the server is.

    Raise EngineError as parse_product() does.
    """
    version, comment, _ = link.row("server")
    name, _ = parse_product(version, comment)
    return name


def require_server(link: MysqlLink, variables: Mapping[str, str]) -> None:
    """Raise EngineError unless this is a supported server that takes writes."""
    version, comment, _ = link.row("server")
    name, numbers = parse_product(version, comment)
    require_known(variables)
    for setting in _READ_ONLY:
        if variables.get(setting, "") not in OFF:
            hint = f"Test a server that accepts writes, or set {setting} = OFF."
            if group_replication.is_member(variables):
                hint = _LEFT_GROUP_HINT if _is_in_no_group(link) else _SECONDARY_HINT
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
    _require_no_replica(link, choose_replica_statement(name, numbers))
    if link.storage.name == ROCKSDB and variables.get(BULK_LOAD, "") not in OFF:
        raise EngineError(
            f"{BULK_LOAD} is {variables[BULK_LOAD]}: no session sees what another one"
            " committed before that one ends, and a crash loses it",
            id=ErrorId.BULK_LOAD_ON,
            hint=f"Run: set global {BULK_LOAD} = off; and take it out of the"
            " configuration file.",
        )


def _is_in_no_group(link: MysqlLink) -> bool:
    """Return True if the server is in no group; False if the account cannot see it."""
    try:
        return not link.rows("group_state")
    except EngineError:
        return False


def require_packet(variables: Mapping[str, str], payload_bytes: int) -> None:
    """Raise EngineError if the server may refuse the largest operation.

    payload_bytes: those of all rows of the operation.  An operation of several
    statements is one packet: a query whose text holds them all (MySQL 8.4 manual,
    B.3.2.8).
    """
    needed = _HEX_CHARACTERS * payload_bytes + _STATEMENT_BYTES
    limit = int(variables["max_allowed_packet"])
    if needed > limit:
        raise EngineError(
            f"max_allowed_packet is {limit:,} bytes, and the workload sends up to"
            f" {needed:,} in one packet",
            id=ErrorId.PACKET_LIMIT_TOO_SMALL,
            hint=f"Run: set global max_allowed_packet = {_round_up(needed)}; or use"
            " a workload with a smaller payload_bytes.",
        )


def _round_up(size: int) -> int:
    """Return the smallest power of two that is at least *size*."""
    return 1 << (size - 1).bit_length()


def require_redo_log(link: MysqlLink) -> None:
    """Raise EngineError if the redo log is disabled: a crash would destroy the data."""
    status = lower_names(link.rows("uptime"))
    if status.get("innodb_redo_log_enabled", "ON") in OFF:
        raise EngineError(
            "the server's redo log is disabled: a power cut would destroy its data",
            id=ErrorId.REDO_LOG_DISABLED,
            hint="Run: alter instance enable innodb redo_log;",
        )


def require_standalone(link: MysqlLink) -> None:
    """Raise EngineError for a server that fetches lost transactions from its peers.

    A server that is a member now may be started as a member again, whatever its
    settings are.
    """
    variables = lower_names(link.rows("variables"))
    if joined := describe_group(link, variables):
        raise EngineError(
            f"the server {joined}",
            id=ErrorId.SERVER_IN_CLUSTER,
            hint="Test the group (dbcheck_topology: group-replication), or this server"
            f" alone, outside of it: run STOP GROUP_REPLICATION; {_MAKE_WRITABLE} Set"
            " group_replication_start_on_boot = OFF, and start it as a member only once"
            " its rows were read. The other members would hide its losses.",
        )
    if node := describe_galera(variables, lower_names(link.rows("refill"))):
        raise EngineError(
            f"the server {node}",
            id=ErrorId.SERVER_IN_CLUSTER,
            hint="Test the cluster (dbcheck_topology: galera), or this node alone,"
            " restarted with wsrep_on = OFF: the other nodes would hide its losses.",
        )


def choose_replica_statement(name: Product, numbers: tuple[int, ...]) -> str:
    """Return the statement of sql/ that shows what a server of a version follows."""
    if name is Product.MARIADB:
        return "replica_status_mariadb"
    return "replica_status" if numbers >= _SHOW_REPLICA_MIN else "replica_status_8_0_21"


def _require_no_replica(link: MysqlLink, statement: str) -> None:
    """Raise EngineError for a replica: its rows come from another server."""
    if link.rows(statement):
        raise EngineError(
            "the server is a replica",
            id=ErrorId.SERVER_IS_REPLICA,
            hint="Test its source, or end replication with RESET REPLICA ALL.",
        )


def require_table(link: MysqlLink, spec: TableSpec, database: str) -> bool:
    """Return whether the table exists; raise EngineError if dbcheck cannot use it."""
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
    require_plain(
        table, link.rows("foreign", foreign_object_parameters(link, spec, database))
    )
    return True


def foreign_object_parameters(
    link: MysqlLink, spec: TableSpec, database: str
) -> dict[str, object]:
    """Return the parameters of foreign.sql and table_version.sql."""
    return {
        "database": database,
        "name": spec.name,
        "key": spec.key,
        "columns": ",".join(spec.column_names),
        "engine": link.storage.name,
    }


def parse_definition(
    rows: Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]],
    where: Mapping[str, object],
) -> Definition:
    """Return the definition of a table; Definition() if there is no such table.

    rows:  runs a statement of sql/ and returns its rows.
    where: as foreign_object_parameters() returns it.
    """
    if not rows("table", where):
        return Definition()
    return Definition(parse_foreign_objects(rows("foreign", where)))
