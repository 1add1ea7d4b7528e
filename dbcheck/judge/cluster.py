"""Judges whether the node of a cluster that was read had to have every commit.

Each item is None for a single server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.judge.case import Case
from dbcheck.judge.headline import Survived
from dbcheck.judge.insync import judge_in_sync
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.cluster import Promise, SiteKind, judge_settings_for_promise
from dbcheck.model.cut import PowerState
from dbcheck.model.outage import ProbeAck
from dbcheck.model.replication import (
    CutWhilePromoted,
    PromotedBy,
    Promotion,
    ReturnedWriter,
    WriterOff,
    format_position,
    name_in_log,
)
from dbcheck.model.standbys import explain_too_few_standbys
from dbcheck.model.verdict import format_count

# In bytes: a standby may have the beginning of a record whose rest never came.  A
# record of rows has the images of 33 pages at most (PostgreSQL, xlogrecord.h,
# XLR_MAX_BLOCK_ID).
PARTIAL_RECORD_MAX = 2 << 20

# A node that took no writes so long before its cut had not taken over much earlier.
LOOK_AGE_MAX_US = 100_000

_PRESENT, _CONTRADICTED = Status.PRESENT, Status.CONTRADICTED
_UNSEEN = Status.NOT_OBSERVABLE


def describe_what_was_survived(case: Case) -> Survived | None:
    """Return the failure that a cluster's commits had to survive, and who took over.

    None for a single server.
    """
    promise = case.manifest.promise
    if promise is None:
        return None
    cut = _name_cuts_of_nodes(case, promise)
    failure = promise.describe(case.manifest.stagger_s, cut)
    if case.cut_while_promoted is not None:
        failure += f", and a cut of {case.cut_while_promoted.node} while it took over"
    if case.lost_while_promoted is not None:
        failure += f", and that of {case.lost_while_promoted.node} while it took over"
    return Survived(failure, case.after.reader_name if case.promoted else "")


def _name_cuts_of_nodes(case: Case, promise: Promise) -> str:
    """Name how the nodes were cut: "power cut", other kinds of cuts, or both.

    A cut is no "power cut" if nothing loses its power, as where a process is killed.
    """
    nodes = case.manifest.nodes
    classes = [
        nodes[name].cut_class for name in promise.cut(nodes, case.manifest.writer_name)
    ]
    kills = [kind.description for kind in dict.fromkeys(classes) if kind.keeps_power]
    power = [] if all(kind.keeps_power for kind in classes) else ["power cut"]
    return " or ".join((*power, *kills))


def describe_commits_on_old_primary(case: Case) -> tuple[str, ...]:
    """Count, in words, the lost commits that each other node has; () if none has any.

    Only nodes that were read are counted.
    """
    return tuple(
        f"left-behind: {name} still has {rows_left.behind:,} of the commits that"
        f" {case.after.reader_name} lacks"
        for name, rows_left in case.left.items()
        if rows_left.behind and case.found is not None and case.found.losses
    )


def explain_missing_commits(case: Case) -> str:
    """Explain why commits are missing from a cluster, "" if it is not known.

    The explanation is the most likely cause of the losses, and no part of the verdict.
    "" for a control, whose commits were told not to wait.
    """
    if case.manifest.control:
        return ""
    if not case.promoted:
        return _explain_missing_commits_of_group(case)
    reader_name, settings = case.after.reader_name, judge_promised_settings(case)
    if settings is not None and settings.status is Status.ABSENT:
        return settings.reason
    in_sync = judge_in_sync(case)
    if in_sync is not None and in_sync.status is Status.ABSENT:
        return (
            f"the commits did not wait for {reader_name} at the cut: {in_sync.reason}"
        )
    if case.cut_while_promoted is not None:
        return (
            f"commits waited for {reader_name}, and its cut while it took over lost"
            " them: its drive had not kept what the server flushed, or the promotion is"
            " not safe against a cut"
        )
    if case.reader_kept_power:
        return (
            f"commits waited for {reader_name}, which took over without them: the"
            " server's replication or what promoted it lost them"
        )
    return ""


def _explain_missing_commits_of_group(case: Case) -> str:
    """Explain why commits are missing from a group that was cut as a whole, else ""."""
    settings = judge_promised_settings(case)
    if settings is None or not case.manifest.site.is_group:
        return ""
    if settings.status is Status.ABSENT:
        return settings.reason
    return (
        f"{case.manifest.writer_name} is set to flush every commit, and the group came"
        " back without these: a drive lost them, or the group did not begin with the"
        " node that had most"
    )


def judge_promised_settings(case: Case) -> Item | None:
    """Judge whether the writer's settings keep the promise.

    The settings before the load and those just before the cut both count.  None for a
    single server, and for a control.
    """
    promise = case.manifest.promise
    if promise is None or case.manifest.control:
        return None
    at_the_cut = (case.load.settings if case.load else None) or {}
    standby = case.manifest.nodes[case.after.reader_name].facts.settings
    item_id, kind, doubts = (
        ItemId.PROMISED_SETTINGS,
        case.manifest.site,
        dict[str, None](),
    )
    for settings in (case.writer.facts.settings, at_the_cut):
        if not settings:
            continue
        kept = judge_settings_for_promise(
            kind, promise, settings, standby if case.promoted else {}
        )
        contradiction = kept.contradiction
        if case.lost_while_promoted is not None and not contradiction:
            contradiction = explain_too_few_standbys(kind, settings, lost=1)
        if contradiction:
            return Item(item_id, Status.ABSENT, contradiction, required=True)
        doubts |= dict.fromkeys(kept.doubts)
    if doubts:
        return Item(item_id, Status.ASSUMED, "; ".join(doubts), required=True)
    reason = f"nothing contradicts the promise {promise.value}"
    return Item(item_id, _PRESENT, reason, required=True)


def judge_writer_off(case: Case) -> Item | None:
    """Judge whether the old writer was off until the rows were read.

    An old writer that serves clients beside the node that took over splits the cluster
    in two, and it is then chance which of the two nodes has a commit.
    """
    promotion = _find_promotion(case)
    if promotion is None:
        return None
    writer = case.manifest.writer_name
    status, reason = _judge_checks_of_old_writer(writer, promotion.old)
    if case.uncut and status is _CONTRADICTED:
        reason = f"{writer} was not cut, and ran on beside {case.after.reader_name}"
    if promotion.returned is not None and status is not _CONTRADICTED:
        status, reason = _judge_returned_writer(case, promotion, promotion.returned)
    if acks := case.outage.list_acks_elsewhere(writer) if case.outage else []:
        status, reason = _CONTRADICTED, _describe_acks_elsewhere(case, acks)
    if status is not _CONTRADICTED and (lost := case.lost_while_promoted) is not None:
        status, reason = _add_check_of_lost_node(lost, status, reason)
    return Item(ItemId.WRITER_OFF, status, reason, required=True)


def _add_check_of_lost_node(
    lost: CutWhilePromoted, status: Status, reason: str
) -> tuple[Status, str]:
    """Add whether a node that was to take over, and lost its power, stayed off too."""
    off = lost.off
    if off is None or off.is_back:
        return _CONTRADICTED, (
            f"{lost.node}, which had been asked to take over, was up again before the"
            " rows were read: the cluster may have split in two"
        )
    if off.state is PowerState.OFF:
        return status, f"{reason}; that of {lost.node} read off once the rows were read"
    if status is _PRESENT:
        status = Status.ASSUMED
    return status, f"{reason}; that {lost.node} stayed off is assumed"


def _describe_acks_elsewhere(case: Case, acks: Sequence[ProbeAck]) -> str:
    """Describe the acks that the old writer gave after the cut, and nobody has.

    Their numbers are those of the rows (seq) in the table of the probes.
    """
    writer, reader = case.manifest.writer_name, case.after.reader_name
    numbers = [ack.seq for ack in acks]
    lasting = len(case.outage.lasting) if case.outage else 0
    which = f"{format_count(len(acks), 'commit')} of dbcheck's probes"
    if len(acks) > 1:
        which += f" (number {numbers[0]} to {numbers[-1]})"
    return (
        f"{which} got an answer after the cut, and {reader} lacks them: clients would"
        f" have lost them. {writer} went on, or the cluster has split in two: {reader}"
        f" answered {format_count(lasting, 'commit')} that it has"
    )


def _judge_returned_writer(
    case: Case, promotion: Promotion, returned: ReturnedWriter
) -> tuple[Status, str]:
    """Judge an old writer that got its power back on purpose, by no ack of its own."""
    writer = case.manifest.writer_name
    tries = case.outage.find_tries(writer) if case.outage else None
    beside = (returned.until_us - returned.back_us) / 1e6
    back = f"it had its power back beside {case.after.reader_name} for {beside:.1f} s"
    answers = all(check.answers for check in promotion.old if check.planned)
    if tries is None or case.outage is None or case.outage.unread:
        return _UNSEEN, f"{back}; whether it answered a commit was not seen"
    if not answers or (tries.tried_us or 0) < returned.back_us:
        return _UNSEEN, f"{back}; its server took no connections or was not tried"
    how = f"refused {tries.refused:,}, left {tries.hung:,} without an answer"
    last = f"; the last it said: {tries.error}" if tries.error else ""
    return Status.ASSUMED, (
        f"{back}, and answered no commit of dbcheck's probes: it {how}, since the"
        f" cut{last}"
    )


def _judge_checks_of_old_writer(
    writer: str, checks: Sequence[WriterOff]
) -> tuple[Status, str]:
    if any(check.is_back for check in checks):
        return _CONTRADICTED, (
            f"{writer} was up again before the rows were read: the cluster may have"
            " split in two"
        )
    if len(checks) < 2:
        return _UNSEEN, "it was not looked at both before and after the rows were read"
    first = "after" if checks[0].taken_over else "before"
    which = f"all {len(checks)} checks, the first of them {first} the promotion"
    if all(check.state is PowerState.OFF for check in checks):
        return _PRESENT, f"its switch read off at {which}"
    return Status.ASSUMED, (
        f"no connection to it succeeded at {which}; its switch cannot read its power"
    )


def judge_cut_while_promoted(case: Case) -> Item | None:
    """Judge whether the node that took over first lost its power on its way.

    It is the node that was read, but for one that stayed off.  None unless a lab was to
    cut it then.
    """
    planned = case.manifest.lab.get("cluster")
    is_planned = isinstance(planned, Mapping) and planned.get("cut_promoted_ms")
    cut = case.cut_while_promoted or case.lost_while_promoted
    if cut is None and not (is_planned and case.promoted):
        return None
    if cut is None:
        reason = "no cut of it is on record"
        return Item(ItemId.CUT_WHILE_PROMOTED, Status.ABSENT, reason, required=True)
    status, reason = _judge_moment_of_cut(cut)
    if undone := _count_acks_undone(case, cut):
        status = _CONTRADICTED
        reason += (
            f"; {format_count(undone, 'commit')} of dbcheck's probes, which it answered"
            " before that, are gone"
        )
    return Item(ItemId.CUT_WHILE_PROMOTED, status, reason, required=True)


def _count_acks_undone(case: Case, cut: CutWhilePromoted) -> int:
    """Count the acks that a node gave before its cut and that it lacks afterwards."""
    tries = case.outage.find_tries(cut.node) if case.outage else None
    acks = tries.acks if tries else ()
    return sum(ack.lasted is False and ack.acked_us < cut.gone_us for ack in acks)


def _judge_moment_of_cut(cut: CutWhilePromoted) -> tuple[Status, str]:
    reason = (
        f"{cut.node} lost its power {_ms(cut.gone_us - cut.asked_us)} after it was"
        " asked to take over"
    )
    if cut.taken_us is not None and cut.taken_us <= cut.gone_us:
        reason += f", and took writes {_ms(cut.gone_us - cut.taken_us)} before that"
        back = "; it came back as a standby all the same" if cut.again else ""
        return Status.ABSENT, reason + back
    if cut.again or cut.off is not None:
        is_ordered = cut.answered_us is not None and cut.answered_us <= cut.gone_us
        if cut.again:
            reason += "; it came back as a standby"
            reason += ", and took over when it was asked again"
        if is_ordered:
            return _PRESENT, reason
        return Status.ASSUMED, f"{reason}; that the first order reached it is assumed"
    if cut.looked_us is None or cut.gone_us - cut.looked_us > LOOK_AGE_MAX_US:
        return _UNSEEN, f"{reason}; whether it took writes by then was not seen"
    looked = _ms(cut.gone_us - cut.looked_us)
    return _PRESENT, (
        f"{reason}, and took no writes {looked} before that; it came back as the writer"
    )


def _ms(duration_us: int) -> str:
    return f"{duration_us / 1000:.0f} ms"


def judge_promoted_node(case: Case) -> Item | None:
    """Judge whether the node that was read took over from this very writer."""
    promotion = _find_promotion(case)
    if promotion is None or case.after.facts is None:
        return None
    status, reason = _judge_promotion(case, promotion)
    return Item(ItemId.PROMOTED, status, reason, required=True)


def _judge_promotion(case: Case, promotion: Promotion) -> tuple[Status, str]:
    name, descent = case.after.reader_name, promotion.descent
    if doubt := _find_more_advanced_node(case, name, promotion):
        return _CONTRADICTED, doubt
    if doubt := _explain_incomplete_receipt(case, name, promotion):
        return _UNSEEN, doubt
    if descent is None or descent.unread:
        why = descent.unread if descent else "it could not be asked"
        return _UNSEEN, f"whose log {name} continues is not known: {why}"
    log_name, writer = name_in_log(case.writer.facts.identity)
    if writer not in descent.parents:
        others = ", ".join(descent.parents) or "none"
        return _CONTRADICTED, (
            f"{name} continues {log_name} {others}, and the writer was {log_name}"
            f" {writer}"
        )
    position = _format_position(case, descent.parents[writer])
    own_log = f" and began {log_name} {descent.own}" if descent.own else ""
    return _PRESENT, f"{name} continues {log_name} {writer} up to {position}{own_log}"


def _explain_incomplete_receipt(case: Case, name: str, promotion: Promotion) -> str:
    """Explain why a group's node may lack the writer's last commits, or return "".

    The node must have taken the writer out of its view of the group; see site.group.  A
    writer that was not cut may be a member again, which the evidence "old writer off"
    holds against the run.
    """
    if not case.manifest.site.is_group or case.uncut:
        return ""
    received = promotion.received.get(name)
    if received is None or not received.members:
        return f"who the members of {name}'s view are is not known"
    if case.writer.member in received.members:
        return f"{name} still counted {case.manifest.writer_name} as a member"
    return ""


def _format_position(case: Case, position: int) -> str:
    if case.manifest.site is SiteKind.STREAMING:
        return format_position(position)
    return f"transaction {position:,}"


def _find_more_advanced_node(case: Case, name: str, promotion: Promotion) -> str:
    """Return the node that should have been promoted instead, in words, or "".

    Always "" if the cluster promoted the node by itself: the choice is then a part of
    what is tested.
    """
    if promotion.by is PromotedBy.AUTO or name not in promotion.received:
        return ""
    own, lost = promotion.received[name].position or 0, case.lost_while_promoted
    for other, received in promotion.received.items():
        if lost is not None and other == lost.node:
            continue
        if received.position is not None and received.position > own:
            return (
                f"{name} was promoted although {other} had received more:"
                f" {_format_position(case, received.position)},"
                f" and not {_format_position(case, own)}"
            )
    return ""


def judge_all_applied(case: Case) -> Item | None:
    """Judge whether the node that took over applied all that it had received."""
    promotion, name = _find_promotion(case), case.after.reader_name
    if promotion is None or case.after.facts is None:
        return None
    received, (_, writer) = (
        promotion.received.get(name),
        name_in_log(case.writer.facts.identity),
    )
    applied = promotion.descent.parents.get(writer) if promotion.descent else None
    if received is not None and (
        case.manifest.site.is_group or case.cut_while_promoted is not None
    ):
        # When the node was chosen: before any reading, and before its own cut.
        applied = received.applied
    if received is None or received.position is None or applied is None:
        reason = f"how far {name} had received and applied is not known"
        return Item(ItemId.ALL_APPLIED, _UNSEEN, reason, required=True)
    missing = received.position - applied
    reason = f"{name} had received {_format_position(case, received.position)}"
    bytewise = case.manifest.site is SiteKind.STREAMING
    if missing > (PARTIAL_RECORD_MAX if bytewise else 0):
        reason += (
            f", and took over when it had applied {_format_position(case, applied)}"
        )
        return Item(ItemId.ALL_APPLIED, _CONTRADICTED, reason, required=True)
    if missing > 0:
        reason += f"; its last {missing:,} bytes are the beginning of a record"
    return Item(ItemId.ALL_APPLIED, _PRESENT, reason, required=True)


def judge_all_members(case: Case) -> Item | None:
    """Judge whether the node that was read is in a group with all the others again.

    None unless all nodes of a group were to lose their power.  A node that is missing
    may have what the others lack, which a group that began without the node has lost.
    A member that was not cut may have given the others what they lost.
    """
    if not case.whole_group:
        return None
    status, reason = _judge_membership(case)
    return Item(ItemId.MEMBERS, status, reason, required=True)


def _judge_membership(case: Case) -> tuple[Status, str]:
    nodes, name, received = case.manifest.nodes, case.after.reader_name, None
    if case.after.facts is None:
        return _UNSEEN, f"{name} takes no queries, whatever the other nodes have"
    if case.after.promotion is not None:
        received = case.after.promotion.received.get(name)
    members_seen = received.members if received else ()
    if missing := [
        member for member, node in nodes.items() if node.member not in members_seen
    ]:
        return _UNSEEN, (
            f"{name} sees {len(members_seen)} members; missing: {', '.join(missing)}"
        )
    members = [node.member for node in nodes.values()]
    load = case.load.replication if case.load else None
    before = (
        [member for change in load.changes for member in change.names] if load else []
    )
    if strange := [
        member for member in (*members_seen, *before) if member not in members
    ]:
        return _CONTRADICTED, (
            f"{strange[0]} is or was a member as well, and is not one of the nodes that"
            " were cut: it may have given them what they lost"
        )
    return _PRESENT, f"{name} is one of {len(members_seen)} members"


def judge_nodes_agree(case: Case) -> Item | None:
    """Judge whether the other nodes hold the rows of the node that was read.

    None if no node was to be compared.  Compared are the nodes of a group, and nodes
    that rejoined a cluster.
    """
    others, reader = case.after.others, case.after.reader_name
    if not others:
        return None
    unread = [
        f"{name}: {comparison.not_done}"
        for name, comparison in others.items()
        if comparison.not_done
    ]
    failures = [
        f"{name}: {comparison.failure}"
        for name, comparison in others.items()
        if comparison.failure
    ]
    divergences, extra = (
        [describe_divergence(case), *failures],
        describe_extra_rows_of_rejoined(case),
    )
    if any(divergences):
        status, reason = _CONTRADICTED, "; ".join(filter(None, (*divergences, extra)))
    elif extra:
        status, reason = Status.ABSENT, "; ".join((extra, *unread))
    elif unread:
        status, reason = _UNSEEN, f"not compared: {'; '.join(unread)}"
    else:
        rows = next(iter(others.values())).rows
        names = ", ".join(others)
        status = _PRESENT
        reason = f"{names}: the same {rows:,} rows of this run as on {reader}"
    return Item(ItemId.AGREE, status, reason, required=False)


def describe_extra_rows_of_rejoined(case: Case) -> str:
    """Describe the rows that only nodes that rejoined have, or "".

    These rows break no promise of their own: those among them that were acknowledged
    already count as lost on the node that was read.
    """
    reasons = (
        comparison.extra_reason(name, case.after.reader_name)
        for name, comparison in case.after.others.items()
    )
    return "; ".join(filter(None, reasons))


def describe_divergence(case: Case) -> str:
    """Describe the rows of other nodes that differ from the node read, or ""."""
    reasons = (
        comparison.reason(name, case.after.reader_name)
        for name, comparison in case.after.others.items()
    )
    return "; ".join(filter(None, reasons))


def _find_promotion(case: Case) -> Promotion | None:
    return case.after.promotion if case.promoted else None
