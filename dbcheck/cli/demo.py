"""dbcheck demo: honest, lying and relaxed, on this machine, as one table."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dbcheck.cli import FAILED, PASS, options
from dbcheck.cli.say import say
from dbcheck.lab.spec import DriveSpec, LabSpec

if TYPE_CHECKING:
    from dbcheck.campaign.outcome import Outcome
    from dbcheck.report.progress import PlainProgress

RELAXED = {
    "postgresql": {"synchronous_commit": "off"},
    "mariadb": {"innodb_flush_log_at_trx_commit": "2"},
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the demo: a lab, what it shows, the verdict that it must get.

    cycles: how many cuts it may take until the verdict is that one.
    """

    spec: LabSpec
    case: str
    expected: str
    cycles: int = 1


def drive_rows() -> Iterator[Row]:
    """Yield what the virtual drive can show."""
    for engine, relaxed in RELAXED.items():
        lying = DriveSpec(personality="lying")
        yield Row(LabSpec(engine), "honest drive", "PASS")
        yield Row(LabSpec(engine, drive=lying), "lying drive", "FAIL")
        yield Row(LabSpec(engine, settings=relaxed), _case(relaxed), "FAIL")


def process_rows(engine: str) -> Iterator[Row]:
    """Yield what can be shown without root: the server process is killed."""
    lost_in_process = {
        "postgresql": {"synchronous_commit": "off"},
        "mariadb": {"innodb_flush_log_at_trx_commit": "0"},
    }[engine]
    unseen = {
        "postgresql": {"fsync": "off"},
        "mariadb": {"innodb_flush_log_at_trx_commit": "2"},
    }[engine]
    yield Row(LabSpec(engine, rung="process"), "durable settings", "PASS")
    relaxed = LabSpec(engine, rung="process", settings=lost_in_process)
    # Only what is in the server's own memory is lost, with PostgreSQL less than a
    # page of its log, and by chance nothing.
    yield Row(relaxed, _case(lost_in_process), "FAIL", cycles=3)
    # Not durable, and yet nothing is lost: a killed process cannot show it.
    yield Row(LabSpec(engine, rung="process", settings=unseen), _case(unseen), "PASS")


def _case(settings: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name.removeprefix('innodb_')}={value}" for name, value in settings.items()
    )


def rows(rung: str) -> list[Row]:
    """Return the lines of the demo on *rung*, for the servers that are here."""
    from dbcheck.lab.lab import missing

    if rung == "drive":
        return list(drive_rows())
    here = [
        engine for engine in RELAXED if not missing(LabSpec(engine, rung="process"))
    ]
    return [row for engine in here or ["postgresql"] for row in process_rows(engine)]


@click.command("demo")
@click.option("--list", "only_list", is_flag=True, help="Say what it would run.")
@click.option(
    "--rung",
    type=click.Choice(("auto", "drive", "process")),
    default="auto",
    show_default=True,
    help="drive needs root; process kills the server and proves less.",
)
@click.option(
    "--seed", type=options.SEED, help="Decides rows, moments, and what a drive loses."
)
@options.runs()
@options.as_json()
def command(
    only_list: bool, rung: str, seed: int | None, runs: Path, as_json: bool
) -> None:
    """Show it on this machine: honest, lying and relaxed, as one table.

    Exits with 0 only if every line came out as expected.
    """
    from dbcheck import files
    from dbcheck.lab.lab import missing

    if rung == "auto":
        wanted = [LabSpec(engine) for engine in RELAXED]
        lacking = [reason for spec in wanted for reason in missing(spec)]
        rung = "process" if lacking else "drive"
        for reason in dict.fromkeys(lacking):
            say(f"no virtual drive here: {reason}", err=True)
    lines = rows(rung)
    if only_list:
        say(f"workloads: {', '.join(files.workload_names())}; rung: {rung}")
        for row in lines:
            say("  ".join((row.spec.engine, row.case, row.expected)))
        return
    drawn = secrets.randbits(31) if seed is None else seed
    sys.exit(PASS if _show(lines, drawn, runs, as_json=as_json) else FAILED)


def _show(lines: list[Row], seed: int, runs: Path, *, as_json: bool) -> bool:
    """Run every line, print the table; return whether all came out as expected."""
    from dbcheck.campaign.outcome import result_of
    from dbcheck.cli import output
    from dbcheck.report.lab import demo_bounds, demo_table
    from dbcheck.report.progress import progress

    shown = []
    with progress(output.progress_console(), live=not as_json, only={"lab"}) as view:
        for row in lines:
            result = result_of(_run(row, seed, view, runs))
            shown.append(({"case": row.case, "expected": row.expected}, result))
    good = all(about["expected"] == result.verdict.value for about, result in shown)
    if as_json:
        cases = [{**about, "result": result.to_values()} for about, result in shown]
        output.print_json({"seed": seed, "as_expected": good, "rows": cases})
        return good
    console = output.console()
    console.print(demo_table(shown))
    console.print(RUNGS[lines[0].spec.rung], style="italic")
    for bound in demo_bounds(shown):
        console.print(bound)
    for about, result in shown:
        if about["expected"] != result.verdict.value:
            text = f"{result.server}, {about['case']}: expected {about['expected']}"
            console.print(text, style="bold red")
    console.print(f"Each run, with its log and its losses, is in {runs}/")
    return good


def _run(row: Row, seed: int, view: PlainProgress, runs: Path) -> Outcome:
    """Run the cycles of one line; return the outcome that counts."""
    from dbcheck import workload as workloads
    from dbcheck.cli.lab_cycles import lab_cycles, lab_workload

    load = lab_workload(workloads.load("insert"))
    cycles = lab_cycles(row.spec, load, seed, row.cycles, view, runs)
    with contextlib.closing(cycles):
        for outcome in cycles:
            view.line(outcome.verdict.value, outcome.judgement.reasons[0])
            if outcome.verdict.value == row.expected:
                break
    return outcome


RUNGS = {
    "drive": "Each line had the power of a virtual drive cut under XFS and a real "
    "server in mid-load. A drive that lies about flushes and a relaxed setting are "
    "fast, and lose acked rows.",
    "process": "Only the server process was killed here. The last line of a server "
    "shows what that cannot find: a setting that loses rows when the power goes. The "
    "virtual drive can; it needs root, /dev/fuse and loop devices.",
}
