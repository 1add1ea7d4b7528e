"""dbcheck reconcile: finish a run, judge it again, or judge it from anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import ANY_PATH, Verb, grouped, option
from dbcheck.cli.flags.target import (
    HostOptions,
    NamedByFlag,
    RestartOptions,
    TargetOptions,
    WaitOptions,
    WitnessOptions,
)
from dbcheck.cycle.judging import judge_run
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.runs.folder import RunFolder, reconcile_command
from dbcheck.runs.stored import lock_folder_to_judge
from dbcheck.witness.log import FrameLogReader


@click.command("reconcile", cls=Verb)
@grouped
@click.argument("run", required=False, type=ANY_PATH)
@option(
    "--run", "run_id", metavar="ID", help="Run id on the witness, without a RUN folder."
)
@option(
    "--offline", is_flag=True, help="Judge what is stored in RUN; contact no server."
)
@shared.runs()
@shared.as_json()
def command(
    run: Path | None,
    named: NamedByFlag,
    target: TargetOptions,
    host: HostOptions,
    witness: WitnessOptions,
    wait: WaitOptions,
    restart: RestartOptions,
    run_id: str | None,
    offline: bool,
    runs: Path,
    as_json: bool,
) -> None:
    """Judge a run of a cut or a copy, for the first time or again.

    \b
    dbcheck reconcile runs/ID                    read the survivors, judge
    dbcheck reconcile runs/ID --name db1         with the password and the keys of
                                                 the inventory
    dbcheck reconcile runs/ID --offline          judge again what is stored
    dbcheck reconcile --witness URL --run ID --target URL
                                                 from any machine, with nothing
                                                 but the witness's folder

    No target is taken from a witness, and none from a folder unless a key in
    ~/.local/state/dbcheck shows that you made the run: else give --target and
    --witness, or --name.

    Reads the table in a read-only transaction. Do it before anything writes to
    the recovered server.
    """
    if (run is None) == (run_id is None):
        raise UsageError(
            "give either a run folder or --run with a run id",
            id=ErrorId.ONE_OF_OPTIONS_NEEDED,
            hint="dbcheck reconcile RUN, or reconcile --witness URL --run ID "
            "--target URL.",
        )
    if offline:
        if run is None:
            raise UsageError(
                "--offline needs a run folder",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="dbcheck reconcile RUN --offline.",
            )
        stored_run = RunFolder.open(run)
        with (
            lock_folder_to_judge(run),
            make_progress(make_progress_console(), live=not as_json) as view,
        ):
            outcome = judge_run(stored_run, FrameLogReader(), view.progress)
        output.end_with(outcome, as_json=as_json)
    # Judging offline imports nothing that reads an inventory or reaches a server.
    from dbcheck.cli.flags.entries import find_entry
    from dbcheck.cli.flags.target import list_reconcile_flags
    from dbcheck.runner.resume import reconcile_entry

    described = (target, host, witness, wait, restart)
    entry = find_entry(named, *described, clusters=True, placed=False)
    accept_new_key, live = witness.accept_new_host_key, not as_json
    outcome = reconcile_entry(
        entry, run, run_id or "", runs, accept_new_key=accept_new_key, live=live
    )
    flags = list_reconcile_flags(named, target, host, witness, restart)
    flags += target.arguments("target")
    command = reconcile_command(outcome.run.path, flags)
    output.end_with(outcome, as_json=as_json, reconcile=command)
