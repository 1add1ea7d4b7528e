"""dbcheck snapshot: copy a server under load, restore the copy, and judge it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Verb, grouped
from dbcheck.cli.flags.load import LoadOptions
from dbcheck.cli.flags.shared import draw_seed
from dbcheck.cli.flags.target import (
    HostOptions,
    NamedByArgument,
    RestartOptions,
    TargetOptions,
    WaitOptions,
    WitnessOptions,
    list_reconcile_flags,
)
from dbcheck.config import workload_file
from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.inventory.entry import Entry
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.runner import assemble


@click.command("snapshot", cls=Verb)
@grouped
@shared.runs()
@shared.as_json()
def command(
    named: NamedByArgument,
    target: TargetOptions,
    witness: WitnessOptions,
    load: LoadOptions,
    wait: WaitOptions,
    runs: Path,
    as_json: bool,
) -> None:
    """Copy a server under load, restore the copy elsewhere, and judge it.

    \b
    dbcheck snapshot NAME                        a host of an inventory that has
                                                 dbcheck_restore

    Commits rows, has your own program take a copy meanwhile (a snapshot, a backup),
    has it restored on another host or port, and reads the rows there. Every commit
    that was acknowledged before the copy was begun must be there, none that was sent
    after it had ended can be, and none may be missing between. No power is cut.
    """
    entry = find_entry(named, target, witness, load, wait)
    _require_restore(entry)
    if load.scheduler:
        raise UsageError(
            "--load-workers cannot be used here",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Which commits the copy must have is decided by one clock, that of"
            " this machine. Use --processes.",
        )
    workload = workload_file.load(entry.workload or load.workload)
    workload = workload.with_sessions(entry.sessions).with_processes(entry.processes)
    workload = load.apply_to_workload(workload)
    workload = assemble.choose_processes(entry, workload, lockstep=load.limits.lockstep)
    seed = draw_seed(load.seed)
    flags = list_reconcile_flags(
        named, target, HostOptions(), witness, RestartOptions()
    )
    with (
        make_progress(make_progress_console(), live=not as_json) as view,
        assemble.open_entry_witness(
            entry, load.limits, witness.accept_new_host_key
        ) as log,
    ):
        rig = assemble.make_copying_rig(entry, log, view, runs, load.limits)
        rig = replace(rig, reconcile_flags=flags)
        require_none_pending(runs, rig.site.writer.engine)
        outcome = run_copied_cycle(rig, workload, seed)
    reconcile = rig.reconcile_command(outcome.run.path)
    output.end_with(outcome, as_json=as_json, reconcile=reconcile)


def _require_restore(entry: Entry) -> None:
    """Raise UsageError unless *entry* says how to take a copy and restore it."""
    if entry.copied_by is None or not entry.copied_by.copy:
        raise UsageError(
            f"{assemble.entry_label(entry) or 'the target'} has no dbcheck_restore: how"
            " to take a copy and restore it is not known",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Give the host dbcheck_restore in the inventory: copy, restore and"
            " target. docs/guides/restore.md shows it.",
        )
