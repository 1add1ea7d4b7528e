"""One cycle: load, cut, restore, read the survivors, judge; and its control."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    EngineError,
    NotBack,
    PowerError,
    RunWriteError,
    WitnessError,
)
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.fault import FaultWatch, require_fault_ended
from dbcheck.cycle.fetching import fetch_logs
from dbcheck.cycle.host import end_canaries
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.outage import OutageWatch
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.preflight.pending_runs import require_none_on_witness
from dbcheck.cycle.reconciling import read_and_judge, undo_weakening
from dbcheck.cycle.recovery.other_nodes import describe_nodes_left_off
from dbcheck.cycle.restored import restored_copy
from dbcheck.cycle.rig import Rig
from dbcheck.judge.item import Status
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import Gone, LabCut
from dbcheck.model.moments import PlannedCut
from dbcheck.model.records import RestoreRecord
from dbcheck.model.verdict import ControlFacts, Verdict
from dbcheck.ports.listener import Phase
from dbcheck.ports.power import DriveScoped
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder

INTERRUPTED = (
    "interrupted: the power is restored after its time off (Ctrl-C again restores it "
    "now, and this run then cannot pass)"
)
STAYS_OFF = "the server stays off until its rows were read elsewhere"
RESTORING = (
    "after an error: the power is restored after its time off (Ctrl-C restores it now)"
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
            if not (
                cutter.asked or (load.gone is not Gone.NEVER and rig.site.attended)
            ):
                rig.permit.give_back()
                _require_lost(rig)
            elif rig.copying is None:
                restore_power(rig, started.run)
                outage.note_restored()
            else:
                return _read_elsewhere(rig, started, fault)
        fault.end()  # once more: its program may have needed the node's power
        fetched = fetch_logs(rig, started.run, started.manifest)
        run, manifest = started.run, started.manifest
        return read_and_judge(rig, run, manifest, fetched, outage=outage)


def _require_lost(rig: Rig) -> None:
    """Raise EngineError if the server was to be lost; it ended by itself instead."""
    if rig.copying is not None:
        raise EngineError(
            "the server ended before its power was cut",
            id=ErrorId.ALL_SESSIONS_ENDED,
            hint="It may have shipped more since, so its restore shows nothing. See its"
            " log, then run it again.",
        )


def _read_elsewhere(rig: Rig, started: Started, fault: FaultWatch) -> Outcome:
    """Have restored elsewhere what the lost server had shipped; read it, and judge.

    The server gets its power back only then: it would ship the rest.  Interrupts are
    held back when this is called, and let through before the power is restored.
    """
    run, manifest = started.run, started.manifest
    rig.listener.phase(Phase.POWER, STAYS_OFF)
    try:
        with interrupt.let_interrupts_through():
            fetched = fetch_logs(rig, run, manifest)
            with restored_copy(rig, run) as restored:
                return read_and_judge(restored, run, manifest, fetched)
    finally:
        rig.listener.phase(Phase.RESTORE, "the power of the server is restored")
        try:
            restore_power(rig, run)
        finally:
            fault.end()  # its program may have needed the node's power


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
