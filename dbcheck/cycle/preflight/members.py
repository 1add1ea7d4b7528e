"""Checks that a cluster has the nodes of the inventory and no others."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import SiteKind, Weakens, judge_settings_for_promise
from dbcheck.model.records import Manifest, NodeBefore
from dbcheck.model.replication import ADDRESS, Follower, Membership, name_in_log
from dbcheck.model.verdict import format_count
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node, Site
from dbcheck.remote.same_host import resolve
from dbcheck.rows.table import TableSpec
from dbcheck.rows.workload import PlanKind

REPLICATED_S, POLL_S = 30.0, 0.05  # until each standby must have the first rows
LISTED_S = 3.0  # until the writer must list each node


@dataclass(frozen=True, slots=True)
class _Advice:
    """Advice to the user about the nodes of a group.

    absent:  about a node that is not a member.
    strange: about a member that is not one of the nodes.
    same:    about two nodes that go by one name.
    """

    absent: str
    strange: str
    same: str


_ADVICE_ON_FOLLOWERS = _Advice(
    absent="Look into its log why replication has stopped, or remove it from the"
    " inventory's group.",
    strange="Add it to the inventory's group, or let no commit wait for it: it may have"
    " what the others lack.",
    same="Give each a name of its own: PostgreSQL, application_name in"
    " primary_conninfo; MySQL and MariaDB, server_id.",
)
_ADVICE_ON_GROUPS = {
    SiteKind.GALERA: _Advice(
        absent="Check wsrep_on, wsrep_cluster_status and wsrep_local_state there.",
        strange="Add it to the inventory's group, or stop it; an arbitrator (garbd)"
        " cannot be one of the nodes.",
        same="Give each a wsrep_node_name of its own.",
    ),
    SiteKind.GROUP_REPLICATION: _Advice(
        absent="Its MEMBER_STATE in performance_schema.replication_group_members must"
        " be ONLINE; START GROUP_REPLICATION has it join.",
        strange="Add it to the inventory's group (its MEMBER_HOST is in"
        " performance_schema.replication_group_members), or have it leave the"
        " replication group.",
        same="Two hosts of the inventory lead to one server. Name the servers"
        " themselves, not MySQL Router.",
    ),
}


def find_membership(
    site: Site, name: str, own: Mapping[str, str], writer: Mapping[str, str]
) -> Membership | None:
    """Return the cluster's entry for the node *name*.

    Return None for a writer that others follow, and for a single server.
    own, writer: identities of the node and of the writer.  Raise EngineError if a node
    that is to follow does not, or is of another cluster.
    """
    engine, writes = site.nodes[name].engine, name == site.writer_name
    if site.promise is None:
        return None
    if writes and not site.kind.is_group:
        return None
    membership, target = engine.membership(), site.nodes[name].engine.target
    if membership is None:
        why = "follows no other server"
        if site.kind.is_group:
            why = "is not a member of the cluster's majority"
        hint = _find_advice(site.kind).absent
        raise EngineError(
            f"node {name} ({target}) {why}", id=ErrorId.NODE_NOT_IN_CLUSTER, hint=hint
        )
    cluster = "system_identifier"
    ours, theirs = writer.get(cluster), own.get(cluster)
    is_other = "is of another cluster: {0} there is {1}, and the writer's is {2}"
    if membership.source:
        (cluster, ours), theirs = name_in_log(writer), membership.source
        if not site.kind.is_group:  # it may be one of the nodes, as after a promotion
            is_other = "follows the server whose {0} is {1}, and the writer's is {2}"
    if ours != theirs:
        raise EngineError(
            f"node {name} {is_other.format(cluster, theirs, ours)}",
            id=ErrorId.NODE_OF_OTHER_CLUSTER,
            hint="Have it follow the writer; or name the nodes of the writer's cluster"
            " in the inventory's group.",
        )
    return membership


def require_kind(site: Site, writer: Mapping[str, str]) -> None:
    """Raise EngineError if the writer is in a group of another kind than the site's.

    Raise it, too, if the site is a group and the writer is in no group.
    writer: the writer's identity.
    """
    groups = {kind.named_by: kind for kind in SiteKind if kind.is_group}
    named, _ = name_in_log(writer)
    found, name = groups.get(named), site.writer_name
    if found is not None and found is not site.kind:
        raise EngineError(
            f"node {name} is in a cluster of the topology {found.value}, and not"
            f" {site.kind.value}",
            id=ErrorId.TOPOLOGY_DIFFERS,
            hint=f"Set dbcheck_topology: {found.value}, or remove the settings of such"
            " a cluster from the server.",
        )
    if site.kind.is_group and found is None:
        raise EngineError(
            f"node {name} is in no cluster of the topology {site.kind.value}",
            id=ErrorId.NODE_NOT_IN_CLUSTER,
            hint=f"{_find_advice(site.kind).absent} Or set the dbcheck_topology that"
            " the servers have.",
        )


def add_connections(
    rig: Rig, nodes: Mapping[str, NodeBefore], members: Mapping[str, Membership]
) -> dict[str, NodeBefore]:
    """Return the nodes, each with the writer's connection to it.

    Show which settings contradict the promise, before anything is cut.  members: name
    of a node -> the cluster's entry for it.  Raise EngineError unless commits wait for
    nodes of the cluster alone, and the writer's list shows the connection of each node.
    """
    site = rig.site
    if site.promise is None:
        return dict(nodes)
    known = dict(nodes)
    for name, (connection, doubt) in _require_whole(site, members).items():
        known[name] = replace(nodes[name], connection=connection, member_doubt=doubt)
        if doubt:
            rig.listener.phase(Phase.PREFLIGHT, f"assumed of node {name}: {doubt}")
    settings = nodes[site.writer_name].facts.settings
    shown = dict[str, None]()
    for name, node in nodes.items():
        if name == site.writer_name:
            continue
        promise = f"the promise {site.promise.value}"
        judged = judge_settings_for_promise(
            site.kind, site.promise, settings, node.facts.settings
        )
        if judged.contradiction:
            shown[f"cannot keep {promise}: {judged.contradiction}"] = None
        shown |= {f"assumed for {promise}: {doubt}": None for doubt in judged.doubts}
    for text in shown:
        rig.listener.phase(Phase.PREFLIGHT, text)
    return known


def require_all_in_place(site: Site) -> None:
    """Raise EngineError unless every node follows the writer, or is in its group."""
    identities = {n: node.engine.facts().identity for n, node in site.nodes.items()}
    writer = identities[site.writer_name]
    found = {n: find_membership(site, n, own, writer) for n, own in identities.items()}
    _require_whole(site, {name: each for name, each in found.items() if each})


def require_in_place(site: Site, name: str) -> None:
    """Raise EngineError unless the node *name* follows the writer, or is in its group.

    What would let another server pass for it is left to require_all_in_place().
    """
    engine, writer = site.nodes[name].engine, site.writer.engine.facts().identity
    member = find_membership(site, name, engine.facts().identity, writer)
    listed = [standby.name for standby in _read_followers(site.writer)]
    if member is not None and member.name not in listed:
        raise EngineError(
            f"the writer {site.writer_name} does not list {member.name}, which node"
            f" {name} is",
            id=ErrorId.NODE_NOT_LISTED,
            hint=_find_advice(site.kind).absent,
        )


def _require_whole(
    site: Site, members: Mapping[str, Membership]
) -> dict[str, tuple[str, str]]:
    """Return the result of recognise_node() for each node but the writer.

    Raise EngineError unless commits wait for nodes of the cluster alone, and the
    writer's list shows the connection of each node.
    """
    advice = _find_advice(site.kind)
    names = [member.name for member in members.values()]
    _require_unique_names(names, advice)
    _require_members_of_site(site, names, advice)
    _require_following_writer(site, members)
    return _recognise_nodes(site, members)


def _require_following_writer(site: Site, members: Mapping[str, Membership]) -> None:
    """Raise EngineError if a node follows another node of the inventory.

    If a relay is between them, the node's own configuration does not show that.  The
    list of the node that serves it does.
    """
    if site.kind.is_group:
        return
    names = {member.name: name for name, member in members.items()}
    for upstream in members:
        for standby in _read_followers(site.nodes[upstream]):
            if name := names.get(standby.name):
                raise EngineError(
                    f"node {name} follows {upstream}, and not the writer"
                    f" {site.writer_name}: {upstream} serves a standby of its name"
                    f" ({standby.name})",
                    id=ErrorId.NODE_FOLLOWS_OTHER_NODE,
                    hint="Have it follow the writer itself, or remove it from the"
                    " inventory's group.",
                )


def _recognise_nodes(
    site: Site, members: Mapping[str, Membership]
) -> dict[str, tuple[str, str]]:
    """Return the result of recognise_node(), by the node's name.

    Raise EngineError if the writer's list does not show the nodes within LISTED_S.  A
    node that connects anew may be missing, or be listed twice, for a moment.
    """
    ends_s = time.monotonic() + LISTED_S
    others = {
        name: member for name, member in members.items() if name != site.writer_name
    }
    writer = find_address(site.writer.engine)
    while True:
        interrupt.raise_if_interrupted()
        followers = _read_followers(site.writer)
        try:
            return {
                name: recognise_node(
                    name,
                    member,
                    followers,
                    own=find_address(site.nodes[name].engine),
                    writer=writer,
                )
                for name, member in others.items()
            }
        except EngineError:
            if time.monotonic() >= ends_s:
                raise
        time.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of a server's host, and its port."""

    hosts: frozenset[str]
    port: int


