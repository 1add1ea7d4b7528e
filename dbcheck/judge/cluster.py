"""Judges whether a standby that took over could have every commit, and had to.

Each item is None of a single server, and of a cluster whose writer is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import (
    LAST_ACK_AGE_MAX_S,
    find_cut_us,
    find_last_life_of_server_us,
    find_newest_ack_us,
)
from dbcheck.judge.headline import Survived
from dbcheck.judge.insync import judge_in_sync
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server import judge_restarted
from dbcheck.judge.server_end import decide_how_server_ended, judge_server_log
from dbcheck.model.cluster import Promise, SiteKind, judge_settings_for_promise
from dbcheck.model.cut import PowerState
from dbcheck.model.replication import (
    PromotedBy,
    Promotion,
    WriterOff,
    format_position,
    name_in_log,
)

# A standby may have the beginning of a record whose rest never came.  A record of rows
# has the images of 33 pages at most (PostgreSQL, xlogrecord.h, XLR_MAX_BLOCK_ID).
PARTIAL_RECORD_MAX = 2 << 20

_PRESENT, _CONTRADICTED = Status.PRESENT, Status.CONTRADICTED
_UNSEEN = Status.NOT_OBSERVABLE


def describe_what_was_survived(case: Case) -> Survived | None:
    """Return the failure that the commits of a cluster had to survive.

    With it goes the node that took over, if one did.  None for a single server.
    """
    promise = case.manifest.promise
    if promise is None:
        return None
    what = promise.describe(case.manifest.stagger_s)
    what = what.replace("power cut", _name_cuts_of_nodes(case, promise))
    return Survived(what, case.after.reader_name if case.promoted else "")


def _name_cuts_of_nodes(case: Case, promise: Promise) -> str:
    """Return a name of how the nodes were cut, "power cut" only if each may be that.

    Nothing loses its power where a process is killed, say.
    """
    nodes = case.manifest.nodes
    cut = [
        nodes[one].cut_class for one in promise.cut(nodes, case.manifest.writer_name)
    ]
    kills = [one.description for one in dict.fromkeys(cut) if one.keeps_power]
    power = [] if all(one.keeps_power for one in cut) else ["power cut"]
    return " or ".join((*power, *kills))


def describe_commits_on_old_primary(case: Case) -> tuple[str, ...]:
    """Count the lost commits that another node has, in words; () if none was read."""
    return tuple(
        f"left-behind: {name} still has {left.behind:,} of the commits that"
        f" {case.after.reader_name} lacks"
        for name, left in case.left.items()
        if left.behind and case.found is not None and case.found.losses
    )


def explain_missing_commits(case: Case) -> str:
    """Explain the commits that a standby lacks that took over, "" if none took over.

    It is what explains the losses best, and no part of the verdict.
    """
    if not case.promoted:
        return _explain_missing_commits_of_group(case)
    name, settings = case.after.reader_name, judge_promised_settings(case)
    if settings is not None and settings.status is Status.ABSENT:
        return settings.reason
    sync = judge_in_sync(case)
    if sync is not None and sync.status is Status.ABSENT:
        return f"the commits did not wait for {name} at the cut: {sync.reason}"
    if case.spared:
        return (
            f"commits waited for {name}, which took over without them: the server's"
            " replication or what promoted it lost them"
        )
    return ""


def _explain_missing_commits_of_group(case: Case) -> str:
    """Explain the commits that a group lacks whose nodes were all cut, else ""."""
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
    """Judge whether the writer's settings keep the promise; None of a single server.

    As they were before the load and just before the cut.
    """
    promise = case.manifest.promise
    if promise is None or case.manifest.control:
        return None
    now = (case.load.settings if case.load else None) or {}
    standby = case.manifest.nodes[case.after.reader_name].facts.settings
    name, kind, doubts = ItemId.PROMISED_SETTINGS, case.manifest.site, dict[str, None]()
    for settings in (case.writer.facts.settings, now):
        if not settings:
            continue
        kept = judge_settings_for_promise(
            kind, promise, settings, standby if case.promoted else {}
        )
        if kept.contradiction:
            return Item(name, Status.ABSENT, kept.contradiction, required=True)
        doubts |= dict.fromkeys(kept.doubts)
    if doubts:
        return Item(name, Status.ASSUMED, "; ".join(doubts), required=True)
    reason = f"nothing contradicts the promise {promise.value}"
    return Item(name, _PRESENT, reason, required=True)


def judge_writer_off(case: Case) -> Item | None:
    """Judge whether the old writer was off until the rows were read.

    One that serves clients beside the node that took over splits the cluster in two,
    and which of the two has a commit is chance.
    """
    found = _find_promotion(case)
    if found is None:
        return None
    status, reason = _judge_looks_at_writer(case.manifest.writer_name, found.old)
    return Item(ItemId.WRITER_OFF, status, reason, required=True)


def _judge_looks_at_writer(writer: str, old: Sequence[WriterOff]) -> tuple[Status, str]:
    if any(off.is_back for off in old):
        return _CONTRADICTED, (
            f"{writer} was up again before the rows were read: the cluster may have"
            " split in two"
        )
    if len(old) < 2:
        return _UNSEEN, "it was not looked at both before and after the rows were read"
    first = "after" if old[0].taken_over else "before"
    checks = f"all {len(old)} checks, the first of them {first} the promotion"
    if all(off.state is PowerState.OFF for off in old):
        return _PRESENT, f"its switch read off at {checks}"
    return Status.ASSUMED, (
        f"no connection to it succeeded at {checks}; its switch cannot read its power"
    )


def judge_promoted_node(case: Case) -> Item | None:
    """Judge whether the node that was read took over from this very writer."""
    found = _find_promotion(case)
    if found is None or case.after.facts is None:
        return None
    status, reason = _judge_promotion(case, found)
    return Item(ItemId.PROMOTED, status, reason, required=True)


def _judge_promotion(case: Case, found: Promotion) -> tuple[Status, str]:
    name, descent = case.after.reader_name, found.descent
    if wrong := _find_more_advanced_node(case, name, found):
        return _CONTRADICTED, wrong
    if wrong := _find_received_from_writer_alone(case, name, found):
        return _UNSEEN, wrong
    if descent is None or descent.unread:
        why = descent.unread if descent else "it could not be asked"
        return _UNSEEN, f"whose log {name} continues is not known: {why}"
    what, writer = name_in_log(case.writer.facts.identity)
    if writer not in descent.parents:
        others = ", ".join(descent.parents) or "none"
        return _CONTRADICTED, (
            f"{name} continues {what} {others}, and the writer was {what} {writer}"
        )
    at = _format_position(case, descent.parents[writer])
    began = f" and began {what} {descent.own}" if descent.own else ""
    return _PRESENT, f"{name} continues {what} {writer} up to {at}{began}"


def _find_received_from_writer_alone(case: Case, name: str, found: Promotion) -> str:
    """Return the reason why a group's node may lack the writer's last commits, or "".

    See site.group.
    """
    if not case.manifest.site.is_group:
        return ""
    received = found.received.get(name)
    if received is None or not received.members:
        return f"who the members of {name}'s view are is not known"
    if case.writer.member in received.members:
        return f"{name} still counted {case.manifest.writer_name} as a member"
    return ""


def _format_position(case: Case, position: int) -> str:
    if case.manifest.site is SiteKind.STREAMING:
        return format_position(position)
    return f"transaction {position:,}"


def _find_more_advanced_node(case: Case, name: str, found: Promotion) -> str:
    """Return the node that should have been promoted instead, in words, or "".

    What promotes by itself is a part of the cluster, and so is its choice.
    """
    if found.by is PromotedBy.AUTO or name not in found.received:
        return ""
    own = found.received[name].position or 0
    for other, received in found.received.items():
        if received.position is not None and received.position > own:
            return (
                f"{name} was promoted although {other} had received more:"
                f" {_format_position(case, received.position)},"
                f" and not {_format_position(case, own)}"
            )
    return ""


def judge_all_applied(case: Case) -> Item | None:
    """Judge whether the node that took over applied all that it had received."""
    found, name = _find_promotion(case), case.after.reader_name
    if found is None or case.after.facts is None:
        return None
    received, (_, writer) = (
        found.received.get(name),
        name_in_log(case.writer.facts.identity),
    )
    applied = found.descent.parents.get(writer) if found.descent else None
    if case.manifest.site.is_group and received is not None:
        applied = received.applied  # as it was when it was chosen, and before any read
    if received is None or received.position is None or applied is None:
        reason = f"how far {name} had received and applied is not known"
        return Item(ItemId.ALL_APPLIED, _UNSEEN, reason, required=True)
    short = received.position - applied
    reason = f"{name} had received {_format_position(case, received.position)}"
    bytewise = case.manifest.site is SiteKind.STREAMING
    if short > (PARTIAL_RECORD_MAX if bytewise else 0):
        reason += (
            f", and took over when it had applied {_format_position(case, applied)}"
        )
        return Item(ItemId.ALL_APPLIED, _CONTRADICTED, reason, required=True)
    if short > 0:
        reason += f"; its last {short:,} bytes are the beginning of a record"
    return Item(ItemId.ALL_APPLIED, _PRESENT, reason, required=True)


def judge_nodes_cut(case: Case) -> Item | None:
    """Judge whether every node lost its power at the same moment, where all were to.

    None where the writer alone was cut.  The sessions show how the writer ended and
    nothing of the others.  A standby that is read must have been cut when they ended,
    and so must each node of a group: one that kept its power gives the others what they
    lost.
    """
    promise, load = case.manifest.promise, case.load
    if promise is None or not promise.cuts_all:
        return None
    nodes, seen = case.manifest.nodes, load.nodes if load else {}
    uncut = [n for n in nodes if n not in seen or seen[n].cut is None]
    if uncut:
        reason = f"no cut of {', '.join(uncut)} is on record"
        return Item(ItemId.NODES_CUT, _UNSEEN, reason, required=True)
    if case.whole_group:
        status, reason = _judge_power_of_all_nodes(case)
    elif case.promoted:
        status, reason = _judge_spread_of_cuts(case, [case.tested_name])
    else:
        status = _PRESENT
        reason = f"the switches of {', '.join(nodes)} reported that they cut"
    return Item(ItemId.NODES_CUT, status, reason, required=True)


def _judge_power_of_all_nodes(case: Case) -> tuple[Status, str]:
    names, assumed = list(case.manifest.nodes), ""
    for name in names:
        status, reason = _judge_power_of_node(case.as_tested(name))
        if status is Status.ASSUMED:
            assumed = assumed or f"; {reason}"
        elif status is not _PRESENT:
            return status, reason
    status, reason = _judge_spread_of_cuts(case, names)
    if assumed and status is _PRESENT:
        status = Status.ASSUMED
    return status, reason + assumed


def _judge_power_of_node(one: Case) -> tuple[Status, str]:
    """Judge whether the tested node of *one*, a member of a group, was cut.

    Its server must have started anew, and must not have been shut down before.
    """
    name = one.tested_name
    again = judge_restarted(one)
    if again is None:
        return _UNSEEN, f"the server of {name} was not asked whether it started anew"
    if again.status is not _PRESENT:
        return _CONTRADICTED, f"the server of {name} did not restart: it was not cut"
    found = decide_how_server_ended(one)
    if found.recorded:
        reason = f"the host of {name} shut down in an orderly way: {found.recorded}"
        return _CONTRADICTED, reason
    log = judge_server_log(one)
    if log is not None and log.status is _CONTRADICTED:
        return _CONTRADICTED, f"{name}: {log.reason}"
    if found.exact or (found.logged and not found.innodb):
        return _PRESENT, ""
    if found.seems_crashed or found.cache_lost or found.seen_off:
        return Status.ASSUMED, f"that {name} was not shut down before is assumed"
    return _UNSEEN, (
        f"nothing shows that {name} lost its power and was not shut down: its switch"
        " cannot read it, and its host was not asked (ansible_host, dbcheck_ask_host)"
    )


def _judge_spread_of_cuts(case: Case, names: Sequence[str]) -> tuple[Status, str]:
    """Judge whether these nodes, whose cuts are on record, were cut with the writer."""
    load, cuts = case.load, ", ".join(case.manifest.nodes)
    last_us = find_newest_ack_us(load) if load else None
    status, latest, late_s = _PRESENT, names[0], 0.0
    for name in names:
        went_us, exact = _find_power_loss_us(case, name)
        if went_us is None or last_us is None:
            return _UNSEEN, (
                f"when {name} lost its power is not known: no session is connected to"
                " it, and its switch does not say (ask its host: ansible_host)"
            )
        if not exact:
            status = Status.ASSUMED
        if (after_s := (went_us - last_us) / 1e6) >= late_s:
            latest, late_s = name, after_s
    reason = f"{cuts} were cut, {latest} {late_s:.3f} s after the last ack"
    if late_s >= LAST_ACK_AGE_MAX_S + case.manifest.stagger_s:
        return Status.ABSENT, (
            f"{reason}: it had time to write what it had only received"
        )
    return status, reason


def _find_power_loss_us(case: Case, name: str) -> tuple[int | None, bool]:
    """Return the time of a node's power loss, and True if it was seen, not inferred."""
    one = case.as_tested(name)
    seen = one.at_the_cut
    if seen.cut is not None and seen.cut.exact_us is not None:
        return seen.cut.exact_us, True
    if name == case.manifest.writer_name:
        return find_cut_us(one), False
    if seen.heard_us is None:
        return None, False
    return max(seen.heard_us, find_last_life_of_server_us(one) or 0), False


