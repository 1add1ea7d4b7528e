"""The loss of a server, and how far back its restored archive reaches.

The loss is the cut of the power.  It is known between two moments: the server lived
when the newest answered commit was sent, and was gone when the switch reported that.
A commit is held to be due by the earliest possible moment of the loss, and the
objective to be met by the latest.

Until the copy was restored the lost server must have had no power.  One that is shut
down first, or starts once more, ships what it had not shipped yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbcheck.judge import cutmoment, insync
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server_end import Ended, judge_end
from dbcheck.model.cut import Gone
from dbcheck.model.replication import CHANGES_MAX
from dbcheck.model.unobserved import Observed
from dbcheck.model.verdict import format_count
from dbcheck.rows.acks import TIME_UNIT_US
from dbcheck.rows.copied import LATEST_US, CopyLaw

_NO_CUT = "the server did not end, or its end was not seen"
_HOST_RAN_ON = "its drives alone lost their power, and its host may have shipped more"
_LOST = (Gone.BROKEN, Gone.SILENT)
_CLOSER = "use a switch that reports its cut sooner, and run it again"
_END_UNKNOWN = (
    "the latest moment of the loss is not known: use a switch that reports its cut once"
    " the power has gone, and run it again"
)
_SHUT_DOWN_UNSEEN = (
    "it fell silent when its power was to be cut; nothing shows that it was not shut"
    " down first"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """The moments between which the server was lost, on the client's clock, in us.

    latest_us: None if it is not known.
    """

    earliest_us: int
    latest_us: int | None


@dataclass(frozen=True, slots=True)
class Reach:
    """How long before the loss the oldest missing commit was acknowledged, in seconds.

    At least and at most; both are 0 if no commit is missing.  most_s: None if the
    latest moment of the loss is not known.
    """

    least_s: float
    most_s: float | None


def find_loss(case: Case) -> Loss | None:
    """Find when the server was lost; None if it was not cut, or did not go.

    A host that runs on while its drives have no power may ship what it holds.
    """
    load, cut = case.load, case.cut
    if load is None or cut is None or load.gone not in _LOST or case.drive_only:
        return None
    if cut.exact_us is not None:
        return Loss(cut.exact_us, cut.exact_us)
    known_us = [load.sent_us, cutmoment.find_last_life_of_server_us(case)]
    earliest_us = max((at for at in known_us if at is not None), default=load.began_us)
    latest_us = cutmoment.find_latest_cut_us(case)
    if cut.by_hand:
        latest_us = cutmoment.find_cut_us(case)
    elif latest_us is not None and latest_us < earliest_us:
        latest_us = None  # it answered later: the switch reported its cut too early
    return Loss(earliest_us, latest_us)


def find_law(case: Case) -> CopyLaw | None:
    """Return the moments that the copy of *case* is judged by; None if not known.

    With an objective of 0 each acknowledged commit is due: the server lived when it
    answered it, whenever that was read.
    """
    plan = case.manifest.copy
    if plan is None or plan.rpo_s is None:
        return None if case.copy is None else case.copy.law
    loss = find_loss(case)
    if loss is None:
        return None
    if not plan.rpo_s:
        return CopyLaw(LATEST_US, None)
    return CopyLaw(loss.earliest_us - round(plan.rpo_s * 1e6), None)


def measure_reach(case: Case) -> Reach | None:
    """Measure how far before the loss the copy ends; None if that is not known.

    The latest time counts what the client's clock did not show, and that the log rounds
    the times of acknowledgements up.
    """
    loss, copied = find_loss(case), case.copied
    if loss is None or copied is None:
        return None
    if (oldest_us := copied.oldest_missing_us) is None:
        return Reach(0.0, 0.0)
    least_s = max(0, loss.earliest_us - oldest_us) / 1e6
    if loss.latest_us is None:
        return Reach(least_s, None)
    observed = (case.load.observed if case.load else None) or (Observed(),)
    latest_us, measure_s = loss.latest_us, cutmoment.measure_longest_passed_s
    most_s = max(
        measure_s(seen, seen.came_us(oldest_us), latest_us) for seen in observed
    )
    return Reach(least_s, max(least_s, most_s + TIME_UNIT_US / 1e6))


def judge_lost(case: Case) -> Item:
    """Judge whether the server was lost without an orderly shutdown."""
    load, cut = case.load, case.cut
    name = ItemId.NOT_SHUT_DOWN
    if load is None or cut is None or load.gone not in _LOST:
        return Item(name, Status.NOT_OBSERVABLE, _NO_CUT, required=True)
    if case.drive_only:
        return Item(name, Status.CONTRADICTED, _HOST_RAN_ON, required=True)
    seen_off = cut.off_seen and stayed_off(case) is True
    ended = Ended(exact=cut.exact_us is not None, seen_off=seen_off)
    status, reason = judge_end(load, ended)
    if status is Status.NOT_OBSERVABLE and load.gone is Gone.SILENT:
        status, reason = Status.ASSUMED, _SHUT_DOWN_UNSEEN
    return Item(name, status, reason, required=True)


def stayed_off(case: Case) -> bool | None:
    """Return whether the server stayed off until the restore; None if not known."""
    return None if case.copy is None else case.copy.stayed_off


def judge_stayed_off(case: Case) -> Item:
    """Judge whether the lost server had no power until the copy was restored."""
    stayed, name = stayed_off(case), ItemId.STAYED_OFF
    if stayed:
        reason = "its switch read that it had no power once the copy was restored"
        return Item(name, Status.PRESENT, reason, required=True)
    if stayed is None:
        reason = "it took no queries once the copy was restored"
        return Item(name, Status.ASSUMED, reason, required=True)
    reason = "it had its power before the copy was restored, and may have shipped more"
    return Item(name, Status.CONTRADICTED, reason, required=True)


def judge_objective(case: Case) -> Item | None:
    """Judge whether the objective was at stake, and met; None if nothing was compared.

    It is not at stake as long as no commit is older than it.
    """
    copied, plan, reach = case.copied, case.manifest.copy, measure_reach(case)
    if copied is None or reach is None or plan is None or plan.rpo_s is None:
        return None
    name, before = ItemId.OBJECTIVE, copied.due - copied.by_order
    older = f"more than {plan.rpo_s:g} s" if plan.rpo_s else "any time"
    commits = format_count(before, "commit")
    reason = f"{commits} acknowledged {older} before the loss"
    if not before:
        return Item(name, Status.ABSENT, f"no commit was {older} old", required=True)
    if reach.most_s is None:
        status = Status.NOT_OBSERVABLE if copied.missing else Status.PRESENT
        reason += f"; {_END_UNKNOWN}"
        return Item(name, status, reason, required=True)
    if copied.missing and reach.least_s <= plan.rpo_s < reach.most_s:
        reason += (
            f"; the oldest missing commit was acknowledged {reach.least_s:.3f} to"
            f" {reach.most_s:.3f} s before it; {_CLOSER}"
        )
        return Item(name, Status.NOT_OBSERVABLE, reason, required=True)
    return Item(name, Status.PRESENT, reason, required=True)


def judge_receiver(case: Case) -> Item | None:
    """Judge whether each commit waited for a receiver; None if none needs one.

    Only then may no commit be lost.  A receiver for which commits do not wait has them
    by luck.
    """
    plan, load = case.manifest.copy, case.load
    if plan is None or plan.rpo_s != 0:
        return None
    name, seen = ItemId.RECEIVER, load.replication if load else None
    if seen is None:
        reason = "the server was not asked for its receivers during the load"
        return Item(name, Status.NOT_OBSERVABLE, reason, required=True)
    rate = (seen.samples - 1) / max(1e-6, (seen.last_us - seen.first_us) / 1e6)
    reason = f"{seen.samples} samples, {rate:.0f} a second"
    is_whole = len(seen.changes) < CHANGES_MAX or seen.is_unbroken()
    if not all(change.names for change in seen.changes):
        reason += ": commits waited for no receiver, at least for a time"
        return Item(name, Status.ABSENT, reason, required=True)
    if not is_whole:
        reason += ": they changed too often for all changes to be on record"
        return Item(name, Status.NOT_OBSERVABLE, reason, required=True)
    awaited = ", ".join(sorted({each for one in seen.changes for each in one.names}))
    reason += f": commits waited for {awaited}"
    went_us, status = cutmoment.find_cut_us(case), Status.PRESENT
    if rate < insync.SAMPLES_PER_S_MIN and not seen.is_unbroken():
        reason += f"; fewer than {insync.SAMPLES_PER_S_MIN:g} a second show too little"
        status = Status.NOT_OBSERVABLE
    elif went_us is None or load is None:
        status = Status.NOT_OBSERVABLE
        reason += "; when the power went is not known"
    else:
        age_s = cutmoment.measure_longest_passed_s(
            cutmoment.find_newest_observation(load), seen.last_us, went_us
        )
        reason += f"; the last {max(0.0, age_s):.3f} s before the loss"
        if age_s > insync.LATE_SAMPLE_MAX_S:
            status = Status.NOT_OBSERVABLE
            reason += f", which is too old: {seen.ended or 'none came since'}"
        elif age_s > insync.SAMPLE_AGE_MAX_S:
            status = Status.ASSUMED
    return Item(name, status, reason, required=True)


EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (
    judge_lost,
    judge_stayed_off,
    judge_objective,
    judge_receiver,
)
