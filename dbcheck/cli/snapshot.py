"""dbcheck snapshot: restore a copy, or an archive to a point, and judge it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Verb, grouped, option
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
from dbcheck.cli.say import say
from dbcheck.config import workload_file
from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.cycle.rig import Rig
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.judge.results import CopiesResult
from dbcheck.model.verdict import Verdict, find_worst
from dbcheck.ports.listener import Phase
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.matrix import draw_copies
from dbcheck.report.words.run import headline
from dbcheck.runner import assemble


@click.command("snapshot", cls=Verb)
@grouped
@option(
    "--copies",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="How many copies to take and restore, one after the other; the first that"
    " lost a commit, or has no verdict yet, is the last. Default: 1.",
)
@option(
    "--rows-max",
    type=click.IntRange(1),
    metavar="N",
    help="End the check without a verdict once the load has written about N rows and"
    " the copy is not complete. Choose --rate so that they last as long as the copy"
    " takes. Default: no limit.",
)
@shared.runs()
@shared.as_json()
def command(
    named: NamedByArgument,
    target: TargetOptions,
    witness: WitnessOptions,
    load: LoadOptions,
    wait: WaitOptions,
    copies: int,
    rows_max: int | None,
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

    With dbcheck_restore: until a point of the server's log is read in the place of a
    copy, and your program restores the archive to it.
    """
    entry = find_entry(named, target, witness, load, wait)
    require_restore(entry)
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
        if copies > 1:
            cycles = partial(run_copied_cycle, rig, workload, rows_max=rows_max)
            _end_with_copies(rig, cycles, range(seed, seed + copies), as_json=as_json)
        outcome = run_copied_cycle(rig, workload, seed, rows_max)
    reconcile = rig.reconcile_command(outcome.run.path)
    output.end_with(outcome, as_json=as_json, reconcile=reconcile)


def _end_with_copies(
    rig: Rig, run: Callable[[int], Outcome], seeds: Iterable[int], *, as_json: bool
) -> NoReturn:
    """Take a copy with each of *seeds*; show all; exit with the worst verdict's code.

    The first that lost a commit is the last, and so is one that is to be reconciled:
    its server has the port.  After an error or an interrupt those before are shown.
    """
    outcomes: list[Outcome] = []
    try:
        for seed in seeds:
            outcome = run(seed)
            outcomes.append(outcome)
            rig.listener.phase(Phase.JUDGE, headline(outcome.result))
            if outcome.verdict is Verdict.FAIL or not outcome.result.final:
                break
    except BaseException:
        if outcomes:
            _show_copies(outcomes, as_json=as_json)
        raise
    sys.exit(_show_copies(outcomes, as_json=as_json, last=rig))


def _show_copies(
    outcomes: Sequence[Outcome], *, as_json: bool, last: Rig | None = None
) -> int:
    """Show the results of several copies; return the worst verdict's exit code.

    last: says how to continue a copy that is not final; None after an error.
    """
    results = [outcome.result for outcome in outcomes]
    verdict = find_worst(result.verdict for result in results)
    code = output.EXIT_CODES[verdict]
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(CopiesResult(verdict, tuple(results))))
        else:
            make_console().print(draw_copies(results))
            if last is not None and not results[-1].final:
                command = last.reconcile_command(outcomes[-1].run.path)
                say(f"not final; once its server takes queries: {command}")
    return code


def require_restore(entry: Entry) -> None:
    """Raise UsageError unless *entry* says how to take a copy and restore it."""
    settings = entry.copied_by
    if settings is None or not (settings.copy or settings.until):
        raise UsageError(
            f"{assemble.entry_label(entry) or 'the target'} has no dbcheck_restore: how"
            " to take a copy and restore it is not known",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Give the host dbcheck_restore in the inventory: restore, target, and"
            " copy or until. docs/guides/restore.md shows it.",
        )
