"""A cycle that says how to continue if it does not reach its end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dbcheck.campaign.cycle import finish_cycle
from dbcheck.campaign.known import Known
from dbcheck.campaign.outcome import Outcome
from dbcheck.campaign.preflight import preflight
from dbcheck.campaign.rig import Rig
from dbcheck.cli.entry_options import HostOptions, Named, TargetOptions, WitnessOptions
from dbcheck.core.control import ControlFacts
from dbcheck.core.records import LoadRecord
from dbcheck.core.workload import Workload
from dbcheck.errors import DbcheckError
from dbcheck.report.progress import PlainProgress

PAUSED = (
    "what the witness holds can still be judged, once the server answers and before "
    "anything else writes to it: {command}"
)
UNCUT = (
    "nothing was cut, so there is nothing to judge. Should its power go all the same, "
    "the run can be judged once the server answers and before anything else writes to "
    "it: {command}"
)
MAYBE_CUT = (
    "the switch failed after it was asked to cut, and the power may have gone all the "
    "same. Once the server answers, and before anything else writes to it: {command}"
)


def reconcile_flags(
    named: Named, target: TargetOptions, host: HostOptions, witness: WitnessOptions
) -> list[str]:
    """Return what dbcheck reconcile needs again, to get in and to see as much.

    The run's manifest names the target and the witness.
    """
    name = ["--name", named.name] if named.name else []
    return [
        *name,
        *named.words("inventory"),
        *target.words("password_command"),
        *witness.words("identity", "known_hosts"),
        *host.words("target_host", "server_log"),
    ]


def resumable_cycle(
    rig: Rig,
    workload: Workload,
    seed: int,
    controls: list[ControlFacts],
    known: Known,
    view: PlainProgress,
    again: Sequence[str],
) -> Outcome:
    """Run the cycle; say how to go on if it is not brought to its end.

    controls, known: see preflight().  again: see reconcile_flags().
    """
    started = preflight(rig, workload, seed, controls=controls, known=known)
    command = shlex.join(["dbcheck", "reconcile", str(started.run.path), *again])
    try:
        outcome = finish_cycle(rig, started)
    except (KeyboardInterrupt, DbcheckError):
        said = _why_no_verdict(started.run.load())
        view.line("no verdict", said.format(command=command))
        raise
    if outcome.after.unanswered:
        view.line("not final", PAUSED.format(command=command))
    return outcome


def _why_no_verdict(load: LoadRecord | None) -> str:
    """Return what to do with a run that ended before it was judged."""
    if load is None or load.cut:
        return PAUSED
    if load.cut_failed:
        return MAYBE_CUT
    return PAUSED if load.gone else UNCUT
