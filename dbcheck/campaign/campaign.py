"""Runs unattended cycles on one target until enough cuts are counted.

One campaign at a time works on a target, wherever its clients run.  The lock on its
folder keeps clients of one machine apart.  The witness keeps apart all clients that log
there: a client that was taken for dead and still runs elsewhere, or the client of
another person who began a campaign on the same target.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, TargetChanged, UsageError, WitnessError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.campaign.totals import (
    describe_cycles,
    find_last_number,
    has_losses,
    is_finished,
    tally_cycles,
)
from dbcheck.cycle.cycle import (
    extract_control_facts,
    reconcile_run,
    require_same_site,
    require_server_back,
    restore_power,
    run_controls,
    run_cycle,
)
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome, find_met_activity
from dbcheck.cycle.preflight.earlier_cycles import Known
from dbcheck.cycle.preflight.pending_runs import note_judged
from dbcheck.cycle.recovery.waiting import wait_for_server
from dbcheck.cycle.rig import Rig
from dbcheck.judge.cutmoment import find_last_sign_of_power_us, measure_switch_lag_s
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.audited import list_alarms
from dbcheck.model.cut import PowerState, SwitchKind
from dbcheck.model.moments import (
    AT_ONCE,
    WITHOUT_TASKS,
    Activity,
    PlannedCut,
    add_lag_to_hold,
    find_lag_range,
    plan_cut,
)
from dbcheck.model.verdict import (
    ControlFacts,
    ControlOutcome,
    CycleVerdict,
    Tally,
    Verdict,
)
from dbcheck.ports.engine import Feature
from dbcheck.ports.listener import Listener, Phase, Progress, Unit
from dbcheck.ports.site import Node
from dbcheck.ports.witness import Witness, WitnessLock
from dbcheck.runs.folder import RunFolder

WAIT_S = 30.0  # an agent ends within moments of its client, over SSH too
_POLL_S = 0.25
IDLE_MAX = 5  # cycles in a row that may prove nothing before a campaign ends


@contextlib.contextmanager
def lock_witness(
    witness: Witness, listener: Listener, wait_s: float = WAIT_S
) -> Iterator[WitnessLock]:
    """Lock *witness* for this client; raise WitnessError if that fails for *wait_s*."""
    lock = _wait_for_lock(witness, listener, wait_s)
    try:
        yield lock
    finally:
        lock.release()


def _wait_for_lock(witness: Witness, listener: Listener, wait_s: float) -> WitnessLock:
    deadline_s, is_reported = time.monotonic() + wait_s, False
    while (lock := witness.lock()) is None:
        if time.monotonic() >= deadline_s:
            raise WitnessError(
                f"another client works with the witness {witness.url}",
                id=ErrorId.WITNESS_IN_USE,
                hint="Wait until its campaign has ended. If its machine is lost, end"
                " the agent that it left on the witness's host (a python3 process of"
                " the user who logs in there).",
            )
        if not is_reported:
            is_reported = True
            text = f"another client works with the witness {witness.url}"
            listener.phase(Phase.WAITING, text)
        time.sleep(_POLL_S)
    return lock


def run_campaign(rig: Rig, folder: CampaignFolder) -> Tally:
    """Bring the campaign in *folder* to its end on *rig*; return what its cuts show.

    Continues where an earlier client ended, whatever it was doing: a run that it left
    is settled first, with the power restored.  Ends at the first loss unless the plan
    says otherwise, and at once if the server did not come back.  Raise TargetChanged if
    the server is another one, or lost rows between two cycles, and DbcheckError if
    IDLE_MAX cycles in a row proved nothing; cycles of earlier clients do not count, as
    the cause may have been fixed.  A failure before the first load ends the campaign,
    as it ends a run; after a cycle the campaign goes on, as a failure of the network,
    say, may pass.

    folder: locked by the caller, so that no other client works on it.
    """
    plan = folder.plan()
    rig = replace(rig, runs=folder.runs)
    if rig.site.attended:
        raise UsageError(
            "a campaign needs a switch that works unattended",
            id=ErrorId.UNATTENDED_SWITCH_NEEDED,
            hint="Set dbcheck_power to one; manual asks a human for each cut.",
        )
    folder.write_lines()
    _settle_all(rig, folder)
    if plan.control:
        _run_controls(rig, folder, plan)
    last_before = find_last_number(folder.cycles())
    while not is_finished(plan, cycles := folder.cycles()):
        _require_progress([cycle for cycle in cycles if cycle.number > last_before])
        counted = tally_cycles(cycles).cuts
        rig.listener.progress(Progress("campaign", counted, plan.cuts, Unit.CUTS))
        _run_next_cycle(
            rig, folder, plan, is_first=find_last_number(cycles) == last_before
        )
        rig.listener.phase(Phase.CAMPAIGN, describe_cycles(folder.cycles()))
    return tally_cycles(folder.cycles())


def _run_controls(rig: Rig, folder: CampaignFolder, plan: CampaignPlan) -> None:
    """Run controls, unless one lost already or nothing is left to cut.

    After a control that showed nothing, or whose client was lost, every later cycle
    would be INCONCLUSIVE; so another control runs after it.
    """
    cycles = folder.cycles()
    if is_finished(plan, cycles) or any(map(_has_lost, _list_controls(cycles))):
        return
    for outcome in run_controls(rig, plan.workload, plan.seed, folder.known()):
        add_outcome(folder, outcome)


def _list_controls(cycles: Sequence[Cycle]) -> list[ControlFacts]:
    """Return the results of the controls, in the order in which they ran.

    No control runs after one that lost rows, so that one comes last.  The order of the
    cycles does not show this: it is that of the client's clock, which may have been set
    back.
    """
    return sorted((cycle.control for cycle in cycles if cycle.control), key=_has_lost)


def _has_lost(control: ControlFacts) -> bool:
    return control.outcome is ControlOutcome.LOST


def _require_progress(cycles: Sequence[Cycle]) -> None:
    """Raise DbcheckError if the last IDLE_MAX of *cycles* proved nothing."""
    idle = list(takewhile(lambda c: not c.verdict.is_decided, reversed(cycles)))
    if len(idle) >= IDLE_MAX:
        raise DbcheckError(
            f"{len(idle)} cycles in a row proved nothing, the last: {idle[0].reason}",
            id=ErrorId.CYCLES_PROVE_NOTHING,
            hint="Fix the cause, then continue with --resume.",
        )


def _run_next_cycle(
    rig: Rig, folder: CampaignFolder, plan: CampaignPlan, *, is_first: bool
) -> None:
    """Run the next cycle and store its result.

    is_first: it is the first cycle of this client.
    """
    cycles = folder.cycles()
    drawn = _plan_next_cut(rig, plan, cycles)
    detail = f"{drawn.number}: {drawn.activity.value}, {drawn.after_s:.1f} s"
    rig.listener.phase(Phase.CYCLE, detail)
    try:
        seed = plan.seed + drawn.number
        controls = _list_controls(cycles)

        def emptied(known: Known) -> None:
            folder.write_known(known)
            rig.store()

        # After a loss the tables are evidence, so they are not dropped.
        drops = None if has_losses(cycles) else emptied
        outcome = run_cycle(
            rig, plan.workload, seed, controls, drawn, folder.known(), drops
        )
    except (UsageError, TargetChanged):
        raise
    except DbcheckError as error:
        if is_first and not any(run.load() for run in folder.list_runs_without_cycle()):
            raise  # nothing was cut
        rig.listener.phase(Phase.CYCLE, f"{drawn.number}: {error}")
        if not _settle_all(rig, folder):
            folder.add(_make_failed_cycle("", drawn, error.with_hint, error.id))
            wait_for_server(rig)
    else:
        add_outcome(folder, outcome)


def _plan_next_cut(rig: Rig, plan: CampaignPlan, cycles: Sequence[Cycle]) -> PlannedCut:
    writer, tasks = rig.site.writer, plan.workload.housekeeping
    activities = list(Activity if tasks else WITHOUT_TASKS)
    if not writer.engine.has(Feature.CHECKPOINT):
        activities.remove(Activity.CHECKPOINT)
    if writer.host is None:  # a hold is for the canaries there
        activities.remove(Activity.HOLD)
    number, window_s = find_last_number(cycles) + 1, plan.workload.cut_after_s
    drawn = plan_cut(plan.seed, number, window_s, activities, tasks)
    if drawn.activity is not Activity.HOLD:
        return drawn
    return add_lag_to_hold(drawn, _find_lag_range_s(writer, cycles))


def _find_lag_range_s(
    writer: Node, cycles: Sequence[Cycle]
) -> tuple[float, float] | None:
    """Return the range of a switch's lag in seconds, None if it is not known."""
    if writer.power.kind is SwitchKind.LAB:
        return AT_ONCE
    depth = writer.measured_depth
    tested = [depth.lag_s] if depth and depth.lag_s is not None else []
    return find_lag_range(tested + [c.lag_s for c in cycles if c.lag_s is not None])


