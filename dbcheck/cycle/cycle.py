"""One cycle: load, cut, restore, read the survivors, judge; and its control."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    EngineError,
    LogDamaged,
    NotBack,
    PowerError,
    RunWriteError,
    UsageError,
    WitnessError,
)
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.fault import FaultWatch, end_fault_left, require_fault_ended
from dbcheck.cycle.fetching import fetch_logs, require_no_load
from dbcheck.cycle.host import end_canaries
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.outage import OutageWatch
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.preflight.pending_runs import note_judged, require_none_on_witness
from dbcheck.cycle.recovery.after_cut import STANDS, read_survivors
from dbcheck.cycle.recovery.other_nodes import describe_nodes_left_off
from dbcheck.cycle.recovery.second_reading import require_restarter
from dbcheck.cycle.recovery.waiting import REFUSED_S
from dbcheck.cycle.rig import Rig
from dbcheck.judge.item import Status
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import Gone, LabCut
from dbcheck.model.moments import PlannedCut
from dbcheck.model.records import Manifest, RestoreRecord
from dbcheck.model.verdict import ControlFacts, Verdict
from dbcheck.model.witness import LogFacts
from dbcheck.ports.listener import Phase
from dbcheck.ports.power import DriveScoped
from dbcheck.ports.site import Site
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import read_manifest

INTERRUPTED = (
    "interrupted: the power is restored after its time off (Ctrl-C again restores it "
    "now, and this run then cannot pass)"
)
RESTORING = (
    "after an error: the power is restored after its time off (Ctrl-C restores it now)"
)
LEFT_OFF = (
    "this run {cut} the power ({kind}), and has no record that it restored the power. "
    "If the host is still off, {do}"
)


def run_cycle(
    rig: Rig,
    workload: Workload,
    seed: int,
    controls: Sequence[ControlFacts] = (),
    moment: PlannedCut | None = None,
    known: Known = NOTHING_KNOWN,
    emptied: Callable[[Known], None] | None = None,
) -> Outcome:
    """Run one whole cycle on *rig*, after *controls*, and return its verdict.

    moment: when the cut is to come, None to have it drawn.
    known, emptied: what earlier runs showed, and what is called before the tables are
    dropped; see run_preflight().  Raise NotBack if the server is not back.
    """
    with wait_for_turn(rig):
        require_none_on_witness(rig)
        started = run_preflight(
            rig,
            workload,
            seed,
            controls=controls,
            moment=moment,
            known=known,
            emptied=emptied,
        )
    outcome = finish_cycle(rig, started)
    require_fault_ended(rig, outcome.run)
    return require_server_back(rig, outcome)


@contextlib.contextmanager
def wait_for_turn(rig: Rig) -> Iterator[None]:
    """Wait for the permit to cut this target; give it back if the body fails.

    Otherwise finish_cycle() gives it back, once the power is back or nothing was cut.
    """
    rig.permit.take()
    try:
        yield
    except BaseException:
        rig.permit.give_back()
        raise


def require_server_back(rig: Rig, outcome: Outcome) -> Outcome:
    """Return *outcome*; raise NotBack if the server is not back: no cycle can follow.

    Without the server the run is INCONCLUSIVE until it is reconciled.
    """
    if outcome.after.unanswered:
        raise NotBack(
            outcome.after.unanswered,
            id=ErrorId.SERVER_NOT_BACK,
            hint="Once it is back, before anything writes to it: "
            + rig.reconcile_command(outcome.run.path),
        )
    return outcome


def finish_cycle(rig: Rig, started: Started) -> Outcome:
    """Run the load, the cut, the restore, the reading and the judgement.

    After an error or an interrupt, reconcile_run() can finish the run, and no target
    stays without power that a switch can restore.
    """
    with (
        _keep_canary_session(started),
        started.run.locked(),
        OutageWatch(rig, started.run, started.manifest, started.no_outage) as outage,
    ):
        cutter = Cutter(rig, started)
        fault = FaultWatch(rig, started, cutter.after_s)
        with interrupt.hold_interrupts_back():
            try:
                try:
                    with interrupt.let_interrupts_through():
                        load = load_until_cut(
                            rig, started, cutter, outage.note_gone, fault
                        )
                finally:
                    fault.end()
            except BaseException as error:
                if not cutter.asked:
                    rig.permit.give_back()
                    rig.listener.phase(Phase.STOPPED, "before the cut: nothing was cut")
                elif not rig.site.attended:
                    pressed = interrupt.is_caused_by_interrupt(error)
                    text = INTERRUPTED if pressed else RESTORING
                    if rig.site.kept_off:
                        text = describe_nodes_left_off(rig.site.kept_off, rig.site.kind)
                    rig.listener.phase(Phase.RESTORE, text)
                    try:
                        restore_power(rig, started.run)
                    except (PowerError, RunWriteError) as failure:
                        # The error that ended the cycle is raised, and this is shown.
                        rig.listener.phase(Phase.RESTORE, f"failed: {failure}")
                raise
            if cutter.asked or (load.gone is not Gone.NEVER and rig.site.attended):
                restore_power(rig, started.run)
                outage.note_restored()
            else:
                rig.permit.give_back()
        fault.end()  # once more: its program may have needed the node's power
        fetched = fetch_logs(rig, started.run, started.manifest)
        return _reconcile(rig, started.run, started.manifest, fetched, outage=outage)


@contextlib.contextmanager
def _keep_canary_session(started: Started) -> Iterator[None]:
    """Keep the crash canary's session open until the survivors are read."""
    try:
        yield
    finally:
        if started.held is not None:
            started.held.close()


