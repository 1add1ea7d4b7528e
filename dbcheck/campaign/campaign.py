"""Runs cycles on one target until enough cuts are counted.

One campaign at a time works on a target, wherever its clients run.  The lock on its
folder keeps clients of one machine apart.  The witness keeps apart all clients that log
there: a client that was taken for dead and still runs elsewhere, or the client of
another person who began a campaign on the same target.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    DbcheckError,
    EngineError,
    TargetChanged,
    UsageError,
    WitnessError,
)
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.campaign.own_runs import require_own_cycles, require_own_run
from dbcheck.campaign.promises import draw_promise, select_cycles
from dbcheck.campaign.recording import format_now, make_cycle, make_failed_cycle
from dbcheck.campaign.stopping import (
    await_answer,
    describe_cycle,
    has_lost,
    may_pass,
    require_control_lost,
    require_losses_explained,
    require_progress,
)
from dbcheck.campaign.totals import (
    describe_plan,
    describe_progress,
    find_last_number,
    has_failed_control,
    has_losses,
    has_unexplained_losses,
    is_finished,
    tally_cycles,
)
from dbcheck.cycle.cycle import (
    require_server_back,
    restore_power,
    run_controls,
    run_cycle,
)
from dbcheck.cycle.fault import end_fault_left
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.earlier_cycles import Known
from dbcheck.cycle.preflight.members import require_all_in_place
from dbcheck.cycle.preflight.pending_runs import note_judged
from dbcheck.cycle.rebuild import (
    lead_by_writer,
    rebuild_cluster,
    require_old_writer_read,
)
from dbcheck.cycle.reconciling import lead_as_in_run, reconcile_run, require_same_site
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import Promise
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
from dbcheck.model.verdict import ControlFacts, Tally, Verdict
from dbcheck.ports.feature import Feature
from dbcheck.ports.listener import Listener, Phase, Progress, Unit
from dbcheck.ports.site import Node, Site
from dbcheck.ports.witness import Witness, WitnessLock
from dbcheck.runs.folder import RunFolder

WAIT_S = 30.0  # an agent ends within moments of its client, over SSH too
_POLL_S = 0.25
# What a person who cuts by hand reads before the load of the next cycle begins.
READY = (
    "{cut} comes next. Go to the plug, then press Enter: the load begins, and you are"
    " asked to pull it. Ctrl-C stops here; you can continue later."
)


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


def go_on_at_once(text: str) -> None:
    """Start the next cycle without asking: a switch makes the cut."""


def run_campaign(
    rig: Rig,
    folder: CampaignFolder,
    await_person: Callable[[str], None] = go_on_at_once,
) -> Tally:
    """Bring the campaign in *folder* to its end on *rig*; return what its cuts show.

    Continues where an earlier client ended, whatever it was doing: a run that it left
    is settled first, with the power restored.  Ends at the first loss unless the plan
    says otherwise, and at once if the server did not come back.  Raise TargetChanged if
    the server is another one, or lost rows between two cycles, and DbcheckError if
    cycles in a row prove nothing, see require_progress(); cycles of earlier clients do
    not count there, as the cause may have been fixed.  Raise it also if rows are
    missing after a cut that does not count, unless the plan goes on after a loss.  A
    failure before the first load ends the campaign, as it ends a run, and so does a
    later one where nothing was cut and another try would fail as well.

    folder: locked by the caller, so that no other client works on it.
    await_person: shows a person at the plug a text, and returns once they are ready.
    """
    plan = folder.plan()
    rig = replace(rig, runs=folder.runs)
    folder.write_lines()
    rig.listener.phase(Phase.PLAN, describe_plan(plan))
    before = folder.cycles()
    require_own_cycles(folder, plan, before)
    _settle_all(rig, folder)
    if folder.cycles():
        _show_results(rig, folder, plan, before)
    rig = _make_whole(rig, folder)
    if plan.control:
        rig = _run_controls(rig, folder, plan, await_person)
    last_before = find_last_number(folder.cycles())
    while not is_finished(plan, cycles := folder.cycles()):
        if not plan.keep_going:
            require_losses_explained(cycles)
        mine = [cycle for cycle in cycles if cycle.number > last_before]
        for promise in plan.promises or ("",):
            require_progress(select_cycles(mine, promise) if promise else mine)
        counted = tally_cycles(cycles).cuts
        rig.listener.progress(Progress("campaign", counted, plan.cuts, Unit.CUTS))
        if rig.site.attended:
            await_person(READY.format(cut=f"Cut {counted + 1} of {plan.cuts}"))
        is_first = find_last_number(cycles) == last_before
        _run_next_cycle(rig, folder, plan, is_first=is_first)
        _show_results(rig, folder, plan, cycles)
        rig = _make_whole(rig, folder)
    return tally_cycles(folder.cycles())


def _make_whole(rig: Rig, folder: CampaignFolder) -> Rig:
    """Return *rig*, led by the node that takes writes, with the others behind it.

    After a loss that ends the campaign, also of a control that failed, a cluster stays
    as it is, as evidence.
    Raise DbcheckError if the cluster is not whole again.
    """
    site, cycles = rig.site, folder.cycles()
    plan = folder.plan()
    has_lost_rows = has_losses(cycles) or has_failed_control(cycles)
    is_evidence = has_lost_rows and is_finished(plan, cycles)
    is_evidence |= has_unexplained_losses(cycles) and not plan.keep_going
    if site.promise is None or is_evidence:
        return rig
    _require_cut_read(site, folder, cycles)
    if not (name := folder.known().run):  # nothing was cut yet
        if rig.find_nodes is not None:  # a resumed campaign is placed as its last run
            site = rig.find_nodes(site.writer_name)
        return replace(rig, site=lead_by_writer(site))
    last = RunFolder.open(folder.runs / name)
    lost_rows = any(
        c.has_failed or c.has_unexplained_loss for c in cycles if c.run == name
    )
    if lost_rows:
        require_old_writer_read(site, last)
    return rebuild_cluster(rig, last, keeps_data=lost_rows)


def _require_cut_read(
    site: Site, folder: CampaignFolder, cycles: Sequence[Cycle]
) -> None:
    """Raise DbcheckError if no row was read after the newest cut, and nodes stray.

    Nodes that already follow the writer again need no rebuilding.
    """
    newest = next((cycle for cycle in reversed(cycles) if cycle.run), None)
    if newest is None or not newest.number or newest.lost is not None:
        return
    if RunFolder.open(folder.runs / newest.run).cut_asked() is None:
        return
    try:
        require_all_in_place(lead_by_writer(site))
    except EngineError as error:
        raise DbcheckError(
            f"no row was read after the cut of run {newest.run}, so the nodes that it"
            f" left may hold commits that no other has: none is overwritten. {error}",
            id=ErrorId.OLD_WRITER_NOT_READ,
            hint="Save their data folders first. Then make them follow the writer"
            " yourself, and continue with --resume.",
        ) from error


def _show_results(
    rig: Rig, folder: CampaignFolder, plan: CampaignPlan, before: Sequence[Cycle]
) -> None:
    """Show the result of each cycle that came after *before*, and of all so far."""
    cycles, shown = folder.cycles(), set(map(folder.file_of, before))
    for cycle in cycles:
        if folder.file_of(cycle) not in shown:
            rig.listener.phase(Phase.CYCLE, describe_cycle(cycle))
    rig.listener.phase(Phase.CAMPAIGN, describe_progress(plan, cycles))


def _run_controls(
    rig: Rig,
    folder: CampaignFolder,
    plan: CampaignPlan,
    await_person: Callable[[str], None],
) -> Rig:
    """Run controls, unless one lost already or nothing is left to cut.

    After a control that showed nothing, or whose client was lost, every later cycle
    would be INCONCLUSIVE; so another control runs after it.
    Return *rig*, made whole again.  Raise DbcheckError if no control lost.
    """
    for promise in plan.promises or ("",):
        controls = _list_controls(folder.cycles(), promise)
        if is_finished(plan, folder.cycles()) or any(map(has_lost, controls)):
            continue
        rig = _choose_promise(rig, promise)
        if rig.site.attended:
            await_person(READY.format(cut="The cut of the control"))
        for outcome in run_controls(
            *(rig, plan.workload, plan.seed, folder.known()),
            make_whole=lambda rig, known: (_make_whole(rig, folder), known),
        ):
            add_outcome(folder, outcome)
        if not is_finished(plan, cycles := folder.cycles()):
            require_control_lost(_list_controls(cycles, promise))
        rig = _make_whole(rig, folder)
    return rig


def _choose_promise(rig: Rig, promise: str) -> Rig:
    """Return *rig*, whose next cut tests *promise*; "": the one that it tests now."""
    if not promise:
        return rig
    return replace(rig, site=rig.site.promising(Promise(promise)))


def _list_controls(cycles: Sequence[Cycle], promise: str = "") -> list[ControlFacts]:
    """Return the results of the controls of *promise*, in the order of their runs.

    promise: "" for all of them.  No control runs after one that lost rows, so that one
    comes last.  The order of the cycles does not show this: it is that of the client's
    clock, which may have been set back.
    """
    mine = select_cycles(cycles, promise) if promise else cycles
    return sorted((cycle.control for cycle in mine if cycle.control), key=has_lost)


def _run_next_cycle(
    rig: Rig, folder: CampaignFolder, plan: CampaignPlan, *, is_first: bool
) -> None:
    """Run the next cycle and store its result.

    is_first: it is the first cycle of this client.
    """
    cycles = folder.cycles()
    drawn = _plan_next_cut(rig, plan, cycles)
    promise = draw_promise(plan, drawn.number, cycles)
    rig = _choose_promise(rig, promise)
    rig.listener.phase(Phase.CYCLE, _describe_drawn(plan, drawn, promise))
    try:
        seed = plan.seed + drawn.number
        controls = _list_controls(cycles, promise)

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
        begun = list(folder.list_runs_without_cycle())
        has_load = any(run.load() is not None for run in begun)
        was_cut = any(run.awaits_judgement() for run in begun)
        if not (has_load or was_cut) and (is_first or not may_pass(error)):
            raise
        rig.listener.phase(Phase.CYCLE, f"{drawn.number}: {error}")
        if not _settle_all(rig, folder):
            folder.add(
                make_failed_cycle(
                    "", drawn, error.with_hint, error.id, rig.site.promise
                )
            )
        if not was_cut:
            if not may_pass(error):
                raise
            await_answer(rig)
    else:
        add_outcome(folder, outcome)


def _describe_drawn(plan: CampaignPlan, drawn: PlannedCut, promise: str) -> str:
    """Describe when the next cut comes, and which promise it tests."""
    when = f"to be cut {drawn.activity.when}, after {drawn.after_s:.1f} s of load"
    tested = f"promise {promise}, " if len(plan.promises) > 1 else ""
    return f"{drawn.number}: {tested}{when}"


def _plan_next_cut(rig: Rig, plan: CampaignPlan, cycles: Sequence[Cycle]) -> PlannedCut:
    writer, tasks = rig.site.writer, plan.workload.housekeeping
    # A hand takes seconds, and meets nothing that is short.
    activities = [Activity.STEADY]
    if not rig.site.attended:
        activities = _list_possible_activities(writer, has_tasks=bool(tasks))
    number, window_s = find_last_number(cycles) + 1, plan.workload.cut_after_s
    drawn = plan_cut(plan.seed, number, window_s, activities, tasks)
    if drawn.activity is not Activity.HOLD:
        return drawn
    return add_lag_to_hold(drawn, _find_lag_range_s(writer, cycles))


def _list_possible_activities(writer: Node, *, has_tasks: bool) -> list[Activity]:
    """Return the activities of the server that a cut by a switch can meet."""
    activities = list(Activity if has_tasks else WITHOUT_TASKS)
    if not writer.engine.has(Feature.CHECKPOINT):
        activities.remove(Activity.CHECKPOINT)
    if writer.host is None:  # a hold is for the canaries there
        activities.remove(Activity.HOLD)
    return activities


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
    for run in unsettled:
        require_own_run(folder, rig.site, run)
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
            promise = run.manifest().promise
            folder.add(make_failed_cycle(run.path.name, drawn, text, promise=promise))
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
        end_fault_left(rig, run)
        note_judged(rig, run.path.name)
        return judge_run(run, rig.reader, rig.listener.progress)
    manifest = run.manifest()
    rig = lead_as_in_run(rig, manifest)
    require_same_site(rig.site, manifest)
    if rig.site.attended:
        if (reason := rig.site.ready()) is not None:
            text = f"if the power of the server is off, restore it: {reason}"
            rig.listener.phase(Phase.POWER, text)
    elif _may_be_off(rig.site.state(), run):
        restore_power(rig, run)
    return require_server_back(rig, reconcile_run(rig, run, manifest))


def _may_be_off(state: PowerState, run: RunFolder) -> bool:
    """Return True if the power may be off: the switch says so, or cannot say it.

    A run whose load ended without a request to cut left the power on.
    """
    if state is not PowerState.UNKNOWN:
        return state is PowerState.OFF
    load = run.load()
    return load is None or load.may_be_cut


def add_outcome(
    folder: CampaignFolder, outcome: Outcome, *, settled: bool = False
) -> None:
    """Store the result of a run; drop the rows of one that lost nothing.

    What the run showed of the server is stored first: a client that ends in between
    settles the same run again, and no cycle begins without this knowledge.
    """
    folder.write_known(folder.known().with_outcome(outcome))
    folder.add(make_cycle(outcome, ended=format_now(), settled=settled))
    if outcome.verdict is Verdict.PASS:
        outcome.run.drop_survivors()
