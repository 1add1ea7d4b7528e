"""Finds whether other servers may have given a MySQL or MariaDB server rows back.

A member of a group, a node of a Galera cluster and a replica fetch from their peers
what they lack, whatever set them going: a setting says nothing of what an operator, a
sidecar or a script starts once the server is up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbcheck.base.errors import ConnectionLost, EngineError, OtherServer, unless_refused
from dbcheck.engines.mysql import galera, group_replication
from dbcheck.engines.mysql.answering import is_replica
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.model.server import Refill

OFF = frozenset({"OFF", "0", ""})
_OF_A_REPLICA = (
    "End replication (STOP REPLICA, RESET REPLICA ALL) and cut again, and start none"
    " before dbcheck has read its rows"
)
_OF_A_CLUSTER = (
    "Cut again with wsrep_on = OFF in its configuration file, and have it join only"
    " once dbcheck has read its rows; or test the whole cluster (dbcheck_topology:"
    " galera)"
)
_OF_A_CLONE = "Cut again, and clone nothing onto it before dbcheck has read its rows"
_TO_SEE_CLONES = (
    "Before the next cut, set performance_schema = ON, and grant dbcheck's account"
    " SELECT on performance_schema.clone_status"
)
_OF_THE_PLUGIN = "clone_buffer_size"  # a variable that only the clone plugin has
_OF_A_GROUP = (
    "Cut again with group_replication_start_on_boot = OFF, and start it in its group"
    " only once dbcheck has read its rows; or test the whole group (dbcheck_topology:"
    " group-replication)"
)
# What a counter above 0 shows, and what to do.  Com_... also counts statements that
# failed.  The first, of MySQL 8.1 and later, counts no failure, but each START
# GROUP_REPLICATION sets it to 0 again, one that fails as well: 0 clears nobody.
_STARTED = {
    "gr_total_messages_sent_count": (
        "was a member of a replication group after its last start",
        _OF_A_GROUP,
    ),
    "com_group_replication_start": (
        "was told after its last start to join its replication group (which may have"
        " failed)",
        _OF_A_GROUP,
    ),
    **dict.fromkeys(
        (
            *("com_replica_start", "com_slave_start"),  # MySQL
            *("com_start_slave", "com_start_all_slaves"),  # MariaDB
        ),
        (
            "was told after its last start to replicate from another server (which may"
            " have failed)",
            _OF_A_REPLICA,
        ),
    ),
}


def refill_of(link: MysqlLink, since_us: int) -> Refill | None:
    """Return what the server may have taken from others, None if nothing shows any.

    since_us: as Engine.refill() has it.  Raise EngineError.
    """
    if is_replica(link, link.product):
        how = "follows another server as its replica"
        return Refill(how, _OF_A_REPLICA, replaces=True)
    variables = lowered(link.rows("variables"))
    status = lowered(link.rows("refill"))
    if node := in_galera(variables, status):
        return Refill(node, _OF_A_CLUSTER, replaces=True)
    cloned = _cloned(link, since_us, variables)
    if cloned is not None and not cloned.unknown:
        return cloned
    if joined := in_group(link, variables):
        return Refill(joined, _OF_A_GROUP)
    for counter, (how, advice) in _STARTED.items():
        if status.get(counter, "0") not in OFF:
            return Refill(how, advice)
    return cloned


def _cloned(
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
        for (begun,) in link.rows("cloned", {"since_us": since_us}):
            how = f"was cloned from another server, from {begun} on"
            return Refill(how, _OF_A_CLONE, replaces=True)
    except (ConnectionLost, OtherServer):
        raise  # it may show them to the next connection
    except EngineError as error:
        why = str(error)
    if not why or _OF_THE_PLUGIN not in variables:
        return None
    how = f"may have been cloned from another one: dbcheck cannot see that ({why})"
    return Refill(how, _TO_SEE_CLONES, unknown=True)


def in_galera(variables: Mapping[str, str], status: Mapping[str, str]) -> str:
    """Return that the server is in a Galera cluster, as in Refill.how; "" if it is not.

    variables, status: lowered().  wsrep_on = OFF keeps its own commits from the others,
    and theirs go on to reach it.
    """
    if galera.is_node(variables):
        return "is a node of a Galera cluster (wsrep_on is ON)"
    if status.get("wsrep_connected", "OFF").upper() not in OFF:
        return "is a node of a Galera cluster (wsrep_connected is ON)"
    return ""


def in_group(link: MysqlLink, variables: Mapping[str, str]) -> str:
    """Return that the server is in a replication group, or joins it at startup.

    As in Refill.how; "" if neither is seen.  variables: lowered(); they alone count for
    an account without SELECT on performance_schema.replication_group_members, and with
    performance_schema = OFF.
    """
    with unless_refused():
        for (state,) in link.rows("group_state"):
            return f"is a member of a replication group (its state is {state})"
    begins = variables.get("group_replication_start_on_boot", "OFF")
    if group_replication.is_member(variables) and begins not in OFF:
        return "rejoins its replication group at startup"
    return ""


def lowered(rows: Sequence[Any]) -> dict[str, str]:
    """Return variables by their names in lower case: servers write some in other."""
    return {name.lower(): value for name, value in rows}
