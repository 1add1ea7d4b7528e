"""Tables over several cycles in the lab, and over configurations side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.judge.result import RunResult
from dbcheck.judge.results import DemoRow, MatrixResult, RowResult
from dbcheck.model.cut import CutClass
from dbcheck.model.outage import sum_up_results
from dbcheck.model.verdict import Tally, Verdict, describe_proof, describe_unseen_losses
from dbcheck.report.box import draw_summary
from dbcheck.report.terminal import BADGES, DOUBTFUL, MINOR, WRONG
from dbcheck.report.words import matrix as words
from dbcheck.report.words import restores as of_restores
from dbcheck.report.words.outage import (
    NAME,
    describe_outages,
    format_median,
    list_lost_answers,
)
from dbcheck.report.words.run import (
    headline,
    lab_scope,
    lost_in,
    number,
    sentence,
    tally,
)

KILL_ONLY = " (kill only)"  # beside a PASS of a killed process


def draw_cycles(
    results: Sequence[RunResult], controls: Sequence[RunResult] = ()
) -> RenderableType:
    """Return one row for each cycle, what they prove together, and its scope."""
    proven = tally(*results)
    scopes = {lab_scope(result.lab): None for result in results if result.lab}
    images = [result.image for result in results if result.image]
    kept = [Text(f"The drive as the cut left it: {image}") for image in images]
    without_cut = words.losses_without_cut(results)
    left_out = [Text(f"FAIL: {without_cut}.", WRONG)] if without_cut else []
    notes = [
        *left_out,
        *draw_proof(proven),
        *_list_times_to_recover(results),
        *map(Text, scopes),
        *kept,
    ]
    return Group(_draw_cycles_table(results, controls), *notes)


def draw_copies(results: Sequence[RunResult]) -> RenderableType:
    """Return one row for each cycle that took a copy, and what they show together."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    table.add_column("run", no_wrap=True)
    for name in of_restores.copy_columns(results[0]):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for result in results:
        cells = of_restores.copy_cells(result)
        table.add_row(result.run, *cells, draw_verdict(result.verdict))
    return Group(
        table,
        Text(sentence(of_restores.describe_copies(results))),
        Text(of_restores.describe_scope(results[0])),
    )


def _list_times_to_recover(results: Sequence[RunResult]) -> Iterator[Text]:
    """Yield how long clients could not commit after the cuts, if that was measured."""
    total = sum_up_results(
        result.outage
        for result in results
        if result.outage and result.verdict is not Verdict.INCONCLUSIVE
    )
    if total is not None:
        text = f"{NAME}: {format_median(total)}, {describe_outages(total)}"
        yield Text(sentence(text))
        yield from (Text(sentence(line), WRONG) for line in list_lost_answers(total))


def draw_proof(proven: Tally) -> list[Text]:
    """Draw the proof of a tally, and the chance of a worse rig to pass the same."""
    lines = [proven.sentence]
    if proven.cuts and not proven.losses:
        lines.append(describe_unseen_losses(proven.cuts))
    return [Text(sentence(line)) for line in lines]


def _draw_cycles_table(
    results: Sequence[RunResult], controls: Sequence[RunResult]
) -> Table:
    """Return one row for each cycle, and a line for the control before them."""
    table = Table(title="Cycles", title_justify="left", title_style="bold")
    table.add_column("run")
    for name in ("acks/s", "confirmed", "lost", "recovered"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for result in results:
        table.add_row(
            result.run,
            format_rate(result),
            number(result.confirmed),
            lost_in(result),
            number(result.recovered),
            draw_verdict(result.verdict),
        )
    if controls:
        table.caption, table.caption_justify = headline(controls[-1]), "left"
    return table


def draw_demo(rows: Sequence[DemoRow]) -> Table:
    """Return one row for each line of the demo."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    table.add_column("server", no_wrap=True)
    table.add_column("what is under test", no_wrap=True)
    for name in ("acks/s", "acked", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    last = ""
    for row in rows:
        result, server = row.result, row.result.server
        if last and server != last:
            table.add_section()
        table.add_row(
            server if server != last else "",
            row.case,
            format_rate(result),
            number(result.confirmed),
            lost_in(result),
            Text.assemble(draw_verdict(result.verdict), KILL_ONLY * _is_kill(result)),
        )
        last = server
    return table


def _is_kill(result: RunResult) -> bool:
    """Return True if a PASS is that of a killed process, which shows no more."""
    return result.verdict is Verdict.PASS and result.cut_class is CutClass.PROCESS


def list_demo_bounds(rows: Sequence[DemoRow]) -> list[str]:
    """Return the proofs of the lines that passed, each sentence once."""
    passed = any(row.result.verdict is Verdict.PASS for row in rows)
    return [describe_proof(0, 1)] if passed else []


def draw_verdict(found: Verdict) -> Text:
    """Return a verdict in its colour."""
    return Text(f" {found.value} ", BADGES[found])


def format_rate(result: RunResult) -> str:
    """Return the acks per second of a result."""
    return f"{result.load.rate:,.0f}" if result.load else "-"


_NUMBERS = ("p99 ms", "lost", "price", *of_restores.COLUMNS)


def draw_matrix(result: MatrixResult) -> RenderableType:
    """Return the table, and below it what it proves and what went wrong."""
    parts: list[RenderableType] = [""]
    if result.description:
        parts += [Text(result.description, "bold"), ""]
    parts += [draw_summary(words.summarize_matrix(result)), ""]
    parts += [Text(fault, WRONG) for fault in words.faults(result)]
    parts += [Text(doubt, DOUBTFUL) for doubt in words.doubts(result)]
    parts += [_draw_table(result), ""]
    if result.reference:
        parts.append(Text(f"In grey: {result.reference}.", MINOR))
    parts += [Text(note, MINOR) for note in words.list_notes(result)]
    parts += map(Text, words.proofs(result))
    parts += [Text(scope, "italic") for scope in words.scopes(result)]
    return Group(*parts, "")


def _draw_table(result: MatrixResult) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        leading=int(any(row.reference for row in result.rows)),
    )
    for name in words.columns(result):
        folds = name in ("configuration", "depth")
        table.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            overflow="fold" if folds else "ellipsis",
            no_wrap=not folds,
        )
    table.add_column("verdict", no_wrap=True)
    for row in result.rows:
        table.add_row(*_draw_cells(row, result))
    return table


def _draw_cells(row: RowResult, result: MatrixResult) -> Iterator[RenderableType]:
    name, *rest = words.cells(row, result)
    yield Group(Text(name), Text(row.reference, MINOR)) if row.reference else Text(name)
    yield from map(Text, rest)
    verdict = row.shown_verdict
    yield draw_verdict(verdict) if verdict else Text("none", WRONG)
