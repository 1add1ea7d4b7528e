"""Judges whether commits waited for the node that took over, up to the cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import (
    find_cut_us,
    find_newest_observation,
    measure_longest_passed_s,
)
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.cluster import SiteKind, read_replica_timeout_ms
from dbcheck.model.records import NodeBefore
from dbcheck.model.replication import (
    ADDRESS,
    SLOT,
    ReplicationSeen,
    find_repeated_names,
)
from dbcheck.model.standbys import STANDBY_NAMES, parse_standby_names

# Fewer samples are enough if each Follower.continuity shows that no wait was
# interrupted.
SAMPLES_PER_S_MIN = 10.0
SAMPLE_AGE_MAX_S = 0.5  # age of the last sample, at the cut
# Age of the last sample if only an administrator could have changed the state after it.
LATE_SAMPLE_MAX_S = 2.0

_PRESENT, _CONTRADICTED = Status.PRESENT, Status.CONTRADICTED
_UNSEEN = Status.NOT_OBSERVABLE


def judge_in_sync(case: Case) -> Item | None:
    """Judge whether commits waited for the node that took over, at the cut.

    The writer's counters are lost with it, so it was sampled throughout the load.
    The commits of a control are told not to wait: of one, only a standby that is none
    of the nodes counts.
    """
    if not case.promoted:
        return None
    seen = case.load.replication if case.load else None
    if case.manifest.control:
        if seen is None or (stranger := _find_standby_of_no_node(case, seen)) is None:
            return None
        reason = _describe_stranger(stranger)
        return Item(ItemId.IN_SYNC, _CONTRADICTED, reason, required=False)
    status, reason = _UNSEEN, "the writer was not asked during the load"
    if seen is not None:
        status, reason = _judge_awaited_standbys(case, seen)
    return Item(ItemId.IN_SYNC, status, reason, required=True)


def find_awaited_nodes(case: Case) -> frozenset[str] | None:
    """Return the names of the nodes that the writer listed as awaited up to the cut.

    None if that is not known: the writer was not asked, or a name may be another's.
    """
    seen = case.load.replication if case.load else None
    if seen is None or _find_standby_of_no_node(case, seen) is not None:
        return None
    if _find_ambiguous_name(case, seen):
        return None
    last = seen.last(_find_first_standby_cut_us(case))
    shown = dict(zip_longest(last.names, last.connections))
    return frozenset(
        name
        for name, node in case.manifest.nodes.items()
        if node.member in shown
        and _may_be_connection_of(node, list(filter(None, [shown[node.member]])))
    )


def _judge_awaited_standbys(case: Case, seen: ReplicationSeen) -> tuple[Status, str]:
    """Judge by the standbys that commits waited for, by name and by connection.

    A node's member is the name by which the writer lists it.
    """
    name, nodes = case.after.reader_name, case.manifest.nodes
    node = nodes[name]
    stranger = _find_standby_of_no_node(case, seen)
    if stranger is not None:
        return _CONTRADICTED, _describe_stranger(stranger)
    if ambiguous := _find_ambiguous_name(case, seen):
        return _CONTRADICTED, ambiguous
    span_s = max(1e-6, (seen.last_us - seen.first_us) / 1e6)
    rate = (seen.samples - 1) / span_s
    first_standby_cut_us = _find_first_standby_cut_us(case)
    awaited = seen.awaited(first_standby_cut_us)
    unbroken = seen.is_unbroken(first_standby_cut_us)
    member, last = node.member, seen.last(first_standby_cut_us)
    shown = _describe_awaited(case, awaited)
    reason = (
        f"{seen.samples} samples, {rate:.0f} a second; by the writer's list commits"
    )
    reason += f" waited for {shown}"
    if unbroken:
        reason += ", without a break by the server's own count"
    if member not in awaited:
        return Status.ABSENT, f"{reason}, and not for {name} ({member})"
    connection = last.connections[awaited.index(member) :][:1]
    if not _may_be_connection_of(node, connection):
        return Status.ABSENT, (
            f"{reason}, over another connection than that of {name}: {node.connection}"
        )
    if rate < SAMPLES_PER_S_MIN and not unbroken:
        return _UNSEEN, f"{reason}: fewer than {SAMPLES_PER_S_MIN:g} show too little"
    cannot_end_by_itself = (
        unbroken and awaited == (member,) and _waits_without_timeout(case)
    )
    return _judge_age_of_last_sample(
        case, seen, reason, cannot_end_by_itself=cannot_end_by_itself
    )


def _describe_awaited(case: Case, awaited: Sequence[str]) -> str:
    """Return the standbys that commits waited for, all or any of them, in words.

    With ANY 1 (a, b) a commit is answered once one of the two has it (PostgreSQL 17
    manual, 19.6.2): so it is with Patroni's synchronous_mode: quorum.  Which of them
    takes over is then decided by whoever promotes it.
    """
    shown = ", ".join(awaited) or "no standby"
    demand = parse_standby_names(case.writer.facts.settings.get(STANDBY_NAMES, ""))
    if demand.of_any and len(awaited) > demand.count:
        return f"any {demand.count} of {shown}"
    return shown


def _judge_age_of_last_sample(
    case: Case, seen: ReplicationSeen, reason: str, *, cannot_end_by_itself: bool
) -> tuple[Status, str]:
    """Judge by how old the last sample was at the cut.

    cannot_end_by_itself: the writer goes on to wait for the standbys that the sample
    shows, unless somebody changes that.
    """
    name, cut_us = case.after.reader_name, find_cut_us(case)
    if cut_us is None:
        return _UNSEEN, f"{reason}; when the power went is not known"
    age_s = (cut_us - seen.last_us) / 1e6
    if case.load is not None:  # the client's clock may have stood still
        age_s = measure_longest_passed_s(
            find_newest_observation(case.load), seen.last_us, cut_us
        )
    reason += f"; the last {max(0.0, age_s):.3f} s before the cut, the longest pause"
    reason += f" {seen.gap_us / 1e6:.3f} s"
    if doubt := _find_assumption_about_name(case.manifest.nodes[name]):
        reason += f"; assumed of {name}: {doubt}"
    if age_s <= SAMPLE_AGE_MAX_S:
        return _PRESENT if not doubt else Status.ASSUMED, reason
    if cannot_end_by_itself and age_s <= LATE_SAMPLE_MAX_S:
        return Status.ASSUMED, (
            f"{reason}; it is assumed that what commits wait for was not changed in"
            " that time, and that no other standby came"
        )
    return _UNSEEN, f"{reason}, which is too old: {seen.ended or 'none came since'}"


def _find_standby_of_no_node(case: Case, seen: ReplicationSeen) -> str | None:
    """Return the first awaited standby that is no node, None if all are nodes.

    The name that is returned may be empty.
    """
    members = {node.member for node in case.manifest.nodes.values()}
    awaited = (name for change in seen.changes for name in change.names)
    return next((name for name in awaited if name not in members), None)


def _describe_stranger(name: str) -> str:
    return (
        f"commits waited for {name} as well, which is not one of the nodes: it may have"
        " what the others lack"
    )


def _find_ambiguous_name(case: Case, seen: ReplicationSeen) -> str:
    """Return the reason why a name may be another node's, "" if nothing shows that.

    A standby that has ended may be shown without its slot for a moment.  A standby that
    uses another slot, or comes from another address, is another server.
    """
    nodes = {node.member: (name, node) for name, node in case.manifest.nodes.items()}
    # repeated: names that commits awaited twice at once.  seen.shared: names of several
    # standbys that were connected at once, whether commits awaited them or not.
    repeated = [
        member
        for change in seen.changes
        for member in find_repeated_names(change.names)
    ]
    for member in (*repeated, *seen.shared):
        if member in nodes:
            return f"several connected standbys went by the name {member}"
    for change in seen.changes:
        for member, shown in zip(change.names, change.connections, strict=False):
            name, node = nodes[member]
            uses_slot = node.connection and node.connection.startswith(SLOT)
            if not _may_be_connection_of(node, (shown,)) and not (
                uses_slot and shown.startswith(ADDRESS)
            ):
                return (
                    f"another server bore the name {member}: the writer showed"
                    f" {shown or 'nothing'}, and {name} is {node.connection}"
                )
    return ""


def _find_assumption_about_name(node: NodeBefore) -> str:
    """Return the assumption about the node's connection, "" if there is none."""
    if node.connection is None:
        return "whose connection that is was not checked"
    return node.member_doubt


