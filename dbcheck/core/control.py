"""The control: a cycle whose sessions are acked too early, so that it must lose.

If it does not, the cut does not reach what is at risk or dbcheck does not see what is
gone, and nothing that the same rig passes is worth anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbcheck.core.evidence import (
    Item,
    Judgement,
    Standing,
    Verdict,
    all_gone,
    altered_earlier,
    judge,
    replaced,
)
from dbcheck.core.history import PREFLIGHT_SESSION
from dbcheck.core.loss import Losses, LossKind
from dbcheck.core.reconcile import Reconciliation

NOTHING = "control lost nothing"


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """What a control showed, for the cycles after it; none comes after one that failed.

    verdict: PASS if it lost a tail, as it must, else INCONCLUSIVE.
    reason:  the first of its reasons.
    """

    run_id: str
    verdict: Verdict
    reason: str


def judge_control(
    judgement: Judgement, found: Reconciliation | None, strong: str = ""
) -> Judgement:
    """Return the verdict on a control, given the one on it as an ordinary cycle.

    strong: what made its commits durable all the same, "" if it was seen to be weak.
    Only a weak control that lost nothing says that the rig sees no losses.

    A late flush can lose the last commits of each relaxed session and nothing else, so
    any other loss is a FAIL, and so is a server that did not come back.  Where nothing
    is left, not even what was committed before anything was relaxed, the control shows
    no more than an ordinary cycle.  A loss, too, counts only with the evidence that an
    ordinary PASS needs.  Rows that were perhaps altered before it do not invalidate
    the control: they are named beside what it lost.
    """
    if found is None or (found.counts and all_gone(found)):
        return judgement
    if replaced(found, judgement.items):
        return judgement
    items, counts = judgement.items, found.counts
    lost = counts.pop(LossKind.MISSING_TAIL.value, 0)
    if counts:
        said = ", ".join(f"{rows:,} {kind}" for kind, rows in counts.items())
        reason = f"control lost more than the last commits of each session: {said}"
        return Judgement(Verdict.FAIL, (reason,), items)
    if early := int((found.losses.columns["session"] == PREFLIGHT_SESSION).sum()):
        reason = f"control lost {early} rows from before its sessions were relaxed"
        return Judgement(Verdict.FAIL, (reason,), items)
    others = replace(found, losses=Losses.of(()), earlier_lost={}, earlier_altered=0)
    fairness = judge(others, items)
    if fairness.verdict is not Verdict.PASS:
        said = f"control lost {lost:,} rows" if lost else NOTHING
        reasons = (f"{said}, but {fairness.reasons[0]}", *fairness.reasons[1:])
        return Judgement(Verdict.INCONCLUSIVE, reasons, items)
    if not lost:
        reason = f"{NOTHING}, but it was not weak: {strong}" if strong else NOTHING
        return Judgement(Verdict.INCONCLUSIVE, (reason,), items)
    reasons = (f"control lost {lost:,} rows, as it must", *altered_earlier(found))
    return Judgement(Verdict.PASS, reasons, items)


def control_item(controls: Sequence[ControlFacts]) -> Item:
    """Judge whether the rig showed that it can see losses.

    controls: the tries before the cycle, at least one; the last one decides.
    """
    last = controls[-1]
    if last.verdict is Verdict.PASS:
        return Item("control", Standing.PRESENT, last.reason, True)
    said = last.reason
    if len(controls) > 1:
        said += f", the last of {len(controls)} tries"
    if last.reason == NOTHING:
        said += ": this rig cannot see losses"
    return Item("control", Standing.ABSENT, said, True)