def restore_power(rig: Rig, run: RunFolder) -> None:
    """Restore the power; store the times off, and what hosts saw of their drives."""
    off_s = rig.site.restore()
    switches = {name: node.power for name, node in rig.site.nodes.items()}
    drives = {
        name: seen
        for name, switch in switches.items()
        if isinstance(switch, DriveScoped) and (seen := switch.seen()) is not None
    }
    if off_s:
        run.write_restore(RestoreRecord(off_s, drives))
    rig.permit.give_back()


def reconcile_run(rig: Rig, run: RunFolder, manifest: Manifest) -> Outcome:
    """Read the survivors, fetch the witness's log, and judge.

    Raise UsageError if the survivors were read before, as later rows prove nothing, or
    if another client's run of this id is on the witness.  If the server had not come
    back, no survivor was read: they are read now, and the failure stays on record.
    """
    rig = lead_as_in_run(rig, manifest)
    with run.locked():
        require_same_site(rig.site, manifest)
        end_fault_left(rig, run)
        require_restarter(rig)
        _require_same_run(rig, run)
        if run.was_read() and run.read_certain_failure() is None:
            raise UsageError(
                f"the survivors of run {manifest.run_id} were read already",
                id=ErrorId.SURVIVORS_READ_ALREADY,
                hint="Judge what was read then: "
                f"dbcheck reconcile {shlex.quote(str(run.path))} --offline.",
            )
        fetched = fetch_logs(rig, run, manifest)
        if left_off := _describe_power_left_off(rig, run, manifest):
            rig.listener.phase(Phase.POWER, left_off)
        try:
            outcome = _reconcile(rig, run, manifest, fetched, REFUSED_S)
        except EngineError as error:
            error.hint = f"{left_off}\n  {error.hint}" if left_off else error.hint
            raise
        undo_weakening(rig)
        return outcome


def _describe_power_left_off(rig: Rig, run: RunFolder, manifest: Manifest) -> str:
    """Return the advice for power that a client cut and did not restore.

    "" if the client restored the power or never cut it, or if only a human can restore
    it.  dbcheck does not restore it here: somebody may be at work on the host by now.
    The command in another client's run is not shown: somebody might run it.
    """
    node, promise = manifest.writer, manifest.promise
    is_away = promise is not None and not promise.writer_returns
    if not is_away and (not node.restore_command or run.restore() is not None):
        return ""
    load = run.load()
    cut = load is not None and any(seen.cut for seen in load.nodes.values())
    asked = run.cut_asked() is not None
    asked = asked or _read_log_facts(rig, run).cut_announced
    if not cut and not asked:
        return ""
    if is_away:
        return describe_nodes_left_off([manifest.writer_name], manifest.site)
    return LEFT_OFF.format(
        cut="cut" if cut else "may have cut",
        kind=node.power.value,
        do=f"run: {node.restore_command}"
        if run.is_own()
        else "restore the power with its switch",
    )


