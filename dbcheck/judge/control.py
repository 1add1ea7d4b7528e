"""Judges a control, and what it means for the cycles after it."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.judge.case import Case
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
    judgement: Judgement, found: Reconciliation | None, strong: str = ""
) -> Judgement:
    """Return the verdict on a control, given the one on it as an ordinary cycle.

    strong: what made its commits durable all the same, "" if it was seen to be weak.
    Only a weak control that lost nothing shows that the rig sees no losses.

    A late flush can lose the last commits of each relaxed session and nothing else, so
    any other loss is a FAIL, and so is a server that did not come back.  Where nothing
    is left, not even what was committed before anything was relaxed, the control shows
    no more than an ordinary cycle.  A loss, too, counts only with the evidence that an
    ordinary PASS needs.  Rows that were perhaps altered before it do not invalidate
    the control: they are named beside what it lost.
    """
    unknown = found is None or (found.counts and found.all_gone)
    if found is None or unknown or explain_replaced_table(found, judgement.items):
        if judgement.verdict is not Verdict.FAIL:
            return replace(judgement, control=ControlOutcome.UNFAIR)
        first, *rest = judgement.reasons
        reasons = (f"in a control, {first}", *rest)
        return replace(judgement, reasons=reasons, control=ControlOutcome.FAILED)
    items, counts = judgement.items, found.counts
    lost = counts.pop(LossKind.MISSING_TAIL.value, 0)
    if counts:
        reason = (
            f"the control lost or damaged {format_count(sum(counts.values()), 'row')}"
            " that are not the last commits of its sessions: its settings do not do"
            " that"
        )
        return Judgement(Verdict.FAIL, (reason,), items, ControlOutcome.FAILED)
    if early := int((found.losses.columns["session"] == PREFLIGHT_SESSION).sum()):
        reason = (
            f"the control lost {format_count(early, 'row')} from before its sessions"
            " were set to lose commits"
        )
        return Judgement(Verdict.FAIL, (reason,), items, ControlOutcome.FAILED)
    others = replace(found, losses=Losses.of(()), earlier_lost={}, earlier_altered=0)
    fairness = judge_rows(others, items)
    if fairness.verdict is not Verdict.PASS:
        text = _lost(lost, found.confirmed) if lost else _NOTHING
        reasons = (f"{text}, but {fairness.reasons[0]}", *fairness.reasons[1:])
        return Judgement(Verdict.INCONCLUSIVE, reasons, items, ControlOutcome.UNFAIR)
    if not lost:
        outcome, reason = ControlOutcome.BLIND, _NOTHING
        if strong:
            outcome = ControlOutcome.UNFAIR
            reason = f"{_NOTHING}, but its commits were durable: {strong}"
        return Judgement(Verdict.INCONCLUSIVE, (reason,), items, outcome)
    text = f"{_lost(lost, found.confirmed)}, as expected"
    reasons = (text, *describe_earlier_alterations(found))
    return Judgement(Verdict.PASS, reasons, items, ControlOutcome.LOST)


def _lost(lost: int, confirmed: int) -> str:
    return (
        f"the control lost {lost:,} of {format_count(confirmed, 'acknowledged commit')}"
    )


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
