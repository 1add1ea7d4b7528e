"""The report on one run for a terminal, made from the result that --json prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.judge.item import Status
from dbcheck.judge.result import EvidenceResult, RunResult
from dbcheck.report.box import draw_headline, draw_pairs, draw_summary, draw_tiles
from dbcheck.report.lossshape import draw_explanations, draw_shape
from dbcheck.report.terminal import BAD, DOUBTFUL, GOOD, MINOR
from dbcheck.report.words import cluster as of_cluster
from dbcheck.report.words import run as words
from dbcheck.report.words.summary import summarize_run

_MARKS = {
    Status.CONTRADICTED: ("!", BAD),
    Status.ABSENT: ("-", DOUBTFUL),
    Status.NOT_OBSERVABLE: ("?", DOUBTFUL),
    Status.ASSUMED: ("~", DOUBTFUL),
    Status.PRESENT: ("+", GOOD),
}


def verdict_report(result: RunResult, reconcile: str = "") -> RenderableType:
    """Return the whole report on a judged run, what matters most first.

    reconcile: see words.summary.summarize_run().
    """
    summary = summarize_run(result, reconcile)
    parts: list[RenderableType] = ["", draw_summary(summary)]
    parts += map(Text, words.caveats(result))
    if result.diagnosis:
        parts += ["", draw_explanations(result.diagnosis)]
    for section in words.sections(result):
        parts.append("")
        indent = 2 if section.title else 0
        if section.title:
            parts.append(Text(section.title, "bold"))
        lines = map(Text, section.lines)
        parts += [Padding(line, (0, 0, 0, indent)) for line in lines]
        if section.note:
            parts.append(Padding(Text(section.note, MINOR), (0, 0, 0, indent)))
    if summary.tiles:
        parts += ["", Text("At a glance", "bold"), draw_tiles(summary.tiles)]
    if result.cluster:
        parts += [
            "",
            _draw_nodes(result),
            draw_pairs(of_cluster.list_facts(result.cluster), indent=2),
        ]
    parts += _losses(result)
    parts += ["", Text("The run", "bold"), draw_pairs(words.facts(result), indent=2)]
    if result.evidence:
        parts += ["", *_draw_evidence(result)]
    parts += ["", Text("What this does not prove", "bold"), _draw_limits(result), ""]
    if result.stored:
        parts += [_more(result), ""]
    # Once more, since the first line has left the screen.
    return Group(*parts, draw_headline(summary), "")


def _losses(result: RunResult) -> Iterator[RenderableType]:
    """Yield the losses and their shape; nothing without any."""
    if result.ranges:
        yield from ("", _draw_ranges(result))
    if result.shape is not None:
        yield from ("", draw_shape(result.shape))


def _draw_evidence(result: RunResult) -> Iterator[RenderableType]:
    found = {item.status for item in result.evidence}
    legend = "  ".join(
        f"{mark} {status.value}"
        for status, (mark, _) in _MARKS.items()
        if status in found
    )
    yield Text.assemble(("Evidence", "bold"), (f"   {legend}", MINOR))
    table = Table.grid(padding=(0, 2))
    for item in words.list_evidence(result):
        mark, style = _MARKS[item.status]
        table.add_row(
            Text(f"  {mark}", style), Text(item.item.value, no_wrap=True), _seen(item)
        )
    yield table


def _seen(item: EvidenceResult) -> Text:
    """Return the mark of an item; add the reason if a PASS needs more."""
    reason = Text(words.explained(item), overflow="fold")
    if item.required and item.status not in (Status.PRESENT, Status.ASSUMED):
        reason.append(" (a PASS needs this)", "bold")
    return reason


def _draw_limits(result: RunResult) -> Table:
    table = Table.grid(padding=(0, 1))
    for limit in words.limits(result):
        table.add_row("  -", Text(limit))
    return table


def _more(result: RunResult) -> Table:
    """Return the commands that show the run to others."""
    folder, table = shlex.quote(result.folder), Table.grid(padding=(0, 2))
    for what, command in (
        ("a page to share", f"dbcheck report {folder} -o report.html"),
        ("all evidence in one file", f"dbcheck bundle {folder}"),
    ):
        table.add_row(Text(what, MINOR), Text(command, overflow="fold"))
    return table


def _draw_nodes(result: RunResult) -> Table:
    table = Table(title=of_cluster.TITLE, title_justify="left", title_style="bold")
    for name in of_cluster.COLUMNS:
        table.add_column(name)
    for cells in of_cluster.list_nodes(result):
        table.add_row(*map(Text, cells))
    return table


def _draw_ranges(result: RunResult) -> RenderableType:
    table = Table(title="Losses, by id", title_justify="left", title_style="bold")
    for name in words.range_columns(result):
        right = name in words.RIGHT_COLUMNS
        table.add_column(name, justify="right" if right else "left")
    for cells in words.list_ranges(result):
        table.add_row(*cells)
    return Group(table, Text(words.ranges_note(result), MINOR))