def find_address(engine: Engine) -> Address:
    """Return a server's address; looks up the names of its hosts."""
    endpoints = engine.endpoints()
    hosts = (resolve(host) for host, _ in endpoints if host)
    return Address(frozenset[str]().union(*hosts), endpoints[0][1])


def recognise_node(
    name: str,
    member: Membership,
    followers: Sequence[Follower],
    *,
    own: Address,
    writer: Address,
) -> tuple[str, str]:
    """Return the writer's connection to a node, and the assumption behind it.

    The assumption is "" if nothing is assumed.  A name alone shows nothing: PostgreSQL
    takes cluster_name for the name of each standby that was given none, and Debian's
    packages give all clusters of a version one name.  A slot serves one connection at a
    time (PostgreSQL 17 manual, 26.2.6 Replication Slots), and so does a server_uuid, or
    a server_id with the host and port that the replica itself reports.  Without a slot,
    the connection must come from the node's address, and the node must receive from the
    writer's address.  Through NAT, or with a virtual address, neither is seen, and both
    are assumed.
    name: of the node.  followers: all that follow the writer.  own, writer: addresses
    of the node and of the writer.  Raise EngineError if the connection is another
    server's.
    """
    listed = [standby for standby in followers if standby.name == member.name]
    if not listed:
        raise EngineError(
            f"the writer lists no standby {member.name}, which node {name} is",
            id=ErrorId.NODE_NOT_LISTED,
            hint="Check that it follows the writer itself, and that replication runs.",
        )
    if len(listed) > 1:
        raise EngineError(
            f"{len(listed)} connected standbys go by the name {member.name}: which of"
            f" them node {name} is, and whether commits wait for it, cannot be seen",
            id=ErrorId.NODES_SHARE_NAME,
            hint=_ADVICE_ON_FOLLOWERS.same,
        )
    (standby,) = listed
    if standby.is_awaited and member.semi_sync is False:
        raise _wrong_server_error(name, standby, "the node acknowledges no commits")
    if standby.connection == member.connection:
        if standby.connection:
            return standby.connection, ""
        return (
            "",
            f"nothing but the name {standby.name} shows which connection is its own",
        )
    if member.connection or not standby.connection.startswith(ADDRESS):
        why = f"it shows {standby.connection or 'nothing'}"
        raise _wrong_server_error(
            name, standby, f"{why}, and not {member.connection or 'no slot'}"
        )
    return standby.connection, _describe_doubt(standby, member, own, writer)


