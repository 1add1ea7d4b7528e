"""Continues a run that ended early: the command to type, and what it does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.preflight.earlier_cycles import Known
from dbcheck.cycle.preflight.pending_runs import require_none_on_witness
from dbcheck.cycle.reconciling import lead_as_in_run, reconcile_run
from dbcheck.cycle.rig import Rig
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import Gone
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import ControlFacts
from dbcheck.ports.listener import Phase
from dbcheck.ports.witness import Witness
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner import assemble
from dbcheck.runner.placement import place_as_run
from dbcheck.runs import client_key
from dbcheck.runs.folder import RunFolder, reconcile_command, require_run_id
from dbcheck.witness.window import WindowLimits

PAUSED = (
    "the run can still be judged from the witness's log. Once the server answers, and "
    "before anything else writes to it, run: {command}"
)
NOT_RESTORED = (
    "this restores and reads it later: {command}. It can only find a loss then, and"
    " cannot pass: the server has its power back, and may have shipped more"
)
UNCUT = (
    "nothing was cut, so there is nothing to judge. If the power fails anyway: once "
    "the server answers, and before anything else writes to it, run: {command}"
)
STILL_THERE = (
    "the fault beside the load could not be ended: end it by hand now, or mend what"
    " keeps dbcheck_fault_end from it; then run it again: {command}"
)
LEFT_OVER = (
    "the tables stay on the target and the log on the witness. If the power did not"
    " fail, this removes both: {clean}"
)
UNLOADED = (
    "before the load: nothing was cut. Tables that were made already stay on the"
    " target; this removes them: {clean}"
)
MAYBE_CUT = (
    "the cut had been asked for, and no switch reported that it was made, but the power"
    " may have been cut. Once the server answers, and before anything else writes to"
    " it, run: {command}"
)


def run_resumable_cycle(
    rig: Rig,
    workload: Workload,
    seed: int,
    controls: list[ControlFacts],
    known: Known,
    view: PlainProgress,
    clean: str = "",
) -> Outcome:
    """Run the cycle; print how to continue if it ends before its verdict.

    controls, known: see run_preflight().  clean: the command that removes what a run
    left on the target, "" for a target that goes with its lab.
    """
    require_none_on_witness(rig)
    try:
        started = run_preflight(rig, workload, seed, controls=controls, known=known)
    except BaseException as error:
        if clean and interrupt.is_caused_by_interrupt(error):
            view.line("stopped", UNLOADED.format(clean=clean))
        raise
    command = rig.reconcile_command(started.run.path)
    try:
        outcome = finish_cycle(rig, started)
    except (KeyboardInterrupt, DbcheckError):
        restored = rig.copying is not None
        advice = _find_advice(started.run.load(), restored=restored)
        view.line("no verdict", advice.format(command=command))
        if clean and advice is UNCUT:
            run_id = started.manifest.run_id
            view.line("clean up", LEFT_OVER.format(clean=f"{clean} --run {run_id}"))
        raise
    if outcome.after.unanswered:
        view.line("not final", PAUSED.format(command=command))
    if outcome.case.fault is not None and not outcome.case.fault.is_over:
        view.line("fault", STILL_THERE.format(command=command))
    return outcome


def _find_advice(load: LoadRecord | None, *, restored: bool = False) -> str:
    """Return the advice for a run that ended unjudged, with {command} in it.

    restored: it is judged by what is restored elsewhere.
    """
    if restored and load is not None and load.gone is not Gone.NEVER:
        return NOT_RESTORED
    if load is None or any(node.cut for node in load.nodes.values()):
        return PAUSED
    if load.cut_failed:
        return MAYBE_CUT
    return UNCUT if load.gone is Gone.NEVER else PAUSED


_MANIFEST_HAS_OTHER_TARGET = "the run's manifest has a different target URL: {}"
_ERRORS_OF_LOGIN = (
    ErrorId.HOST_KEY_UNKNOWN,
    ErrorId.LOGIN_REFUSED,
    ErrorId.PASSWORD_REFUSED,
    ErrorId.SSH_LOGIN_REJECTED,
)
_ADVICE_TO_NAME_HOST = (
    " If the run was made with a host of an inventory, which may name a password, a key"
    " and known hosts of its own, give that host: --name, and --inventory."
)


def reconcile_entry(
    entry: Entry,
    run: Path | None,
    run_id: str,
    runs: Path,
    *,
    accept_new_key: bool,
    live: bool,
) -> Outcome:
    """Judge the run in the folder *run*, or if it is None, *run_id* on the witness.

    runs: where the folder of a run on the witness is made.  accept_new_key: trust and
    store the unknown host key of a witness.  live: show progress as a table.
    """
    folder = RunFolder.open(run) if run is not None else None
    restarter = assemble.make_restarter(entry)
    entry = _complete_entry(entry, folder)
    window = WindowLimits()
    with (
        _advise_naming_host(entry),
        make_progress(make_progress_console(), live=live) as view,
        assemble.open_entry_witness(entry, window, accept_new_key) as witness,
    ):
        folder = folder or _recall_run(witness, run_id, runs)
        manifest = folder.manifest()
        entry = place_as_run(entry, manifest, is_own=folder.is_own())
        # Nothing is cut here, whatever switch the inventory names.
        if not entry.standbys:
            entry = replace(entry, power=ManualConfig())
        rig = assemble.make_rig(entry, witness, view, runs, window, cuts=False)
        writer = replace(rig.site.writer, restarter=restarter)
        rig = replace(rig, site=rig.site.with_writer(writer))
        if (plan := manifest.copy) is not None:
            copying = assemble.make_copying(entry, after_loss=plan.is_after_loss)
            rig = replace(rig, copying=copying)
        rig = lead_as_in_run(rig, manifest)
        recorded = manifest.writer.target
        if recorded != rig.site.writer.engine.target:
            view.phase(Phase.PREFLIGHT, _MANIFEST_HAS_OTHER_TARGET.format(recorded))
        return reconcile_run(rig, folder, manifest)


@contextlib.contextmanager
def _advise_naming_host(entry: Entry) -> Iterator[None]:
    """Add to the hint of a failed login that the run's host can be named."""
    try:
        yield
    except DbcheckError as error:
        if error.id in _ERRORS_OF_LOGIN and not entry.name:
            error.hint += _ADVICE_TO_NAME_HOST
        raise