def judge_all_members(case: Case) -> Item | None:
    """Judge whether the node that was read is in a group with all the others again.

    None unless all nodes of a group were to lose their power.  One that is missing may
    have what the others lack, and a group that began without it has lost that; one that
    was not cut may have given them what they lost.
    """
    if not case.whole_group:
        return None
    status, reason = _judge_membership(case)
    return Item(ItemId.MEMBERS, status, reason, required=True)


def _judge_membership(case: Case) -> tuple[Status, str]:
    nodes, name, found = case.manifest.nodes, case.after.reader_name, None
    if case.after.facts is None:
        return _UNSEEN, f"{name} takes no queries, whatever the other nodes have"
    if case.after.promotion is not None:
        found = case.after.promotion.received.get(name)
    seen = found.members if found else ()
    if missing := [each for each, node in nodes.items() if node.member not in seen]:
        return _UNSEEN, (
            f"{name} sees {len(seen)} members; missing: {', '.join(missing)}"
        )
    members = [node.member for node in nodes.values()]
    load = case.load.replication if case.load else None
    before = [each for change in load.changes for each in change.names] if load else []
    if strange := [each for each in (*seen, *before) if each not in members]:
        return _CONTRADICTED, (
            f"{strange[0]} is or was a member as well, and is not one of the nodes that"
            " were cut: it may have given them what they lost"
        )
    return _PRESENT, f"{name} is one of {len(seen)} members"


