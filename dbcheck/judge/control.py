"""Judges a control, and what it means for the cycles after it."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.judge.case import Case
from dbcheck.judge.diagnosis import NOTHING, ByClients
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.verdict import (
    Judgement,
    describe_earlier_alterations,
    explain_replaced_table,
    judge_rows,
)
from dbcheck.model.verdict import ControlOutcome, Verdict, format_count
from dbcheck.rows.acks import PREFLIGHT_SESSION
from dbcheck.rows.loss import Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation

_NOTHING = "the control lost nothing"


def judge_control(
    judgement: Judgement,
    found: Reconciliation | None,
    strong: str = "",
    clients: ByClients = NOTHING,
) -> Judgement:
    """Return the verdict on a control, given the one on it as an ordinary cycle.

    strong: what made its commits durable all the same, "" if it was seen to be weak.
    clients: the losses that clients of the server caused.
    Only a weak control that lost nothing shows that the rig sees no losses.

    A late flush can lose the last commits of each relaxed session and nothing else, so
    any other loss is a FAIL, and so is a server that did not come back, unless what
    excuses an ordinary cycle excuses it.  Where nothing is left, not even what was
    committed before anything was relaxed, the control shows no more than an ordinary
    cycle.  A loss, too, counts only with the evidence that an
    ordinary PASS needs.  Rows that were perhaps altered before it do not invalidate
    the control: they are named beside what it lost.
    """
    unknown = found is None or (found.counts and found.all_gone)
    if found is None or unknown or explain_replaced_table(found, judgement.items):
        failed = judgement.verdict is Verdict.FAIL
        outcome = ControlOutcome.FAILED if failed else ControlOutcome.UNFAIR
        return replace(judgement, control=outcome)
    items, counts = judgement.items, found.counts
    lost = counts.pop(LossKind.MISSING_TAIL.value, 0)
    early = int((found.losses.columns["session"] == PREFLIGHT_SESSION).sum())
    if (counts or early) and judgement.verdict is Verdict.INCONCLUSIVE:
        return replace(judgement, control=ControlOutcome.UNFAIR)
    if counts and not early and sum(counts.values()) <= clients.losses:
        text = f"{_describe_loss(lost, found)}, but {'; '.join(clients.reasons)}"
        return _judged(judgement, Verdict.INCONCLUSIVE, (text,), ControlOutcome.UNFAIR)
    if counts:
        reason = (
            f"the server lost or damaged {format_count(sum(counts.values()), 'row')}"
            " other than the last commits of its sessions: its settings do not do that"
        )
        return _judged(judgement, Verdict.FAIL, (reason,), ControlOutcome.FAILED)
    if early:
        reason = (
            f"the server lost {format_count(early, 'row')} from before its sessions"
            " were set to lose commits"
        )
        return _judged(judgement, Verdict.FAIL, (reason,), ControlOutcome.FAILED)
    others = replace(found, losses=Losses.of(()), earlier_lost={}, earlier_altered=0)
    fairness = judge_rows(others, items)
    if fairness.verdict is not Verdict.PASS:
        text = f"{_describe_loss(lost, found)}, but {fairness.reasons[0]}"
        reasons = (text, *fairness.reasons[1:])
        return _judged(judgement, Verdict.INCONCLUSIVE, reasons, ControlOutcome.UNFAIR)
    if not lost:
        outcome, reason = ControlOutcome.BLIND, _NOTHING
        if strong:
            outcome = ControlOutcome.UNFAIR
            reason = f"{_NOTHING}, but its commits were durable: {strong}"
        return _judged(judgement, Verdict.INCONCLUSIVE, (reason,), outcome)
    text = f"{_describe_loss(lost, found)}, as expected"
    reasons = (text, *describe_earlier_alterations(found))
    return _judged(judgement, Verdict.PASS, reasons, ControlOutcome.LOST)


def _judged(
    ordinary: Judgement,
    verdict: Verdict,
    reasons: tuple[str, ...],
    outcome: ControlOutcome,
) -> Judgement:
    """Return the verdict on a control, with the same cut as the *ordinary* one."""
    return Judgement(verdict, reasons, ordinary.items, outcome, cut=ordinary.cut)


def _describe_loss(lost: int, found: Reconciliation) -> str:
    if not lost:
        return _NOTHING
    acked = format_count(found.confirmed, "acknowledged commit")
    return f"the control lost {lost:,} of {acked}"


def judge_control_item(case: Case) -> Item | None:
    """Judge whether the rig showed that it can see losses.

    Of several tries before the cycle the last one decides; None without any.
    """
    controls = case.manifest.controls
    if not controls:
        return None
    last = controls[-1]
    if last.outcome is ControlOutcome.LOST:
        return Item(ItemId.CONTROL, Status.PRESENT, last.reason, required=True)
    reason = last.reason
    if len(controls) > 1:
        reason += f", the last of {len(controls)} tries"
    if last.outcome is ControlOutcome.BLIND:
        reason += ": this set-up cannot see losses"
    return Item(ItemId.CONTROL, Status.ABSENT, reason, required=True)