def _complete_entry(entry: Entry, folder: RunFolder | None) -> Entry:
    """Return *entry* with the target and the witness that the run's manifest names.

    Only a manifest that this user's client wrote is used: any other manifest could
    choose the server that gets the password.  Raise UsageError if *entry* lacks a URL
    that must then not come from the manifest.
    """
    if folder is not None and folder.is_own():
        manifest = folder.manifest()
        return replace(
            entry,
            target=entry.target or manifest.writer.target,
            witness=entry.witness or manifest.witness,
        )
    if folder is None and not entry.target:
        raise UsageError(
            "--run needs --target",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Give the URL of the server that took the load, or its --name in the "
            "inventory: the password is sent there, so no witness may choose it.",
        )
    if folder is not None and not (entry.target and entry.witness):
        raise _foreign_run_error(folder, entry)
    return entry


def _foreign_run_error(folder: RunFolder, entry: Entry) -> UsageError:
    """Return the error that *entry* must name the URLs of a run of someone else."""
    run_id = folder.manifest().run_id
    client_key.recall(run_id)  # raises if the key is there and cannot be used
    urls = {"--target": entry.target, "--witness": entry.witness}
    lacking = [flag for flag, url in urls.items() if not url]
    flags = ("--target", "URL", "--witness", "URL")
    return UsageError(
        f"{folder.path} needs {' and '.join(lacking)}: nothing shows that it is a run"
        f" of yours. There is no key of run {run_id} in {client_key.find_key_folder()},"
        " or it is that of another manifest",
        id=ErrorId.OPTION_NEEDS_ANOTHER,
        hint="Use the account that made it, with sudo if that was used; or give what it"
        f" was made with: {reconcile_command(folder.path, flags)}"
        ", or --name with its host in the inventory. The password is sent to that"
        " server, so no folder may choose it.",
    )


def _recall_run(witness: Witness, run_id: str, runs: Path) -> RunFolder:
    """Make a run folder from what the witness holds of a run."""
    wanted = require_run_id(run_id)
    if (runs / wanted).exists():
        raise UsageError(
            f"run {wanted} already has a folder here: {runs / wanted}",
            id=ErrorId.RUN_FOLDER_EXISTS,
            hint=f"Use that one: {reconcile_command(runs / wanted)}",
        )
    where = f"{witness.url}/{wanted}/manifest.json"
    content, key = witness.manifest(wanted), client_key.recall(wanted)
    return RunFolder.recall(runs, wanted, content, key, where)
