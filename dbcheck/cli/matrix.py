"""dbcheck matrix: several configurations side by side, as one table."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbcheck.cli import FAILED, PASS, options
from dbcheck.lab.spec import ENGINES

if TYPE_CHECKING:
    from dbcheck.cli.matrix_cycles import Measured
    from dbcheck.cli.matrix_rows import Matrix
    from dbcheck.core.workload import Workload
    from dbcheck.report.progress import PlainProgress


@click.command("matrix")
@click.argument("name", required=False)
@click.option(
    "--preset",
    metavar="NAME|FILE",
    help="percona-2009, or a TOML file of your own; see matrices/.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=A,B,...",
    help="One row for each value, e.g. drive=honest,lying or "
    "setting.synchronous_commit=on,off; given twice: for each combination.",
)
@click.option("--engine", type=click.Choice(ENGINES), help="Of the lab's rows.")
@click.option("--cuts", type=click.IntRange(1), help="Of each row; else the file's, 3.")
@click.option("--workload", metavar="NAME|FILE", help="Else the file's, or insert.")
@click.option("--sessions", type=int, help="Connections; else the file's.")
@click.option(
    "--seed", type=options.SEED, help="As for dbcheck lab run, or dbcheck run."
)
@options.inventory()
@options.target(required=False)
@options.witness(required=False)
@options.host()
@options.power()
@options.consent()
@options.waiting()
@options.runs()
@options.as_json()
def command(
    name: str | None,
    preset: str | None,
    vary: tuple[str, ...],
    engine: str | None,
    cuts: int | None,
    workload: str | None,
    sessions: int | None,
    seed: int | None,
    target: str | None,
    runs: Path,
    as_json: bool,
    **_: Any,  # what entries.chosen and _on_target read
) -> None:
    """Run several configurations, and show them side by side.

    For each row: how many commits per second, what a commit took, how many cuts lost
    something, and the verdict. In the lab each row is a lab of its own; what can be
    varied is engine, fs, mount_options, drive, write_cache, flush_ms, write_ms,
    destage_s, cache_mib, survivors, lie_fraction and setting.NAME. With the NAME of a
    host in an inventory, or --target, the rows are cuts of that server, and what can
    be varied is setting.NAME (PostgreSQL; of dbcheck's own sessions) and
    relaxed=false,true (acked too early, as by --control, and put back).

    Ctrl-C shows what there is so far. Exits with 0 if each row went through its cuts
    and has a verdict, that which the file expects of it if it does.
    """
    from dbcheck import workload as workloads
    from dbcheck.cli import output
    from dbcheck.cli.matrix_cycles import Measured, in_labs
    from dbcheck.cli.matrix_rows import read_matrix
    from dbcheck.report.progress import progress

    drawn = secrets.randbits(31) if seed is None else seed
    real = bool(name or target)
    matrix = read_matrix(preset, vary, target=real, seed=drawn, engine=engine)
    load = workloads.load(workload or matrix.workload)
    load = load.with_sessions(matrix.sessions if sessions is None else sessions)
    measured = [Measured(row) for row in matrix.rows]
    measure = _on_target if real else in_labs
    shown = None if real else {"lab"}
    try:
        with progress(output.progress_console(), live=not as_json, only=shown) as view:
            measure(measured, load, drawn, cuts or matrix.cuts, view, runs)
    except KeyboardInterrupt:
        _show(matrix, measured, drawn, as_json=as_json)
        raise
    sys.exit(PASS if _show(matrix, measured, drawn, as_json=as_json) else FAILED)


def _on_target(
    measured: Sequence[Measured],
    load: Workload,
    seed: int,
    cuts: int,
    view: PlainProgress,
    runs: Path,
) -> None:
    """Put the rig together, have the guard look at it, and run every row on it."""
    from dbcheck.cli import rig
    from dbcheck.cli.entries import chosen
    from dbcheck.cli.guard import guard, require_passable
    from dbcheck.cli.matrix_target import on_target
    from dbcheck.witness.window import WindowLimits

    context = click.get_current_context()
    flags, entry = context.params, chosen(context)
    require_passable(entry)
    for one in measured:
        if one.row.price is None:
            one.row = replace(one.row, price=entry.price)
    new_key, lag = flags["accept_new_host_key"], WindowLimits()
    the_witness = rig.entry_witness(entry, lag, accept_new_host_key=new_key)
    with contextlib.closing(the_witness):
        the_rig = rig.entry_rig(entry, the_witness, view, runs, lag)
        guard(entry, the_rig.engine, yes=flags["yes"], i_know=flags["i_know"])
        on_target(measured, the_rig, load, seed, cuts, view, entry.password)


def _show(
    matrix: Matrix, measured: Sequence[Measured], seed: int, *, as_json: bool
) -> bool:
    """Print what there is; return whether all of it is there, and as expected."""
    from dbcheck.cli import output
    from dbcheck.report.matrix import comparison, matrix_report

    lines = [one.line() for one in measured]
    good = all(line.as_expected for line in lines)
    if as_json:
        compared = comparison(lines)
        about = {"description": matrix.description, "reference": matrix.reference}
        value = {"seed": seed, "as_expected": good, **about}
        value["comparison"] = compared.to_values() if compared else None
        output.print_json({**value, "rows": [line.to_values() for line in lines]})
        return good
    report = matrix_report(lines, matrix.description, matrix.reference)
    output.console().print(report)
    return good
