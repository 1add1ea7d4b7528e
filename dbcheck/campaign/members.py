"""Who are the nodes of a cluster: those of the inventory, and no others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbcheck import interrupt
from dbcheck.campaign.rig import Rig
from dbcheck.core.promised import kept_by
from dbcheck.core.records import NodeBefore
from dbcheck.core.replication import name_in_log
from dbcheck.core.server import ServerFacts
from dbcheck.core.site import SiteKind
from dbcheck.core.table import TableSpec
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError
from dbcheck.ports.abilities import replicates
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node, Site

REPLICATED_S, POLL_S = 30.0, 0.05


@dataclass(frozen=True, slots=True)
class _Advice:
    """What to do about the nodes of a group, for a person.

    absent:  about one that is not a member.  strange: about a member that is not one of
    the nodes.  same: about two that go by one name.
    """

    absent: str
    strange: str
    same: str


_FOLLOWERS = _Advice(
    absent="Look into its log why replication has stopped, or remove it from the"
    " inventory's group.",
    strange="Add it to the inventory's group, or let no commit wait for it: it may have"
    " what the others lack.",
    same="Give each a name of its own: PostgreSQL, application_name in"
    " primary_conninfo; MySQL and MariaDB, server_id.",
)
_ADVICE = {
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


def member_of(
    site: Site, name: str, facts: ServerFacts, known: Mapping[str, NodeBefore]
) -> str:
    """Return the name by which the cluster lists the node *name*.

    "" of a writer that others follow, and of a single server.
    facts: of the node.  known: the nodes that were described before it, the writer
    first.  Raise EngineError unless a node that is to follow does, and is of the same
    cluster.
    """
    engine, writes = site.nodes[name].engine, name == site.writer_name
    if site.promise is None or not replicates(engine):
        return ""
    writer = facts.identity if writes else known[site.writer_name].facts.identity
    if writes:
        _require_kind(site, writer)
        if not site.kind.is_group:
            return ""
    membership, target = engine.membership(), site.nodes[name].engine.target
    if membership is None:
        why = "follows no other server"
        if site.kind.is_group:
            why = "is not a member of the cluster's majority"
        hint = _advice(site.kind).absent
        raise EngineError(
            f"node {name} ({target}) {why}", id=ErrorId.NODE_NOT_IN_CLUSTER, hint=hint
        )
    cluster = "system_identifier"
    ours, theirs = writer.get(cluster), facts.identity.get(cluster)
    if membership.source:
        (cluster, ours), theirs = name_in_log(writer), membership.source
    if ours != theirs:
        raise EngineError(
            f"node {name} is of another cluster: {cluster} there is {theirs}, and the"
            f" writer's is {ours}",
            id=ErrorId.NODE_OF_OTHER_CLUSTER,
            hint="Name the nodes of the writer's cluster in the inventory's group.",
        )
    return membership.name


def _require_kind(site: Site, writer: Mapping[str, str]) -> None:
    """Raise EngineError unless the writer is in a group of the site's kind, or in none.

    writer: its identity.
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
            hint=f"{_advice(site.kind).absent} Or set the dbcheck_topology that the"
            " servers have.",
        )


def require_members(rig: Rig, nodes: Mapping[str, NodeBefore]) -> None:
    """Show which settings contradict the promise, before anything is cut.

    Raise EngineError unless commits wait for nodes of the cluster alone, which can be
    distinguished by their names.
    """
    site = rig.site
    if site.promise is None:
        return
    members = [node.member for node in nodes.values() if node.member]
    advice = _advice(site.kind)
    _require_apart(members, advice)
    _require_known(site, members, advice)
    settings = nodes[site.writer_name].facts.settings
    shown = dict[str, None]()
    for name, node in nodes.items():
        if name == site.writer_name:
            continue
        of = f"the promise {site.promise.value}"
        kept = kept_by(site.kind, site.promise, settings, node.facts.settings)
        if kept.contradiction:
            shown[f"cannot keep {of}: {kept.contradiction}"] = None
        shown |= {f"assumed for {of}: {doubt}": None for doubt in kept.doubts}
    for text in shown:
        rig.listener.phase(Phase.PREFLIGHT, text)


def require_replicated(site: Site, table: TableSpec, row_id: int) -> None:
    """Return once each standby has that row, which was committed on the writer.

    Raise EngineError if one does not get it: it follows another server, whatever it
    calls itself, or it applies nothing.
    """
    for name, node in site.nodes.items():
        if name == site.writer_name:
            continue
        ends_s = time.monotonic() + REPLICATED_S
        while not _has_row(node, table, row_id):
            interrupt.require_none()
            if time.monotonic() >= ends_s:
                raise EngineError(
                    f"node {name} ({node.engine.target}) does not have row {row_id},"
                    f" which the writer committed {REPLICATED_S:.0f} s ago",
                    id=ErrorId.NODE_DOES_NOT_REPLICATE,
                    hint="Check that it follows this writer, that replication runs"
                    " there, and that it does not apply with a delay.",
                )
            time.sleep(POLL_S)


def _has_row(node: Node, table: TableSpec, row_id: int) -> bool:
    with contextlib.suppress(EngineError):  # it may lack the table, yet
        return node.engine.row(table, row_id) is not None
    return False


def _require_known(site: Site, members: Sequence[str], advice: _Advice) -> None:
    """Raise EngineError if commits may wait for a standby that is not of the cluster.

    What it alone has would look lost.
    """
    engine = site.writer.engine
    assert replicates(engine)
    with contextlib.closing(engine.open_followers()) as followers:
        found = followers.read()
    if not site.kind.is_group:  # one for which no commit waits may follow it
        found = [one for one in found if one.is_awaited]
    for one in found:
        if one.name not in members:
            raise EngineError(
                f"commits may wait for {one.name}, which is not one of the nodes",
                id=ErrorId.COMMITS_WAIT_FOR_STRANGER,
                hint=advice.strange,
            )
        if not one.is_awaited:
            raise EngineError(
                f"{one.name} is not a full member of the group yet: {one.state}",
                id=ErrorId.GROUP_NOT_COMPLETE,
                hint=advice.absent,
            )
    names = [one.name for one in found]
    _require_apart(names, advice)
    if site.kind.is_group and len(names) < len(members) - 1:
        raise EngineError(
            f"{site.writer_name} sees {len(names)} other members, and the group has"
            f" {len(members) - 1}",
            id=ErrorId.GROUP_NOT_COMPLETE,
            hint="Try again once all nodes have joined.",
        )


def _require_apart(names: Sequence[str], advice: _Advice) -> None:
    if len(set(names)) < len(names):
        raise EngineError(
            f"several nodes go by one name: {', '.join(sorted(names))}",
            id=ErrorId.NODES_SHARE_NAME,
            hint=advice.same,
        )


def _advice(kind: SiteKind) -> _Advice:
    return _ADVICE.get(kind, _FOLLOWERS)
