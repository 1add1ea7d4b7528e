"""dbcheck demo: what a lying drive and unsafe settings lose, as one table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from dbcheck.cli import FAILED, PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import Verb, option
from dbcheck.cli.flags.shared import draw_seed
from dbcheck.cli.say import say
from dbcheck.config import files, workload_file
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.result import to_values
from dbcheck.judge.results import DemoResult, DemoRow
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import Phase
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.matrix import KILL_ONLY, draw_demo, list_demo_bounds
from dbcheck.report.progress import PlainProgress
from dbcheck.report.terminal import WRONG
from dbcheck.report.words.run import headline
from dbcheck.runner.lab_cycles import (
    adapt_workload_to_lab,
    run_lab_cycles,
    stop_at_first_loss,
)

# A cut may show nothing: it came just after a flush, or while the machine stalled.
CUTS_MAX = 3
RELAXED = {
    "postgresql": {"synchronous_commit": "off"},
    "mariadb": {"innodb_flush_log_at_trx_commit": "2"},
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the demo: a lab, what it shows, and the verdict expected."""

    spec: LabSpec
    case: str
    expected: Verdict


def list_drive_rows() -> Iterator[Row]:
    """Yield what the virtual drive can show."""
    for engine, relaxed in RELAXED.items():
        lying = DriveSpec(personality="lying")
        yield Row(LabSpec(engine), "honest drive", Verdict.PASS)
        yield Row(LabSpec(engine, drive=lying), "lying drive", Verdict.FAIL)
        yield Row(
            LabSpec(engine, settings=relaxed), _describe_case(relaxed), Verdict.FAIL
        )


def list_process_rows(engine: str) -> Iterator[Row]:
    """Yield what can be shown without root: the server process is killed."""
    lost_in_process = {
        "postgresql": {"synchronous_commit": "off"},
        "mariadb": {"innodb_flush_log_at_trx_commit": "0"},
    }[engine]
    unseen = {
        "postgresql": {"fsync": "off"},
        "mariadb": {"innodb_flush_log_at_trx_commit": "2"},
    }[engine]
    yield Row(LabSpec(engine, cut="process"), "durable settings", Verdict.PASS)
    relaxed = LabSpec(engine, cut="process", settings=lost_in_process)
    # Only what is in the server's own memory is lost, with PostgreSQL less than a
    # page of its log, and by chance nothing.
    yield Row(relaxed, _describe_case(lost_in_process), Verdict.FAIL)
    # Not durable, and yet nothing is lost: a killed process cannot show it.
    yield Row(
        LabSpec(engine, cut="process", settings=unseen),
        _describe_case(unseen),
        Verdict.PASS,
    )


def _describe_case(settings: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name.removeprefix('innodb_')}={value}" for name, value in settings.items()
    )


def list_rows(cut: str) -> list[Row]:
    """Return the lines of the demo for *cut*, for the servers installed here."""
    if cut == "drive":
        return list(list_drive_rows())
    here = [
        engine for engine in RELAXED if not list_missing(LabSpec(engine, cut="process"))
    ]
    return [
        row for engine in here or ["postgresql"] for row in list_process_rows(engine)
    ]


@click.command("demo", cls=Verb)
@option("--list", "only_list", is_flag=True, help="List what would be run.")
@option(
    "--cut",
    type=click.Choice(("auto", "drive", "process")),
    default="auto",
    show_default=True,
    help="What is cut: the power of a virtual drive (needs root), or only the server "
    "process, which proves less. auto: the drive if this machine can run one.",
)
@shared.seed("Decides rows, moments, and what a drive loses.")
@shared.runs()
@shared.as_json()
def command(
    only_list: bool, cut: str, seed: int | None, runs: Path, as_json: bool
) -> None:
    """Show on this machine what a lying drive and unsafe settings lose, as one table.

    Exits with 0 only if every line came out as expected.
    """
    if cut == "auto":
        wanted = [LabSpec(engine) for engine in RELAXED]
        lacking = [reason for spec in wanted for reason in list_missing(spec)]
        cut = "process" if lacking else "drive"
        for reason in dict.fromkeys(lacking):
            say(f"no virtual drive on this machine: {reason}", err=True)
    lines = list_rows(cut)
    if only_list:
        say(f"workloads: {', '.join(files.list_workload_names())}; what is cut: {cut}")
        for row in lines:
            verdict = row.expected.value
            if cut == "process" and row.expected is Verdict.PASS:
                verdict += KILL_ONLY
            say("  ".join((row.spec.engine, row.case, verdict)))
        return
    good = _show(lines, draw_seed(seed), runs, as_json=as_json)
    sys.exit(PASS if good else FAILED)


def _show(lines: list[Row], seed: int, runs: Path, *, as_json: bool) -> bool:
    """Run every line, print the table; return whether all came out as expected."""
    shown = []
    terminal, only = make_progress_console(), {Phase.LAB}
    with make_progress(terminal, live=not as_json, only=only) as view:
        for row in lines:
            result = _run(row, seed, view, runs).result
            shown.append(DemoRow(row.case, row.expected, result))
    good = all(line.expected is line.result.verdict for line in shown)
    if as_json:
        output.print_json(to_values(DemoResult(seed, good, tuple(shown))))
        return good
    terminal = make_console()
    terminal.print(draw_demo(shown))
    terminal.print(_CUT_SHOWS[lines[0].spec.cut], style="italic")
    for bound in list_demo_bounds(shown):
        terminal.print(bound)
    for line in shown:
        if line.expected is not line.result.verdict:
            expected = line.expected.value
            text = f"{line.result.server}, {line.case}: expected {expected}"
            terminal.print(text, style=WRONG)
    terminal.print(f"Each run, with its log and its losses, is in {runs}/")
    return good


def _run(row: Row, seed: int, view: PlainProgress, runs: Path) -> Outcome:
    """Cut until rows are lost; return that outcome, or the last one."""
    load = adapt_workload_to_lab(workload_file.load("insert"))
    cycles = run_lab_cycles(row.spec, load, seed, CUTS_MAX, view, runs)
    for outcome in stop_at_first_loss(cycles, 1):
        view.line(outcome.verdict.value, headline(outcome.result))
    return outcome


_CUT_SHOWS = {
    "drive": "Each line had the power of a virtual drive cut under XFS and a real "
    "server under load. A drive that lies about flushes and a relaxed setting are "
    "fast, and lose acked rows.",
    "process": "Only the server process was killed here. The last line of a server "
    "shows what that cannot find: a setting that loses rows when the power goes. The "
    "virtual drive can; it needs root, /dev/fuse and loop devices.",
}
