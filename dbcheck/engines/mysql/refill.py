"""Whether other servers may have given a server of the MySQL family rows back.

A member of a group, a node of a Galera cluster and a replica fetch from their peers
what they lack, whatever set them going: a setting says nothing of what an operator, a
sidecar or a script starts once the server is up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from dbcheck.core.refill import Refill
from dbcheck.engines.mysql import galera, group_replication
from dbcheck.engines.mysql.answering import is_replica
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.errors import EngineError

_OFF = frozenset({"OFF", "0", ""})
_STARTED = {
    "com_group_replication_start": "was started as a member of a replication group",
    "gr_total_messages_sent_count": "was a member of a replication group",
    **dict.fromkeys(
        (
            *("com_replica_start", "com_slave_start"),  # MySQL
            *("com_start_slave", "com_start_all_slaves"),  # MariaDB
        ),
        "was started as a replica of another server",
    ),
}


def refill_of(link: MysqlLink, since_us: int) -> Refill | None:
    """Return what the server may have taken from others, None if nothing shows any.

    since_us: as ports.abilities.ShowsRefill has it.  Raise EngineError.
    """
    if is_replica(link, link.product):
        return Refill("follows another server as its replica", replaces=True)
    variables = _lower(link.rows("variables"))
    status = _lower(link.rows("refill"))
    if galera.is_node(variables) or is_connected(status):
        how = "is a node of a Galera cluster, which may have copied its data to it"
        return Refill(how, replaces=True)
    with contextlib.suppress(EngineError):  # not there, or not for this account
        for (begun,) in link.rows("cloned", {"since_us": since_us}):
            how = f"was cloned from another server, from {begun} on"
            return Refill(how, replaces=True)
    if joined := member_state(link):
        return Refill(f"is a member of a replication group ({joined})")
    if rejoins(variables):
        return Refill("joins its replication group when it starts")
    for counter, how in _STARTED.items():
        if status.get(counter, "0") not in _OFF:
            return Refill(f"{how} since its process started")
    return None


def member_state(link: MysqlLink) -> str:
    """Return which state the server has in its replication group, as a sentence has it.

    "" if it is in none, or if the account may not see it (SELECT on
    performance_schema.replication_group_members).
    """
    with contextlib.suppress(EngineError):
        for (state,) in link.rows("group_state"):
            return f"its state is {state}"
    return ""


def rejoins(variables: Mapping[str, str]) -> bool:
    """Return whether a server with these variables joins a group when it starts."""
    begins = variables.get("group_replication_start_on_boot", "OFF")
    return group_replication.is_member(variables) and begins not in _OFF


def is_connected(status: Mapping[str, str]) -> bool:
    """Return whether a server with this status is in a Galera cluster.

    wsrep_on = OFF keeps its own commits from the others, and theirs go on to reach it.
    """
    return status.get("wsrep_connected", "OFF").upper() not in _OFF


def _lower(rows: list[Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in rows}
