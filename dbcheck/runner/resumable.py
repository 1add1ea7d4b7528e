"""A cycle that prints the command to continue with if it ends early."""

from __future__ import annotations

from dbcheck.base.errors import DbcheckError
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import preflight
from dbcheck.cycle.preflight.earlier_cycles import Known
from dbcheck.cycle.preflight.pending_runs import require_none_on_witness
from dbcheck.cycle.rig import Rig
from dbcheck.model.cut import Gone
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import ControlFacts
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload

PAUSED = (
    "the run can still be judged from the witness's log. Once the server answers, and "
    "before anything else writes to it, run: {command}"
)
UNCUT = (
    "nothing was cut, so there is nothing to judge. If the power fails anyway: once "
    "the server answers, and before anything else writes to it, run: {command}"
)
MAYBE_CUT = (
    "the cut had been asked for, and no switch reported that it was made, but the power"
    " may have been cut. Once the server answers, and before anything else writes to"
    " it, run: {command}"
)


def resumable_cycle(
    rig: Rig,
    workload: Workload,
    seed: int,
    controls: list[ControlFacts],
    known: Known,
    view: PlainProgress,
) -> Outcome:
    """Run the cycle; print how to continue if it ends before its verdict.

    controls, known: see preflight().
    """
    require_none_on_witness(rig)
    started = preflight(rig, workload, seed, controls=controls, known=known)
    command = rig.reconcile_command(started.run.path)
    try:
        outcome = finish_cycle(rig, started)
    except (KeyboardInterrupt, DbcheckError):
        advice = _advice(started.run.load())
        view.line("no verdict", advice.format(command=command))
        raise
    if outcome.after.unanswered:
        view.line("not final", PAUSED.format(command=command))
    return outcome


def _advice(load: LoadRecord | None) -> str:
    """Return what to do with a run that ended before it was judged, with {command}."""
    if load is None or any(seen.cut for seen in load.nodes.values()):
        return PAUSED
    if load.cut_failed:
        return MAYBE_CUT
    return UNCUT if load.gone is Gone.NEVER else PAUSED