def _wrong_server_error(name: str, standby: Follower, why: str) -> EngineError:
    return EngineError(
        f"the writer's connection to {standby.name} is not that of node {name}: {why}",
        id=ErrorId.NODE_NOT_RECOGNISED,
        hint="Another server bears its name, or the node follows another server: look"
        " at what the writer lists (docs/clusters.md).",
    )


def _describe_doubt(
    standby: Follower, member: Membership, own: Address, writer: Address
) -> str:
    """Return the assumption about a node that uses no slot, "" if there is none."""
    doubts = []
    comes_from = standby.connection.removeprefix(ADDRESS)
    if comes_from not in own.hosts | {member.own_address}:
        doubts.append(
            f"{comes_from}, from where {standby.name} is connected, is not known to be"
            " an address of it"
        )
    host, port = member.sender or ("", None)
    if port != writer.port or not resolve(host) & writer.hosts:
        doubts.append(
            f"{host or 'the server'}:{port}, from which it receives, is not known to be"
            " the writer"
        )
    return "; ".join(doubts) + "; a replication slot would show it" if doubts else ""


def refuse_plan_of_control(plan: PlanKind, weakens: Weakens | None) -> None:
    """Raise UsageError if no control of a cluster can run with such a workload.

    What decides a prepared transaction would reach the other nodes without it.  Rows
    without a key do not show which run wrote them, as _require_earlier_rows() asks.
    """
    if weakens is not Weakens.REPLICATION:
        return
    if plan is PlanKind.TWO_PHASE:
        why = "the other nodes would be told to commit what they do not have"
    elif plan is PlanKind.CLASSIC:
        why = "its rows do not show which run wrote them"
    else:
        return
    raise UsageError(
        f"no control of a cluster can run with a {plan.value} workload: {why}",
        id=ErrorId.CONTROL_CANNOT_PREPARE,
        hint="Run the control with another workload, such as insert.",
    )