def _settle_all(rig: Rig, folder: CampaignFolder) -> bool:
    """Judge the runs that an error or a lost client left; return True if any were."""
    unsettled = list(folder.list_runs_without_cycle())
    if unsettled:
        rig.permit.take()  # an earlier client may have left the server without power
    for run in unsettled:
        drawn = run.manifest().moment
        rig.listener.phase(
            Phase.CYCLE, f"judging {run.path.name}, which was left unfinished"
        )
        if _may_have_begun(rig, run):
            add_outcome(folder, _settle_run(rig, run), settled=True)
        else:
            text = "the client ended before the load began, or the witness lost a log"
            folder.add(_make_failed_cycle(run.path.name, drawn, text))
    if unsettled:
        rig.permit.give_back()
    return bool(unsettled)


def _may_have_begun(rig: Rig, run: RunFolder) -> bool:
    """Return True if the load of a run may have begun: there is more to judge."""
    is_known_here = run.was_read() or run.load() is not None
    return is_known_here or run.path.name in rig.witness.runs()


def _settle_run(rig: Rig, run: RunFolder) -> Outcome:
    """Restore the power if it is off, and judge a run that another client began."""
    if run.was_read():
        note_judged(rig, run.path.name)
        return judge_run(run, rig.reader, rig.listener.progress)
    manifest = run.manifest()
    require_same_site(rig.site, manifest)
    if rig.site.state() is not PowerState.ON:
        restore_power(rig, run)
    return require_server_back(rig, reconcile_run(rig, run, manifest))