def _may_be_connection_of(node: NodeBefore, shown: Sequence[str]) -> bool:
    """Return True if a connection may be the node's.

    shown: the connection, as the writer showed it; () if none was noted.
    """
    return not node.connection or not shown or shown[0] == node.connection


def _waits_without_timeout(case: Case) -> bool:
    """Return True if a writer goes on to wait for the one standby that it waits for.

    Then a sample shows what held at a cut a little later as well, unless somebody set
    the server otherwise or another standby came in between.  A commit of PostgreSQL
    waits without a limit for the standbys that synchronous_standby_names demands
    (PostgreSQL 17 manual, 26.2.8 Synchronous Replication).  A semi-synchronous source
    gives up once a commit has waited for rpl_semi_sync_source_timeout (MySQL 9.7
    manual, 19.4.10).  A replica's acknowledgement covers all commits before it, so no
    commit had waited for long when the last one was answered.  A timeout of at least
    five times LATE_SAMPLE_MAX_S then cannot have run out by a cut soon after it.  A
    group goes on without a member that it excludes.
    """
    site = case.manifest.site
    if site is SiteKind.SEMI_SYNC:
        patience = read_replica_timeout_ms(case.writer.facts.settings)
        return patience >= 5_000 * LATE_SAMPLE_MAX_S
    return site is SiteKind.STREAMING


def _find_first_standby_cut_us(case: Case) -> int | None:
    """Return the time of the first cut of another node, None if not known.

    Where all nodes are cut at one moment, the writer may live some milliseconds longer
    than a standby, and no longer list it.  Only a switch that knows the exact moment of
    its cut shows when that began.
    """
    writer, load = case.manifest.writer_name, case.load
    cuts_us = [
        node.cut.asked_us
        for name, node in (load.nodes if load else {}).items()
        if name != writer and node.cut is not None and node.cut.exact_us is not None
    ]
    return min((cut_us for cut_us in cuts_us if cut_us is not None), default=None)