def _read_log_facts(rig: Rig, run: RunFolder) -> LogFacts:
    """Return the facts of the run's first log, empty ones if it is damaged."""
    with contextlib.suppress(LogDamaged):  # the judgement will report the damage
        return rig.reader.facts(run.acks_path(), run.manifest().run_id, 0, None)
    return LogFacts(0, 0, 0, None, ())


def lead_as_in_run(rig: Rig, manifest: Manifest) -> Rig:
    """Return *rig*, led by the node that took the load of a run, if it has that node.

    In a campaign another node may take the load of each cycle, and another promise may
    be tested: the site has that promise, if it is one of the target's.
    """
    site, name, promise = rig.site, manifest.writer_name, manifest.promise
    if promise and promise in rig.promises and promise is not site.promise:
        site = site.promising(promise)
    if name != site.writer_name and name in site.nodes:
        site = site.led_by(name)
    return rig if site is rig.site else replace(rig, site=site)


def require_same_site(site: Site, manifest: Manifest) -> None:
    """Raise UsageError for a run whose nodes are not the nodes of *site*."""
    ours = (site.kind, site.promise, site.writer_name, set(site.nodes))
    theirs = (
        manifest.site,
        manifest.promise,
        manifest.writer_name,
        set(manifest.nodes),
    )
    if ours != theirs:
        raise UsageError(
            f"run {manifest.run_id} was made on another site"
            f" ({manifest.site.value}; nodes: {', '.join(sorted(manifest.nodes))})",
            id=ErrorId.SITE_DIFFERS_FROM_RUN,
            hint="Name the target as it was named for the run.",
        )


def _require_same_run(rig: Rig, run: RunFolder) -> None:
    """Raise UsageError if the witness has another client's run of this id.

    The witness refused this run then.  The log there is the other run's, without any
    ack of this run.
    """
    ours = run.manifest()
    run_id = ours.run_id
    where = f"the manifest of run {run_id} on {rig.witness.url}"
    theirs = read_manifest(rig.witness.manifest(run_id), where)
    if (theirs.epoch, theirs.seed) != (ours.epoch, ours.seed):  # drawn at random
        raise UsageError(
            f"run {run_id} on {rig.witness.url} belongs to another client",
            id=ErrorId.RUN_OF_OTHER_CLIENT,
            hint="This run was never started on that witness; there is nothing to "
            "judge.",
        )


def undo_weakening(rig: Rig) -> None:
    """Undo the settings that a control changed on the server; never raises.

    It may be called only once the survivors were read, or if none will be.  A control
    whose commits no other node has changes none, and its writer may be off.
    """
    if Weakens.for_promise(rig.site.promise) is Weakens.REPLICATION:
        return
    try:
        text = rig.site.writer.engine.restore_durability()
    except EngineError as error:
        text = (
            "not every setting that the control changed is back; what is not, stays"
            f" until the server restarts: {error}"
        )
    if text:
        rig.listener.phase(Phase.CONTROL, text)


def _reconcile(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    fetched: Sequence[int],
    refused_s: float = math.inf,
    outage: OutageWatch | None = None,
) -> Outcome:
    """Read the survivors, judge.

    fetched: the lengths of the witness's logs when they were fetched.
    refused_s: see read_survivors(); a login that worked before the cut is waited for.
    outage: see read_survivors().
    All that is judged, now or --offline, is stored once the survivors are.  The logs
    were fetched before, so no ack came after the survivors.  The client's record of the
    load, written when all its sessions had ended, stays true if a log grows.
    """
    if run.load() is None:
        _recall_load(rig, run)
    earlier_failure = run.read_certain_failure()
    read_survivors(rig, run, manifest, earlier_failure, refused_s, outage)
    if outage is not None:
        outage.finish(None)
    try:
        require_no_load(rig, manifest, fetched)
    except UsageError:
        run.forget_survivors(earlier_failure)
        raise
    rig.listener.phase(Phase.JUDGE, str(run.path))
    outcome = judge_run(run, rig.reader, rig.listener.progress)
    if earlier_failure is None or not outcome.judgement.other_data:
        if run.was_read():
            note_judged(rig, manifest.run_id)
        return outcome
    rig.listener.phase(Phase.JUDGE, f"{outcome.judgement.reasons[0]}; {STANDS}")
    run.forget_survivors(earlier_failure)
    return judge_run(run, rig.reader, rig.listener.progress)