def add_outcome(
    folder: CampaignFolder, outcome: Outcome, *, settled: bool = False
) -> None:
    """Store the result of a run; drop the rows of one that lost nothing.

    What the run showed of the server is stored first: a client that ends in between
    settles the same run again, and no cycle begins without this knowledge.
    """
    folder.write_known(folder.known().with_outcome(outcome))
    drawn, found = outcome.manifest.moment, outcome.found
    met = find_met_activity(outcome)
    tasks, seen = outcome.result.housekeeping, outcome.result.seen
    at_cut = tasks.at_cut if tasks else None
    at_fault = outcome.settings.at_fault(lost=outcome.verdict is Verdict.FAIL)
    folder.add(
        Cycle(
            number=drawn.number if drawn else 0,
            run=outcome.manifest.run_id,
            activity=met.activity.value if met and met.activity else "",
            after_s=drawn.after_s if drawn else 0.0,
            verdict=CycleVerdict(outcome.verdict.value),
            reason=outcome.judgement.reasons[0],
            ended=_format_now(),
            depth=depth.value if (depth := outcome.case.shown_depth) else "",
            confirmed=found.confirmed if found else None,
            lost=sum(found.own_counts.values()) if found else None,
            earlier_lost=sum(found.earlier_counts.values()) if found else None,
            acks_per_s=outcome.load.rate if outcome.load else None,
            settled=settled,
            gone=bool(outcome.after.failure),
            control=extract_control_facts(outcome)
            if outcome.manifest.control
            else None,
            at_fault=tuple(f.sentence for f in at_fault),
            cut_class=outcome.manifest.writer.cut_class.value,
            missed=met.missed if met else "",
            drawn=drawn.drawn.value if drawn else "",
            cut_s=_find_second_of_cut(outcome),
            lag_s=measure_switch_lag_s(outcome.case),
            window=at_cut.value if at_cut else "",
            seen=seen.rows if seen else None,
            seen_lost=seen.lost if seen else None,
            despite=_list_audit_alarms(outcome),
            uncut=outcome.result.uncut,
        )
    )
    if outcome.verdict is Verdict.PASS:
        outcome.run.drop_survivors()


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


def _make_failed_cycle(
    run: str, drawn: PlannedCut | None, reason: str, id: str = ""
) -> Cycle:
    """Return a cycle that came to no verdict."""
    return Cycle(
        number=drawn.number if drawn else 0,
        run=run,
        activity="",
        drawn=drawn.drawn.value if drawn else "",
        after_s=drawn.after_s if drawn else 0.0,
        verdict=CycleVerdict.ERROR,
        reason=reason,
        ended=_format_now(),
        error_id=id,
    )


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
