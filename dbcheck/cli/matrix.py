"""dbcheck matrix: several configurations side by side, as one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from dbcheck.base.text import join_words
from dbcheck.campaign.folder import write_matrix
from dbcheck.cli import FAILED, PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Verb, grouped, option, option_of
from dbcheck.cli.flags.power import PowerOptions
from dbcheck.cli.flags.shared import ConsentOptions, draw_seed
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
from dbcheck.config import files
from dbcheck.judge.result import to_values
from dbcheck.lab.spec import ENGINES
from dbcheck.ports.listener import Phase
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.matrix import draw_matrix
from dbcheck.report.rows import make_matrix_result
from dbcheck.rows.workload import Workload
from dbcheck.runner import assemble
from dbcheck.runner.campaign_run import chain_calls, require_hosts_fit
from dbcheck.runner.guard import choose_promise, require_nodes_stay
from dbcheck.runner.matrix_cycles import (
    RowResults,
    adapt_to_target,
    run_in_labs,
    run_on_target,
)
from dbcheck.runner.matrix_rows import LOAD_KEYS, Matrix, read_matrix
from dbcheck.witness.window import WindowLimits


@click.command("matrix", cls=Verb)
@grouped
@option(
    "--preset",
    metavar="NAME|FILE",
    help="A matrix by its name (percona-2009, receipts, replication, restore), or a "
    "TOML file of your own.",
    shell_complete=shared.complete_names(files.list_matrix_names, or_file=True),
)
@option(
    "--vary",
    multiple=True,
    metavar="KEY=A,B,...",
    help="One row for each value, e.g. drive=honest,lying or "
    "setting.synchronous_commit=on,off. May be repeated: one row for each "
    f"combination. Of the load: workload, {join_words(LOAD_KEYS, 'and')}.",
)
@option("--engine", type=click.Choice(ENGINES), help="Server of the lab's rows.")
@option(
    "--cuts",
    type=click.IntRange(1),
    metavar="N",
    help="Cuts, or copies, of each row. Default: the file's, or 3.",
)
@option(
    "--workload",
    metavar="NAME|FILE",
    help="A workload by its name (see: dbcheck workloads), or a TOML file of your own. "
    "Default: the file's, or insert.",
    shell_complete=shared.complete_names(files.list_workload_names, or_file=True),
)
@option_of(Workload, "sessions", "the file's, or the workload's")
@shared.promise()
@shared.seed("Decides rows, moments, and what a lab's drive loses.")
@shared.runs()
@shared.as_json()
def command(
    named: NamedByArgument,
    target: TargetOptions,
    host: HostOptions,
    witness: WitnessOptions,
    power: PowerOptions,
    consent: ConsentOptions,
    wait: WaitOptions,
    preset: str | None,
    vary: tuple[str, ...],
    engine: str | None,
    cuts: int | None,
    workload: str | None,
    sessions: int | None,
    promise: str | None,
    seed: int | None,
    runs: Path,
    as_json: bool,
) -> None:
    """Compare several configurations in one table.

    For each row: commits per second, commit latency, how many cuts lost something, and
    the verdict. What can be varied: the load, by the keys that --vary names. In the
    lab, where each row is a lab of its own, also engine, cut, restore, setting.NAME,
    and what the flags of dbcheck lab run set for the virtual drive and for the cluster,
    written like flush_ms for --flush-ms. With the NAME of a host in an inventory, or
    --target, the rows are cuts of that server; there also setting.NAME (PostgreSQL; of
    dbcheck's own sessions) and relaxed=false,true (acked too early, as by --control,
    and undone). The NAME may be that of a group that is a cluster, which is rebuilt
    between two cuts as in a campaign.

    Ctrl-C shows the results so far. Exits with 0 if each row completed its cuts and
    has a PASS or FAIL, and the one that the file expects where it names one.
    """
    seed = draw_seed(seed)
    real = bool(named.name or target.target)
    matrix = read_matrix(
        *(preset, vary),
        target=real,
        seed=seed,
        engine=engine,
        workload=workload,
        sessions=sessions,
        cuts=cuts,
    )
    measured = [RowResults(row) for row in matrix.rows]
    try:
        if not real:
            with make_progress(
                make_progress_console(), live=not as_json, only={Phase.LAB}
            ) as view:
                run_in_labs(measured, seed, view, runs)
        else:
            found = find_entry(
                *(named, target, host, witness, power, wait), clusters=True
            )
            entry = choose_promise(found, promise)
            require_nodes_stay(entry)
            require_hosts_fit(entry, yes=consent.yes, i_know=consent.i_know)
            adapt_to_target(measured, entry)
            accept_new_key, lag = witness.accept_new_host_key, WindowLimits()
            with (
                make_progress(make_progress_console(), live=not as_json) as view,
                assemble.open_entry_witness(entry, lag, accept_new_key) as log,
            ):
                rig = assemble.make_rig(entry, log, view, runs, lag)
                flags = list_reconcile_flags(
                    named, target, host, witness, RestartOptions()
                )
                consented = partial(assemble.remember_consent, entry.cut_in_turn)
                begin = chain_calls(consented, rig.before_load)
                rig = replace(rig, reconcile_flags=flags, before_load=begin)
                run_on_target(measured, rig, seed, view, entry)
    except KeyboardInterrupt:
        _show(matrix, measured, seed, runs, as_json=as_json)
        raise
    sys.exit(PASS if _show(matrix, measured, seed, runs, as_json=as_json) else FAILED)


def _show(
    matrix: Matrix,
    measured: Sequence[RowResults],
    seed: int,
    runs: Path,
    *,
    as_json: bool,
) -> bool:
    """Print and store the table; return whether every row is complete and expected."""
    lines = [one.line() for one in measured]
    result = make_matrix_result(lines, seed, matrix.description, matrix.reference)
    if as_json:
        output.print_json(to_values(result))
    else:
        make_console().print(draw_matrix(result))
    if any(row.cycles for row in result.rows):
        path = write_matrix(runs, result)
        say(f"stored: {path}", f"  dbcheck report {path} -o matrix.html", err=True)
    return result.as_expected