def await_replication(
    site: Site, table: TableSpec, row_id: int, manifest: Manifest
) -> None:
    """Return once each standby has the row *row_id*, which the writer committed.

    Raise EngineError if a standby does not get it: the standby follows another server,
    or it applies nothing.  Raise EngineError also if it lacks rows of an earlier run.
    """
    for name, node in site.nodes.items():
        if name == site.writer_name:
            continue
        ends_s = time.monotonic() + REPLICATED_S
        while not _has_row(node, table, row_id):
            interrupt.raise_if_interrupted()
            if time.monotonic() >= ends_s:
                raise EngineError(
                    f"node {name} ({node.engine.target}) does not have row {row_id},"
                    f" which the writer committed {REPLICATED_S:.0f} s ago",
                    id=ErrorId.NODE_DOES_NOT_REPLICATE,
                    hint="Check that it follows this writer, that replication runs"
                    " there, and that it does not apply with a delay.",
                )
            time.sleep(POLL_S)
    if site.kind is SiteKind.SEMI_SYNC and table.has_key:
        _require_earlier_rows(site, table, manifest)


def _require_earlier_rows(site: Site, table: TableSpec, manifest: Manifest) -> None:
    """Raise EngineError if a node lacks rows of earlier runs that the writer has.

    The commits of a control that was never cut are such rows, as they are in no binary
    log.  Once another node takes over, they would look lost.
    """
    earlier = manifest.tables[table.name].rows_by_epoch
    for name, node in site.nodes.items():
        if name == site.writer_name:
            continue
        found = node.engine.count_rows(table)
        lacking = sum(
            max(0, rows - found.get(epoch, 0)) for epoch, rows in earlier.items()
        )
        if lacking:
            raise EngineError(
                f"{name} lacks {format_count(lacking, 'row')} of earlier runs that"
                f" {site.writer_name} has",
                id=ErrorId.NODE_DOES_NOT_REPLICATE,
                hint="A control that was interrupted before its cut leaves rows on the"
                " writer alone. Remove dbcheck's tables: dbcheck clean --target"
                f" {shlex.quote(site.writer.engine.target)}",
            )


def _has_row(node: Node, table: TableSpec, row_id: int) -> bool:
    with contextlib.suppress(EngineError):  # the table may not be there yet
        return node.engine.row(table, row_id) is not None
    return False


def _require_members_of_site(
    site: Site, members: Sequence[str], advice: _Advice
) -> None:
    """Raise EngineError if commits may wait for a standby that is not of the cluster.

    Commits that only such a standby has would look lost.
    """
    standbys = _read_followers(site.writer)
    if not site.kind.is_group:  # others may follow if no commit waits for them
        standbys = [standby for standby in standbys if standby.is_awaited]
    for standby in standbys:
        if standby.name not in members:
            raise EngineError(
                f"commits may wait for {standby.name}, which is not one of the nodes",
                id=ErrorId.COMMITS_WAIT_FOR_STRANGER,
                hint=advice.strange,
            )
        if not standby.is_awaited:
            raise EngineError(
                f"{standby.name} is not a full member of the group yet:"
                f" {standby.state}",
                id=ErrorId.GROUP_NOT_COMPLETE,
                hint=advice.absent,
            )
    names = [standby.name for standby in standbys]
    _require_unique_names(names, advice)
    if site.kind.is_group and len(names) < len(members) - 1:
        raise EngineError(
            f"{site.writer_name} sees {len(names)} other members, and the group has"
            f" {len(members) - 1}",
            id=ErrorId.GROUP_NOT_COMPLETE,
            hint="Try again once all nodes have joined.",
        )


def _read_followers(node: Node) -> Sequence[Follower]:
    with contextlib.closing(node.engine.open_followers()) as followers:
        return followers.read()


def _require_unique_names(names: Sequence[str], advice: _Advice) -> None:
    if len(set(names)) < len(names):
        raise EngineError(
            f"several nodes go by one name: {', '.join(sorted(names))}",
            id=ErrorId.NODES_SHARE_NAME,
            hint=advice.same,
        )


def _find_advice(kind: SiteKind) -> _Advice:
    return _ADVICE_ON_GROUPS.get(kind, _ADVICE_ON_FOLLOWERS)
