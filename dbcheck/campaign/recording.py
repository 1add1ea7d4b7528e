"""Makes the record of one cycle from its outcome, or from the error that ended it."""

from __future__ import annotations

from datetime import UTC, datetime

from dbcheck.campaign.folder import Cycle
from dbcheck.campaign.stopping import list_doubts
from dbcheck.cycle.cycle import extract_control_facts
from dbcheck.cycle.outcome import Outcome, find_met_activity
from dbcheck.judge.cutmoment import find_last_sign_of_power_us, measure_switch_lag_s
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.audited import list_alarms
from dbcheck.model.cluster import Promise
from dbcheck.model.moments import PlannedCut
from dbcheck.model.verdict import CycleVerdict, Verdict


def make_cycle(outcome: Outcome, *, ended: str, settled: bool = False) -> Cycle:
    """Return the record of a judged run.

    ended, settled: see Cycle.
    """
    drawn, found = outcome.manifest.moment, outcome.found
    met = find_met_activity(outcome)
    tasks, seen = outcome.result.housekeeping, outcome.result.seen
    outage = outcome.result.outage
    at_cut = tasks.at_cut if tasks else None
    at_fault = outcome.settings.at_fault(lost=outcome.verdict is Verdict.FAIL)
    return Cycle(
        number=drawn.number if drawn else 0,
        run=outcome.manifest.run_id,
        activity=met.activity.value if met and met.activity else "",
        after_s=drawn.after_s if drawn else 0.0,
        verdict=CycleVerdict(outcome.verdict.value),
        reason=outcome.judgement.reasons[0],
        ended=ended,
        depth=depth.value if (depth := outcome.case.shown_depth) else "",
        confirmed=found.confirmed if found else None,
        lost=sum(found.own_counts.values()) if found else None,
        earlier_lost=sum(found.earlier_counts.values()) if found else None,
        acks_per_s=outcome.load.rate if outcome.load else None,
        settled=settled,
        gone=bool(outcome.after.failure),
        control=extract_control_facts(outcome) if outcome.manifest.control else None,
        at_fault=tuple(f.sentence for f in at_fault),
        cut_class=outcome.case.cut_class.value,
        missed=met.missed if met else "",
        drawn=drawn.drawn.value if drawn else "",
        cut_s=_find_second_of_cut(outcome),
        lag_s=measure_switch_lag_s(outcome.case),
        window=at_cut.value if at_cut else "",
        seen=seen.rows if seen else None,
        seen_lost=seen.lost if seen else None,
        despite=_list_audit_alarms(outcome),
        uncut=outcome.result.uncut,
        doubts=list_doubts(outcome.judgement),
        outage_s=outage.seconds if outage else None,
        outage_over_s=outage.over_s if outage else None,
        outage_lost=sum(outage.not_lasting.values()) if outage else 0,
        **_name_nodes(outcome),
    )


def _name_nodes(outcome: Outcome) -> dict[str, str]:
    """Return the nodes and the promise of a cluster's cycle, {} of a single server."""
    manifest, after = outcome.manifest, outcome.after
    if manifest.promise is None:
        return {}
    reader = "" if after.unanswered else after.reader_name
    return {
        "writer": manifest.writer_name,
        "reader": reader,
        "promise": manifest.promise.value,
    }


def _list_audit_alarms(outcome: Outcome) -> tuple[str, ...]:
    """Return the alarms of the audit before the load, and its assumptions."""
    assumed = [
        f"assumed, not seen: {item.reason}"
        for item in outcome.judgement.items
        if item.id is ItemId.SETTINGS and item.status is Status.ASSUMED
    ]
    return (*map(str, list_alarms(outcome.manifest.writer.audit or ())), *assumed)


def _find_second_of_cut(outcome: Outcome) -> float | None:
    """Return the second of the load at which the power went, None if not known."""
    power_off_us, load = find_last_sign_of_power_us(outcome.case), outcome.load
    if power_off_us is None or load is None:
        return None
    return round((power_off_us - load.began_us) / 1e6, 3)


def make_failed_cycle(
    run: str,
    drawn: PlannedCut | None,
    reason: str,
    id: str = "",
    promise: Promise | None = None,
) -> Cycle:
    """Return a cycle that came to no verdict."""
    return Cycle(
        promise=promise.value if promise else "",
        number=drawn.number if drawn else 0,
        run=run,
        activity="",
        drawn=drawn.drawn.value if drawn else "",
        after_s=drawn.after_s if drawn else 0.0,
        verdict=CycleVerdict.ERROR,
        reason=reason,
        ended=format_now(),
        error_id=id,
    )


def format_now() -> str:
    """Return the moment in UTC, as a record holds it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
