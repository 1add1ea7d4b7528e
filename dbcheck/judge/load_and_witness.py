"""Judges whether commits were at risk at the cut and whether the witness holds them."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import (
    LAST_ACK_AGE_MAX_S,
    SENT_AGE_MAX_S,
    explain_missing_date,
    find_cut_us,
    find_last_canary_write_us,
    find_last_life_of_server_us,
    find_latest_cut_us,
    find_newest_ack_us,
    find_newest_observation,
    measure_longest_passed_s,
)
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.cut import FaultRecord, Gone
from dbcheck.model.records import LoadRecord
from dbcheck.model.unobserved import Observed, find_newest
from dbcheck.model.verdict import format_count
from dbcheck.model.witness import Apart

_WITHOUT_END_OF_SERVER: Mapping[Gone, tuple[Status, str]] = {
    Gone.NEVER: (Status.CONTRADICTED, "the server kept answering: no cut"),
    Gone.STALLED: (
        Status.CONTRADICTED,
        "the server stalled, then continued: no cut",
    ),
    Gone.UNSEEN: (
        Status.NOT_OBSERVABLE,
        "an interrupt, or a failure of the witness or the switch, ended the load before"
        " the server was seen to stop: cut again",
    ),
}


def judge_load_at_the_cut(case: Case) -> Item:
    """Judge whether commits were under way when the power went."""
    status, reason = _judge_commits_at_risk(case)
    return Item(ItemId.LOAD, status, reason, required=True)


def judge_fault(case: Case) -> Item | None:
    """Judge whether the user's fault was there when the power went, and was ended.

    None if there was to be none.
    """
    fault = case.fault
    if fault is None:
        return None
    status, reason = _judge_fault(case, fault)
    return Item(ItemId.FAULT, status, reason, required=True)


def _judge_fault(case: Case, fault: FaultRecord) -> tuple[Status, str]:
    node, load = fault.node, case.load
    if not fault.is_over:
        why = fault.end_failure or "the client was lost"
        return Status.NOT_OBSERVABLE, f"the fault of {node} may still be there: {why}"
    if fault.began_us is None:
        if fault.failure:
            return Status.ABSENT, f"the fault of {node} did not begin: {fault.failure}"
        return Status.ABSENT, (
            f"whether the fault of {node} began is not known: the client was lost, or"
            " its record of that is not here"
        )
    if load is None or (went_us := find_cut_us(case)) is None:
        return Status.NOT_OBSERVABLE, (
            f"the fault of {node} began, and was ended; when the cut came is not known"
        )
    into_s, before_s = fault.began_us - load.began_us, went_us - fault.began_us
    reason = (
        f"the fault of {node} was there from {into_s / 1e6:.1f} s into the load on,"
        f" {before_s / 1e6:.1f} s before the cut"
    )
    if before_s < 0:
        return Status.ABSENT, f"the fault of {node} began after the cut"
    if fault.ended_us is None or fault.ended_us < went_us:
        return Status.PRESENT, f"{reason}; a later client ended it"
    after_s = (fault.ended_us - went_us) / 1e6
    return Status.PRESENT, f"{reason}, until {after_s:.1f} s after it"


def _judge_commits_at_risk(case: Case) -> tuple[Status, str]:
    load = case.load
    if load is None:
        why = f"{case.lost}, so the load may have been over: cut again"
        return Status.NOT_OBSERVABLE, why
    if (last_us := find_newest_ack_us(load)) is None:
        return Status.ABSENT, "no commit was acknowledged"
    # A stalled server may wait for a drive without power: it is killed before the power
    # comes back.
    waits = case.drive_only and load.gone is Gone.STALLED
    if load.gone is Gone.NEVER and case.cut is not None and case.cut.by_hand:
        why = "the server kept answering: nobody cut its power in time: cut again"
        return Status.CONTRADICTED, why
    if load.gone in _WITHOUT_END_OF_SERVER and not waits:
        status, why = _WITHOUT_END_OF_SERVER[load.gone]
        is_refused = load.gone is Gone.NEVER and load.refusals  # as by a full disk
        return status, f"{why}; {load.refusals[0]}" if is_refused else why
    if case.cut is None and not load.cut_failed:
        return Status.ABSENT, "the server stopped before its power was cut"
    if not load.in_flight:
        window_was_full = (
            sum(window.acks for window in load.windows) >= case.manifest.window_acks
        )
        why = "the witness lagged and held them back" if window_was_full else "idle"
        return Status.ABSENT, f"no session waited for a reply: {why}"
    if (went_us := find_cut_us(case)) is None:
        why = explain_missing_date(case) or "the moment of the cut is not known"
        return Status.NOT_OBSERVABLE, why
    return _judge_age_of_commits(case, load, last_us, went_us)


def _judge_age_of_commits(
    case: Case, load: LoadRecord, last_ack_us: int, went_us: int
) -> tuple[Status, str]:
    """Judge the age of the last ack when the power went, and how well it is known.

    last_ack_us: from find_newest_ack_us(), so that no ack looks younger than it may be.
    """
    age_s = measure_longest_passed_s(
        find_newest_observation(load), last_ack_us, went_us
    )
    waiting = f"{format_count(load.in_flight, 'session')} waiting for a reply"
    if age_s < -LAST_ACK_AGE_MAX_S and not case.drive_only:
        return Status.CONTRADICTED, (
            f"the last ack came {-age_s:.3f} s after the power is said to have gone"
        )
    # The client may have read a reply that was on its way when the power went.
    side = "before" if age_s >= 0 else "after"
    reason = f"last commit acknowledged {abs(age_s):.3f} s {side} the cut, {waiting}"
    sent_s = measure_longest_passed_s(
        find_newest_observation(load), load.sent_us or went_us, went_us
    )
    if why := _explain_missing_risk(case, load, age_s, sent_s):
        return Status.ABSENT, f"{reason}: {why}"
    if case.cut is not None and case.cut.by_hand:
        return Status.ASSUMED, (
            f"{waiting}; nothing shows when the plug was pulled, so it is assumed that"
            " the power went when the server or its host was last heard,"
            f" {age_s:.3f} s after the last ack"
        )
    latest_s = ((find_latest_cut_us(case) or last_ack_us) - last_ack_us) / 1e6
    if (
        latest_s >= LAST_ACK_AGE_MAX_S
        and case.drive_only
        and find_last_canary_write_us(case) is None
    ):
        return Status.NOT_OBSERVABLE, (
            f"{waiting}; the drives may have lost their power {latest_s:.1f} s after "
            "the last ack, and whether the host wrote until then is not known: its "
            "canaries were not read; cut again"
        )
    if latest_s >= LAST_ACK_AGE_MAX_S:
        return Status.ASSUMED, (
            f"{waiting}; the switch reported its cut {latest_s:.1f} s after the last "
            "ack, so the power is taken to have gone when the server, or its host, was "
            f"last heard, {age_s:.3f} s after that ack"
        )
    if sent_s >= LAST_ACK_AGE_MAX_S:
        return Status.ASSUMED, (
            f"{reason}; the commits that were acked had all been sent at least "
            f"{sent_s:.1f} s before the cut, and are taken to have been flushed later"
        )
    return Status.PRESENT, reason


def _explain_missing_risk(
    case: Case, load: LoadRecord, age_s: float, sent_s: float
) -> str:
    """Return the reason why the drives may have had time to write all acks, or "".

    age_s: age of the last ack at the cut.  sent_s: time from when the newest acked
    operation was sent until the cut.
    """
    last_ack_us = find_newest_ack_us(load) or 0
    lived_s = measure_longest_passed_s(
        find_newest_observation(load),
        last_ack_us,
        find_last_life_of_server_us(case) or last_ack_us,
    )
    if lived_s >= LAST_ACK_AGE_MAX_S:
        return (
            f"the server, or its host, still answered {lived_s:.1f} s after the last "
            "ack: commits stopped first and the power went later, when the drives had "
            "had time to write; cut again"
        )
    if age_s >= LAST_ACK_AGE_MAX_S:
        return "idle or stalled"
    if sent_s >= SENT_AGE_MAX_S:
        return (
            "the commits that were acked had all been sent at least "
            f"{sent_s:.1f} s before the cut; their replies may have waited, for a "
            "standby or in a proxy, while the drives had time to write; cut again with "
            "fewer sessions or a lower --rate, or connect without the proxy"
        )
    outlived_s = ((find_last_canary_write_us(case) or last_ack_us) - last_ack_us) / 1e6
    if outlived_s >= LAST_ACK_AGE_MAX_S:
        return (
            f"the host kept writing for at least {outlived_s:.1f} s after the last "
            "ack, as its canaries show: the network or the server failed first and the "
            "power went later, when the drives had had time to write; cut again"
        )
    return ""


def judge_log_since_checkpoint(case: Case) -> Item | None:
    """Judge whether something was at risk in the server's log alone.

    None if the log's position is not known.
    """
    if case.load is None or case.load.log is None:
        return None
    at_begin, before_cut = case.load.log
    size = before_cut.written - before_cut.checkpoint
    reason = f"{size:,} bytes of log were in no checkpoint just before the cut"
    status = Status.PRESENT
    if size <= 0:
        status, reason = Status.ABSENT, "all of the log was checkpointed"
    elif at_begin.checkpoint == before_cut.checkpoint:
        reason += f", among them all {sum(case.load.acked.values()):,} acks"
    return Item(ItemId.SINCE_CHECKPOINT, status, reason, required=False)


def judge_witness_log(case: Case) -> Item:
    """Judge what the witness holds of the run."""
    if case.damage:
        return Item(ItemId.WITNESS_LOG, Status.CONTRADICTED, case.damage, required=True)
    logs = case.logs
    acks, frames = sum(log.acks for log in logs), sum(log.frames for log in logs)
    reason = f"{acks:,} acks in {frames:,} frames"
    reason += f" of {len(logs)} logs, chains intact" if logs[1:] else ", chain intact"
    if torn := sum(log.torn_bytes for log in logs):
        reason += f", a torn tail of {torn} bytes left out, as a cut leaves one"
    if case.load:
        windows = case.load.windows
        reason += (
            f"; at most {format_count(sum(window.acks for window in windows), 'ack')}"
            " waited for the log, for"
            f" {max((window.age_s for window in windows), default=0):.3f} s"
        )
    return Item(ItemId.WITNESS_LOG, Status.PRESENT, reason, required=True)


def judge_witness_at_the_cut(case: Case) -> Item | None:
    """Judge whether the witness holds acks that were young when the power went.

    If the witness lagged when the power went and never caught up, all its acks may be
    old, and none of them was at risk.  None if its log is not known.
    """
    if not case.logs:
        return None
    newest = find_newest(_list_observations(case))
    status, reason = _judge_newest_witnessed_ack(case, newest, find_cut_us(case))
    if case.clock_set and newest is not None:
        status = Status.NOT_OBSERVABLE
        reason = f"{case.clock_set}, by which the acks of several machines are dated"
    return Item(ItemId.WITNESS_AT_CUT, status, reason, required=True)


def _list_observations(case: Case) -> list[Observed]:
    """Return the observations of each log, for the acks that the witness holds."""
    observed = (case.load.observed if case.load else None) or ()
    missing = (Observed(),) * (len(case.logs) - len(observed))
    return [
        Observed(facts.newest_us, of_log.gaps)
        for facts, of_log in zip(case.logs, (*observed, *missing), strict=False)
    ]


def _judge_newest_witnessed_ack(
    case: Case, newest: Observed | None, went_us: int | None
) -> tuple[Status, str]:
    if newest is None or newest.last_ack_us is None:
        return Status.ABSENT, "it holds no ack of the load"
    if went_us is None:
        return Status.NOT_OBSERVABLE, "the moment of the cut is not known: cut again"
    age_s = measure_longest_passed_s(
        newest, newest.came_us(newest.last_ack_us), went_us
    )
    if age_s < -LAST_ACK_AGE_MAX_S and not case.drive_only:
        return Status.CONTRADICTED, (
            f"its newest ack came {-age_s:.3f} s after the power is said to have gone"
        )
    side = "before" if age_s >= 0 else "after"
    reason = f"the newest ack that it holds came {abs(age_s):.3f} s {side} the cut"
    if age_s >= LAST_ACK_AGE_MAX_S:
        return Status.ABSENT, f"{reason}: it lagged, or no later one came"
    return Status.PRESENT, reason


def judge_witness_host(case: Case) -> Item | None:
    """Judge whether the witness is on another host than the target; None in a lab."""
    if case.writer.apart is None:
        return None
    status = Status.NOT_OBSERVABLE
    reason = (
        "only addresses were compared, and a tunnel or forwarder may hide the real"
        " host: add --target-host"
    )
    if case.writer.apart is Apart.IDS:
        status = Status.PRESENT
        reason = "the target's host and the witness have different ids"
    return Item(ItemId.WITNESS_APART, status, reason, required=False)
