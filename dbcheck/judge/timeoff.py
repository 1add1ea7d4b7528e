"""Judges whether the power was off for long enough, and what was without it.

In a cluster that is also which of its nodes, and whether all at the same moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import (
    LAST_ACK_AGE_MAX_S,
    UNKNOWN,
    Elapsed,
    find_cut_us,
    find_last_life_of_server_us,
    find_newest_ack_us,
    measure_elapsed,
)
from dbcheck.judge.host import RAN_ON_S, READ_HERE, measure_last_heard_to_kernel_start
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server import judge_restarted
from dbcheck.judge.server_end import decide_how_server_ended, judge_server_log
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.model.depth import Depth
from dbcheck.model.records import AfterRecord, LoadRecord

CLOCKS_S = 1.0  # how far the clocks of client and host may differ from one another
_AGAIN = "a drive's cache may have stayed powered; cut again"
_UNBOUNDED = (
    "when the host booted, or its server answered again, is not known:"
    f" {UNKNOWN.doubt}; to know it, {READ_HERE}"
)


@dataclass(frozen=True, slots=True)
class TimeOff:
    """Bounds of the time without power of one cut, in seconds.

    meant_s:   for how long the switch was to keep the power off, or a human was asked
               to; None if the power comes back by itself.
    off_s:     from the end of the cut to the beginning of the restore, by the client's
               clock; None if that was not measured.
    off_was_read: the switch read that the power was off, at the beginning and at the
               end.
    read_by_users_program: the state came from the user's own program, so no device is
               known to have confirmed it.
    by_hand:   a human cut and restored the power.
    kernel_started_after: how long after the host was last heard its kernel started;
               below 0 if it started before that, None if it is not known to have
               started anew.
    acks_after_cut_s: how long after the switch reported its cut the last ack came.
    answered_after: how long after the last ack the server answered again; None if it
               did not.
    """

    meant_s: float | None
    off_s: float | None
    off_was_read: bool
    by_hand: bool = False
    kernel_started_after: Elapsed | None = None
    acks_after_cut_s: float = 0.0
    answered_after: Elapsed | None = None
    read_by_users_program: bool = False

    @property
    def unbounded(self) -> bool:
        """True if no clock shows the times that would bound the time off from above."""
        both = (self.kernel_started_after, self.answered_after)
        bounds = [bound for bound in both if bound is not None]
        return bool(bounds) and not any(bound.known for bound in bounds)


def judge_time_off(case: Case) -> Item | None:
    """Judge whether the drives were without power for long enough.

    None if no cut is on record, and for a lab, whose cut is exact.  Of several nodes,
    the one with the weakest evidence counts.
    """
    found = [(name, _judge_node(case.as_tested(name))) for name in case.cut_names]
    if len(found) == 1:
        return found[0][1]
    worst: Item | None = None
    for name, item in found:
        if item is not None and (
            worst is None or _rank_evidence(item) < _rank_evidence(worst)
        ):
            worst = replace(item, reason=f"{name}: {item.reason}")
    return worst


def _rank_evidence(item: Item) -> int:
    """Rank items by what they allow: no PASS, one with an assumption, or a PASS."""
    order = (Status.ASSUMED, Status.PRESENT)
    return order.index(item.status) if item.status in order else -1


def _judge_node(case: Case) -> Item | None:
    """Judge the time off of the node that *case* has as the tested one."""
    if case.load is None or case.cut is None:
        return None
    cut_class, depth = case.cut_class, case.shown_depth
    if case.whole_group:
        cut_class = case.tested.cut_class
        depth = case.own_depth.depth if case.own_depth else None
    return judge_measured_time_off(cut_class, _measure_time_off(case, case.load), depth)


def _measure_time_off(case: Case, load: LoadRecord) -> TimeOff:
    cut, meant = case.cut, None
    assert cut is not None
    if "off_s" in cut.report:
        meant = cut.report["off_s"]
        # An off_s that is no number counts as infinite, so no time off reaches it.
        meant = float(meant) if isinstance(meant, int | float) else math.inf
    return TimeOff(
        meant_s=meant,
        off_s=case.off_s,
        off_was_read=cut.off_seen,
        by_hand=cut.by_hand,
        kernel_started_after=measure_last_heard_to_kernel_start(case),
        # A server may ack without its drives.
        acks_after_cut_s=0.0
        if case.drives_gone_us is not None
        else _measure_acks_after_switch_s(load),
        answered_after=_measure_time_until_answer(load, case.after),
        read_by_users_program=case.tested.power is SwitchKind.EXEC,
    )


def _measure_acks_after_switch_s(load: LoadRecord) -> float:
    return max(0, (load.last_ack_us or 0) - (load.switched_us or math.inf)) / 1e6


def _measure_time_until_answer(load: LoadRecord, after: AfterRecord) -> Elapsed | None:
    """Measure the time from the last ack to the server's next answer, None if none.

    The power was off for no longer than that.
    """
    if load.last_ack_us is None or after.facts is None:
        return None
    return measure_elapsed(load, load.last_ack_us, after.answered)


def judge_measured_time_off(
    cut_class: CutClass, time_off: TimeOff, depth: Depth | None
) -> Item | None:
    """Judge whether the drives were without power for long enough.

    depth: how deep the cut went, None if that was not measured.
    Power supplies hold a charge for seconds.  The cache of a drive whose supply never
    fell cannot lose anything, and the cut would prove nothing about the drive.  None
    for a lab.
    """
    if cut_class in (CutClass.LAB_DRIVE, CutClass.PROCESS):
        return None
    if cut_class.keeps_power:
        reason = f"a {cut_class.value} leaves the drives powered"
        return Item(ItemId.TIME_OFF, Status.ABSENT, reason, False)
    if depth is Depth.DRIVE:
        reason = "the drive's own cache lost its power, however long it was off"
        return Item(ItemId.TIME_OFF, Status.PRESENT, reason, True)
    if time_off.meant_s is None:
        reason = "the power comes back by itself, after a time that was not measured"
        # An undeclared cut claims nothing of the drives.
        required = cut_class is not CutClass.UNKNOWN
        return Item(ItemId.TIME_OFF, Status.NOT_OBSERVABLE, reason, required)
    status, reason = _compare_with_intended_time(time_off, time_off.meant_s)
    if time_off.unbounded and status in (Status.PRESENT, Status.ASSUMED):
        status, reason = Status.ASSUMED, f"{reason}; {_UNBOUNDED}"
    return Item(ItemId.TIME_OFF, status, reason, True)


def _compare_with_intended_time(
    time_off: TimeOff, meant_s: float
) -> tuple[Status, str]:
    """Judge the time off against the time that was intended."""
    wanted = f"{meant_s:g} s"
    if not meant_s > 0:
        return Status.NOT_OBSERVABLE, f"{wanted} were intended: {_AGAIN}, for longer"
    if back := _find_early_return(time_off, meant_s):
        return Status.NOT_OBSERVABLE, f"{back} {wanted} intended: {_AGAIN}"
    if time_off.by_hand:
        return Status.ASSUMED, (
            f"the power was left off by hand for the {wanted} asked for; that was not "
            "measured"
        )
    if time_off.off_s is None:
        return Status.NOT_OBSERVABLE, (
            f"how long it was off was not measured ({wanted} intended): {_AGAIN}, and "
            "do not interrupt it"
        )
    left_s = time_off.off_s - time_off.acks_after_cut_s
    if time_off.acks_after_cut_s > CLOCKS_S and left_s < meant_s:
        return Status.NOT_OBSERVABLE, (
            f"acks came for {time_off.acks_after_cut_s:.1f} s after the switch reported"
            f" its cut, so the power was off for {max(0, left_s):.1f} s at most instead"
            f" of {wanted}: the switch acts late; keep the power off for longer"
            " (--off-seconds, dbcheck_power_off_s) and cut again"
        )
    if time_off.off_s < meant_s:
        return Status.NOT_OBSERVABLE, (
            f"it was back after {time_off.off_s:.2f} s instead of {wanted}: {_AGAIN},"
            " and do not interrupt it"
        )
    reason = f"off for {time_off.off_s:.2f} s (at least {wanted} intended)"
    if time_off.off_was_read and time_off.read_by_users_program:
        return Status.ASSUMED, (
            f"{reason} by the switch's own state command; nothing else shows that the"
            " power was off"
        )
    if time_off.off_was_read:
        return Status.PRESENT, reason
    return Status.ASSUMED, (
        f"{time_off.off_s:.2f} s passed between the cut and the restore command; the "
        "switch has no state command that would confirm that the power was off"
    )


def _find_early_return(time_off: TimeOff, meant_s: float) -> str:
    """Return the evidence that the power was back before *meant_s*, "" if none.

    Or that it may have been.  Of two such bounds the one that is sure, else the smaller
    one.  A kernel that had started long before its host was last heard is left out: the
    host did not go down, as another item says.
    """
    bounds = []
    kernel, answered = time_off.kernel_started_after, time_off.answered_after
    if kernel is not None and kernel.known and kernel.most_s >= -RAN_ON_S:
        reason = f"the host's kernel started {kernel} after the host was last heard"
        if kernel.most_s < 0:
            reason = "the host's kernel had started when the host was last heard"
        bounds.append((kernel, meant_s - CLOCKS_S, reason))
    if answered is not None and answered.known:
        reason = f"the server answered again {answered} after the last ack"
        bounds.append((answered, meant_s, reason))
    found = [
        (
            bound.most_s >= enough_s,
            bound.least_s,
            _describe_short_bound(bound, reason, enough_s),
        )
        for bound, enough_s, reason in bounds
        if bound.least_s < enough_s
    ]
    return min(found, default=(False, 0.0, ""))[2]


def _describe_short_bound(bound: Elapsed, reason: str, enough_s: float) -> str:
    """Describe a bound that is not known to be as long as *enough_s*."""
    if bound.most_s < enough_s:
        return f"{reason}, so the power was off for less than the"
    return f"{reason} ({bound.doubt}), so the power may have been off for less than the"


def judge_class_of_cut(case: Case) -> Item | None:
    """Say that nothing declared what a human cut, None where nothing rests on that."""
    least = case.shallowest.depth if case.shallowest else None
    if not case.tested.class_assumed or least is Depth.DRIVE:
        return None
    reason = (
        f"the class of the cut is assumed to be {case.cut_class.value}, as what was"
        " cut by hand was not declared (set --power-class or dbcheck_power_class)"
    )
    return Item(ItemId.CUT_CLASS, Status.ASSUMED, reason, required=True)


def judge_nodes_cut(case: Case) -> Item | None:
    """Judge whether all nodes lost their power at the same moment, if all were to.

    None where the writer alone was cut.  The sessions show how the writer ended, and
    nothing about the other nodes.  A standby that is read must have been cut when the
    sessions ended, and so must each node of a group: a node that kept its power gives
    the others what they lost.
    """
    promise, load = case.manifest.promise, case.load
    if promise is None or not promise.cuts_all:
        return None
    nodes, at_the_cut = case.manifest.nodes, load.nodes if load else {}
    uncut = [
        name for name in nodes if name not in at_the_cut or at_the_cut[name].cut is None
    ]
    if uncut:
        reason = f"no cut of {', '.join(uncut)} is on record"
        return Item(ItemId.NODES_CUT, Status.NOT_OBSERVABLE, reason, required=True)
    if case.whole_group:
        status, reason = _judge_all_nodes_were_cut(case)
    elif case.promoted:
        status, reason = _judge_cuts_came_together(case, [case.tested_name])
    else:
        status = Status.PRESENT
        reason = f"the switches of {', '.join(nodes)} reported that they cut"
    return Item(ItemId.NODES_CUT, status, reason, required=True)


def _judge_all_nodes_were_cut(case: Case) -> tuple[Status, str]:
    names, assumed = list(case.manifest.nodes), ""
    for name in names:
        status, reason = _judge_node_was_cut(case.as_tested(name))
        if status is Status.ASSUMED:
            assumed = assumed or f"; {reason}"
        elif status is not Status.PRESENT:
            return status, reason
    status, reason = _judge_cuts_came_together(case, names)
    if assumed and status is Status.PRESENT:
        status = Status.ASSUMED
    return status, reason + assumed


def _judge_node_was_cut(case: Case) -> tuple[Status, str]:
    """Judge whether the tested node of *case*, a member of a group, was cut.

    Its server must have restarted, and must not have been shut down before the cut.
    """
    name = case.tested_name
    restarted = judge_restarted(case)
    if restarted is None:
        return (
            Status.NOT_OBSERVABLE,
            f"the server of {name} was not asked whether it started anew",
        )
    if restarted.status is not Status.PRESENT:
        return (
            Status.CONTRADICTED,
            f"the server of {name} did not restart: it was not cut",
        )
    ended = decide_how_server_ended(case)
    if ended.recorded:
        reason = f"the host of {name} shut down in an orderly way: {ended.recorded}"
        return Status.CONTRADICTED, reason
    server_log = judge_server_log(case)
    if server_log is not None and server_log.status is Status.CONTRADICTED:
        return Status.CONTRADICTED, f"{name}: {server_log.reason}"
    if ended.exact or (ended.logged and not ended.innodb):
        return Status.PRESENT, ""
    if ended.seems_crashed or ended.cache_lost or ended.seen_off:
        return Status.ASSUMED, f"that {name} was not shut down before is assumed"
    return Status.NOT_OBSERVABLE, (
        f"nothing shows that {name} lost its power and was not shut down: its switch"
        " cannot read it, and its host was not asked (ansible_host, dbcheck_ask_host)"
    )


def _judge_cuts_came_together(case: Case, names: Sequence[str]) -> tuple[Status, str]:
    """Judge whether the nodes *names* were cut at the same moment as the writer.

    The cut of each of them is on record.
    """
    load, cuts = case.load, ", ".join(case.manifest.nodes)
    last_us = find_newest_ack_us(load) if load else None
    status, latest, late_s = Status.PRESENT, names[0], 0.0
    for name in names:
        went_us, exact = _find_power_loss_us(case, name)
        if went_us is None or last_us is None:
            return Status.NOT_OBSERVABLE, (
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
    """Return when a node lost its power, and True if the switch knows that time."""
    node_case = case.as_tested(name)
    at_the_cut = node_case.at_the_cut
    if at_the_cut.cut is not None and at_the_cut.cut.exact_us is not None:
        return at_the_cut.cut.exact_us, True
    if name == case.manifest.writer_name:
        return find_cut_us(node_case), False
    if at_the_cut.heard_us is None:
        return None, False
    return max(at_the_cut.heard_us, find_last_life_of_server_us(node_case) or 0), False