def judge_nodes_agree(case: Case) -> Item | None:
    """Judge whether the other nodes hold the rows of the one that was read.

    None if none was to be compared: those of a group, and nodes that rejoined.
    """
    others, reader = case.after.others, case.after.reader_name
    if not others:
        return None
    unread = [f"{n}: {one.not_done}" for n, one in others.items() if one.not_done]
    failed = [f"{n}: {one.failure}" for n, one in others.items() if one.failure]
    wrong, extra = (
        [describe_divergence(case), *failed],
        describe_extra_rows_of_rejoined(case),
    )
    if any(wrong):
        status, reason = _CONTRADICTED, "; ".join(filter(None, (*wrong, extra)))
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

    They break no promise: what was acknowledged among them is lost in any case.
    """
    reasons = (
        one.extra_reason(name, case.after.reader_name)
        for name, one in case.after.others.items()
    )
    return "; ".join(filter(None, reasons))


def describe_divergence(case: Case) -> str:
    """Describe the rows that nodes lack or have otherwise than the node read, or ""."""
    reasons = (
        one.reason(name, case.after.reader_name)
        for name, one in case.after.others.items()
    )
    return "; ".join(filter(None, reasons))


def _find_promotion(case: Case) -> Promotion | None:
    return case.after.promotion if case.promoted else None
