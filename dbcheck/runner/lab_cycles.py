"""Runs cycles in a lab that is made for them and ends with them."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Generator
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path

from dbcheck.cycle.cycle import extract_control_facts, finish_cycle, run_controls
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.rig import Limits
from dbcheck.lab.drive.control import require_room
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LAYER, DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import Phase
from dbcheck.report.drives import describe_faults
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_rig import make_lab_rig
from dbcheck.runs.stored import make_folder

# The moments of the cut, seconds of load: a server on this machine is at its pace soon.
CUT_AFTER_S = (1.5, 2.5)
LIMITS = Limits(return_s=120)


def run_lab_cycles(
    spec: LabSpec,
    workload: Workload,
    seed: int,
    cycles: int,
    progress: PlainProgress,
    runs: Path,
    limits: Limits = LIMITS,
    *,
    control: bool = False,
    keep_image: bool = False,
    twice: bool = False,
) -> Generator[Outcome, None, None]:
    """Yield the outcome of each of *cycles* cycles in one lab; cycle n has seed + n.

    With *control*, the outcomes of the controls come first; a control that fails is the
    last cycle.  So is a cycle whose server did not come back.
    keep_image: for each cycle that does not pass, keep the drive as the cut left it in
    the run folder; raise UsageError if there is no room for it.
    twice: see Rig.
    """
    if keep_image:
        make_folder(runs)
        require_room(runs, spec.drive.size_bytes)
    progress.phase(Phase.LAB, describe_lab(spec))
    # The lab itself makes and removes this folder: a folder made by this process would
    # be left behind if the process is killed by SIGKILL.
    folder = Path(tempfile.gettempdir(), f"dbcheck-lab-{secrets.token_hex(4)}")
    with Lab.start(spec, folder) as lab:
        # No other command uses this lab's server, so all its epochs are known here.
        switch = lab.switch()
        rig = make_lab_rig(lab, progress, runs, limits, switch)
        rig = replace(rig, used_epochs=set(), read_twice=twice)
        with contextlib.closing(rig.witness):
            controls = list(run_controls(rig, workload, seed)) if control else []
            yield from controls
            if controls and controls[-1].verdict is Verdict.FAIL:
                return
            facts = [extract_control_facts(outcome) for outcome in controls]
            known = reduce(Known.with_outcome, controls, NOTHING_KNOWN)
            for number in range(cycles):
                if keep_image:
                    require_room(runs, spec.drive.size_bytes)
                started = run_preflight(
                    rig,
                    workload,
                    seed + number,
                    controls=facts,
                    known=known,
                    emptied=lambda _known: None,  # nothing to store: the lab ends too
                )
                if keep_image:
                    switch.image = started.run.image_path
                outcome = finish_cycle(rig, started)
                known = known.with_outcome(outcome)
                if outcome.verdict is Verdict.PASS:
                    outcome.run.drop_image()
                yield outcome
                if outcome.after.failure or outcome.after.unanswered:
                    return


def stop_at_first_loss(
    outcomes: Generator[Outcome, None, None], cuts: int
) -> Generator[Outcome, None, None]:
    """Yield *outcomes* up to the first loss, or until *cuts* cuts lost nothing."""
    kept = 0
    with contextlib.closing(outcomes):
        for outcome in outcomes:
            yield outcome
            if not outcome.manifest.control:
                kept += outcome.verdict is Verdict.PASS
                if outcome.verdict is Verdict.FAIL or kept == cuts:
                    return


def adapt_workload_to_lab(workload: Workload) -> Workload:
    """Return *workload* with the lab's earlier cut."""
    return replace(workload, cut_after_s=CUT_AFTER_S)


def describe_lab(spec: LabSpec) -> str:
    """Return a description of a lab, for one line."""
    parts = [spec.engine]
    if spec.contained:
        where = "in its writable layer" if spec.container == LAYER else "on a volume"
        parts.append(f"in a container, data {where}")
    if spec.cut == "process":
        parts.append("server process killed (SIGKILL)")
    else:
        options = f" -o {spec.mount_options}" if spec.mount_options else ""
        parts.append(f"{spec.filesystem}{options} on {_describe_drive(spec.drive)}")
        if spec.log_drive:
            parts.append("the log on another one")
        if spec.power_scope == "drive":
            parts.append("cut under a host that keeps running")
        if spec.write_cache != "auto":
            parts.append(f"declared {spec.write_cache}")
    parts += [f"{name}={value}" for name, value in spec.settings.items()]
    return ", ".join(parts)


def _describe_drive(drive: DriveSpec) -> str:
    """Return a description of a drive: its personality, and each fault beside it."""
    added = " and ".join(describe_faults({**asdict(drive), "personality": ""}))
    if drive.personality != "honest":
        kind = f"a {drive.personality} drive"
    else:
        kind = "a drive" if added else "an honest drive"
    return f"{kind} where {added}" if added else kind
