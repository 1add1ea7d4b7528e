"""dbcheck reconcile: finish a run, judge it again, or judge it from anywhere."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import click

from dbcheck import clientkey
from dbcheck.campaign.cycle import reconcile_run
from dbcheck.campaign.judging import judge_run
from dbcheck.cli import assemble, options, output
from dbcheck.cli.entries import (
    HostOptions,
    NamedByFlag,
    TargetOptions,
    WaitOptions,
    WitnessOptions,
    chosen,
)
from dbcheck.cli.groups import Verb, grouped
from dbcheck.errors import UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.ports.witness import Witness
from dbcheck.power.kinds.manual import ManualPlan
from dbcheck.report.progress import progress
from dbcheck.runs import RunFolder, require_run_id
from dbcheck.stored import may_write
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.window import WindowLimits


@click.command("reconcile", cls=Verb)
@grouped
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option(
    "--run", "run_id", metavar="ID", help="Run id on the witness, without a RUN folder."
)
@click.option(
    "--offline", is_flag=True, help="Judge what is stored in RUN; touch no server."
)
@options.runs()
@options.as_json()
def command(
    run: Path | None,
    named: NamedByFlag,
    target: TargetOptions,
    host: HostOptions,
    witness: WitnessOptions,
    wait: WaitOptions,
    run_id: str | None,
    offline: bool,
    runs: Path,
    as_json: bool,
) -> None:
    """Finish or judge again a run whose power was cut.

    \b
    dbcheck reconcile runs/ID                    read the survivors, judge
    dbcheck reconcile runs/ID --offline          judge again what is stored
    dbcheck reconcile --witness URL --run ID --target URL
                                                 from any machine, with nothing
                                                 but the witness's folder

    What a witness holds names no target: give --target (or --name) beside --run,
    and later beside the folder that --run made.

    Reads the table in a read-only transaction. Do it before anything writes to
    the recovered server.
    """
    if (run is None) == (run_id is None):
        raise UsageError(
            "give either a run folder or --run with a run id",
            hint="dbcheck reconcile RUN, or reconcile --witness URL --run ID "
            "--target URL.",
        )
    if offline:
        if run is None:
            raise UsageError("--offline needs a run folder")
        stored_run = RunFolder.open(run)
        alone = stored_run.locked() if may_write(run) else contextlib.nullcontext()
        with alone:
            outcome = judge_run(stored_run, FrameLogReader())
        output.end_with(outcome, as_json=as_json)
    folder = RunFolder.open(run) if run is not None else None
    # Nothing is cut here, whatever the inventory says.
    described = chosen(named, target, host, witness, wait)
    entry = _completed(replace(described, power=ManualPlan()), folder)
    new_key, lag = witness.accept_new_host_key, WindowLimits()
    with (
        progress(output.progress_console(), live=not as_json) as view,
        assemble.opened_witness(entry, lag, new_key) as log,
    ):
        folder = folder or _recalled(log, run_id or "", runs)
        manifest = folder.manifest()
        rig = assemble.entry_rig(entry, log, view, runs, lag)
        if manifest.target != rig.engine.target:
            view.phase("preflight", _OTHER_TARGET.format(manifest.target))
        outcome = reconcile_run(rig, folder, manifest)
    output.end_with(outcome, as_json=as_json)


_OTHER_TARGET = "the run's manifest names another URL of the target: {}"


def _completed(entry: Entry, folder: RunFolder | None) -> Entry:
    """Return *entry* with the target and the witness that the run's manifest names.

    Only of a manifest that this client made, not of one that a witness gave: that one
    would choose who is sent the password.  Raise UsageError if either is missing then.
    """
    if folder is not None and not folder.recalled().manifest:
        manifest = folder.manifest()
        return replace(
            entry,
            target=entry.target or manifest.target,
            witness=entry.witness or manifest.witness,
        )
    if not entry.target:
        what = (
            "--run" if folder is None else f"{folder.path}, which came from a witness,"
        )
        raise UsageError(
            f"{what} needs --target",
            hint="Give the URL of the server that took the load, or its --name in the "
            "inventory: the password is sent there, so no witness may choose it.",
        )
    return entry


def _recalled(witness: Witness, run_id: str, runs: Path) -> RunFolder:
    """Make a run folder from what the witness holds of a run."""
    wanted = require_run_id(run_id)
    if (runs / wanted).exists():
        raise UsageError(
            f"the folder of run {wanted} is here: {runs / wanted}",
            hint=f"Reconcile it there: dbcheck reconcile {runs / wanted}",
        )
    where = f"{witness.url}/{wanted}/manifest.json"
    content, key = witness.manifest(wanted), clientkey.recall(wanted)
    return RunFolder.recall(runs, wanted, content, key, where)