def _recall_load(rig: Rig, run: RunFolder) -> None:
    """Take the client's record of the load from the witness, if it is there."""
    if (sealed_load := _read_log_facts(rig, run).sealed_load) is not None:
        run.recall_load(*sealed_load, f"the load record in {run.acks_path()}")


TRIES_MAX = 3  # of a control


def keep_rig(rig: Rig, known: Known) -> tuple[Rig, Known]:
    """Return both: a single server needs nothing before the next control."""
    return rig, known


def run_controls(
    rig: Rig,
    workload: Workload,
    seed: int,
    known: Known = NOTHING_KNOWN,
    make_whole: Callable[[Rig, Known], tuple[Rig, Known]] = keep_rig,
) -> Iterator[Outcome]:
    """Run a control, and again as long as chance may be why it shows nothing.

    Yield each outcome before the next control begins.  known: what earlier runs showed.
    make_whole: rebuilds a cluster before another control, or replaces it; returns the
    rig that its writer leads now, and what is known of that cluster.

    PostgreSQL may by chance have written all but the last page of its log, and a
    standby may have connected again just before the cut.  So there are up to TRIES_MAX
    tries, but only one if a human has to cut.
    """
    tries = 1 if rig.site.attended else TRIES_MAX
    for number in range(tries):
        if number:
            rig, known = make_whole(rig, known)
        outcome = run_control(rig, workload, seed + number, known)
        known = known.with_outcome(outcome)
        rig.listener.phase(Phase.CONTROL, outcome.judgement.reasons[0])
        yield outcome
        if not _is_worth_another_try(outcome):
            break


def run_control(
    rig: Rig, workload: Workload, seed: int, known: Known = NOTHING_KNOWN
) -> Outcome:
    """Run one control on *rig*; return the outcome, whose verdict is a control's.

    Its settings on the server are undone even after an error or an interrupt.  If this
    process dies, a restart of the server undoes them, or the next cycle or
    reconciliation on it.
    """
    require_none_on_witness(rig)
    with contextlib.ExitStack() as undo:
        with wait_for_turn(rig):
            started = run_preflight(rig, workload, seed, control=True, known=known)
            undo.callback(undo_weakening, rig)
            _weaken(rig, started)
        return require_server_back(rig, finish_cycle(rig, started))


def extract_control_facts(outcome: Outcome) -> ControlFacts:
    """Return the facts of a control that the cycles after it need."""
    judgement = outcome.judgement
    assert judgement.control is not None
    return ControlFacts(
        outcome.manifest.run_id, judgement.control, judgement.reasons[0]
    )


def _weaken(rig: Rig, started: Started) -> None:
    """Weaken the server, if its sessions are not enough; note how in the witness's log.

    If that fails, end the log, the session and the canaries that the preflight began.
    """
    engine = rig.site.writer.engine
    process = rig.lab.get("cut") == LabCut.PROCESS.value
    try:
        if Weakens.for_promise(rig.site.promise) is Weakens.FLUSH:
            text = engine.weaken_durability(process=process)
        else:
            text = engine.describe_unreplicated()
        started.log.note({"event": "relaxed", "how": text})
    except BaseException:
        with contextlib.suppress(WitnessError):  # it must not hide the first error
            started.log.close()
        if started.held is not None:
            started.held.close()
        end_canaries(rig.site, started.canaries, remove=True)
        raise
    rig.listener.phase(Phase.CONTROL, text)


def _is_worth_another_try(outcome: Outcome) -> bool:
    """Return True if another try could show more: no luck undoes a contradiction."""
    return outcome.verdict is Verdict.INCONCLUSIVE and not any(
        item.status is Status.CONTRADICTED for item in outcome.judgement.items
    )
