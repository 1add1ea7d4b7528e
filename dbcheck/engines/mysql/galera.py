"""A node of a MariaDB Galera cluster: who is in its view, and how far it has come.

A commit is answered once all nodes of the view have received it, and each applies it by
itself afterwards (MariaDB documentation, About Galera Replication).

The module is one of the implementations of replicating.ClusterProtocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.link import MysqlLink, MysqlWatch, require_off
from dbcheck.model.cluster import IGNORE_MAJORITY
from dbcheck.model.replication import (
    GALERA_CLUSTER,
    Descent,
    Follower,
    Membership,
    Received,
)

UNREPLICATED = "wsrep_on = OFF in its own sessions"
_OFF = ("off", "0", "")
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_SYNCED, _DONOR = "4", "2"
_NAME_MAX = 31  # wsrep_api.h, WSREP_MEMBER_NAME_LEN, less its final zero


def is_node(variables: Mapping[str, str]) -> bool:
    """Return True if a server with these variables is a node of a cluster."""
    provider = variables.get("wsrep_provider", "none")
    return variables.get("wsrep_on", "").lower() not in _OFF and provider not in (
        "",
        "none",
    )


def parse_quorum_options(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the IGNORE_MAJORITY options found in wsrep_provider_options."""
    found = {}
    for part in variables.get("wsrep_provider_options", "").split(";"):
        name, _, value = part.partition("=")
        if name.strip() in IGNORE_MAJORITY:
            found[name.strip()] = value.strip()
    return found


@dataclass(frozen=True, slots=True)
class View:
    """State of a node in its Galera cluster.

    cluster:  the cluster's state UUID, "" while it is not known.
    primary:  it is among the majority.
    members:  the names of the nodes in its view, its own among them; () while they
              change.
    takes_writes: it takes them, and has all that the others have.
    is_readable: it can be read: synced, or donor for a state transfer.
    committed: the newest transaction that it has committed.
    queued:   how many it has received and not begun to apply.
    """

    cluster: str
    primary: bool
    members: tuple[str, ...]
    takes_writes: bool
    is_readable: bool
    committed: int
    queued: int


def parse_view(
    status: Iterable[tuple[str, str]], members: Iterable[tuple[str]] = ()
) -> View:
    """Return the view from the rows of galera_status.sql and galera_members.sql."""
    found = {name.lower(): str(value) for name, value in status}
    names = tuple(sorted(name for (name,) in members))
    cluster = found.get(GALERA_CLUSTER, "")
    primary = found.get("wsrep_cluster_status", "").lower() == "primary"
    is_list_complete = len(names) == int(found.get("wsrep_cluster_size", "0"))
    ready = primary and found.get("wsrep_ready", "").lower() == "on"
    state = found.get("wsrep_local_state")
    return View(
        cluster="" if cluster == _NO_CLUSTER else cluster,
        primary=primary,
        members=names if primary and is_list_complete else (),
        takes_writes=ready and state == _SYNCED,
        is_readable=ready and state in (_SYNCED, _DONOR),
        committed=int(found.get("wsrep_last_committed", "0")),
        queued=int(found.get("wsrep_local_recv_queue", "0")),
    )


class Members(MysqlWatch):
    """A connection to a node that lists the others in its view; see ports.connection.

    Every one of them has received what a client was answered.
    """

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._own = _read_node_uuid(link)

    def read(self) -> Sequence[Follower]:
        (found,) = self._texts("galera_followers")
        return [
            Follower(str(name), "streaming", "sync", continuity or "", str(uuid))
            for name, uuid, continuity in found
            if uuid != self._own
        ]


def followers(link: MysqlLink) -> Members:
    """Take over *link*; return what lists the other nodes."""
    return Members(link)


def leave_replication(link: MysqlLink) -> None:
    """Have the commits of this session reach no other node.

    sql_log_bin does not do that: in a lab, commits with 0 were on each node (MariaDB
    10.11; documentation, Galera Cluster System Variables, wsrep_on).
    Raise EngineError, also if the session does not keep the setting.
    """
    link.rows("leave_cluster")
    require_off(link, "in_cluster", "wsrep_on is ON")


def membership(link: MysqlLink) -> Membership | None:
    """Return this node's name and UUID and the cluster's state UUID."""
    view = _read_view(link)
    if not view.is_readable:
        return None
    return Membership(_read_node_name(link), view.cluster, _read_node_uuid(link))


def received(link: MysqlLink) -> Received:
    """Return this node's position, and the members in its view."""
    view = _read_view(link)
    if not view.takes_writes or not view.cluster:
        return Received(None, None)
    return Received(
        view.committed + view.queued, view.committed, view.primary, view.members
    )


def promote(link: MysqlLink) -> None:
    """Raise EngineError: the nodes themselves decide who takes writes."""
    raise EngineError(
        "a node of a Galera cluster is not promoted",
        id=ErrorId.PROMOTION_NOT_FOR_GROUP,
        hint="Set dbcheck_topology: galera.",
    )


def takes_writes(link: MysqlLink) -> bool:
    """Return True if this node takes writes, and has all that the others have."""
    return _read_view(link).takes_writes


def descent(link: MysqlLink) -> Descent:
    """Return this node's last position in the cluster's history."""
    view = _read_view(link)
    return Descent({view.cluster: view.committed} if view.cluster else {})


def read_cluster_id(link: MysqlLink) -> str:
    """Return the UUID of this node's cluster, "" while that is not known."""
    return parse_view(link.rows("galera_status")).cluster


def _read_view(link: MysqlLink) -> View:
    status = link.rows("galera_status")
    without_members = parse_view(status)
    if not without_members.primary:  # no table can be read then
        return without_members
    return parse_view(status, link.rows("galera_members"))


def _read_node_name(link: MysqlLink) -> str:
    """Return the node's name as the table of the members has it."""
    return str(dict(link.rows("cluster_node"))["wsrep_node_name"])[:_NAME_MAX]


def _read_node_uuid(link: MysqlLink) -> str:
    """Return the node's UUID in the table of the members."""
    ((_, uuid),) = link.rows("galera_uuid")
    return str(uuid)
