"""The report on one run for a terminal, made from the result that --json prints."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.core.verdict import Verdict
from dbcheck.judge.item import Standing
from dbcheck.judge.result import RunResult
from dbcheck.report.lossshape import diagnosed, shaped
from dbcheck.report.words import run as words

STYLES = {
    Verdict.PASS: "bold white on green",
    Verdict.FAIL: "bold white on red",
    Verdict.INCONCLUSIVE: "bold black on yellow",
}
_MARKS = {
    Standing.PRESENT: ("+", "green"),
    Standing.ASSUMED: ("~", "yellow"),
    Standing.ABSENT: ("-", "yellow"),
    Standing.CONTRADICTED: ("!", "red"),
    Standing.NOT_OBSERVABLE: ("?", "yellow"),
}


def verdict_report(result: RunResult) -> RenderableType:
    """Return the whole report on a judged run."""
    parts: list[RenderableType] = ["", _headline(result)]
    parts += [Text(f"  {each}") for each in words.caveats(result)]
    parts += ["", _facts(result), "", _evidence(result)]
    parts += _losses(result)
    for section in words.sections(result):
        parts.append("")
        indent = "  " if section.title else ""
        if section.title:
            parts.append(Text(section.title, "bold"))
        parts += [Text(f"{indent}{line}") for line in section.lines]
        if section.note:
            parts.append(Text(f"{indent}{section.note}", "dim"))
    parts += ["", Text(words.scope(result), "italic"), ""]
    return Group(*parts)


def _losses(result: RunResult) -> Iterator[RenderableType]:
    """Yield the losses, their shape and what explains them; nothing without any."""
    if result.ranges:
        yield from ("", _ranges(result))
    if result.shape is not None:
        yield from ("", shaped(result.shape))
    if result.diagnosis:
        yield from ("", diagnosed(result.diagnosis))


def _headline(result: RunResult) -> Text:
    line = Text()
    line.append(f" {result.verdict.value} ", STYLES[result.verdict])
    line.append(f"  {result.reasons[0]}", "bold")
    return line


def _facts(result: RunResult) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in words.facts(result):
        table.add_row(Text(f"  {name}", "dim"), Text(value, overflow="fold"))
    return table


def _evidence(result: RunResult) -> Table:
    table = Table.grid(padding=(0, 2))
    for item in result.evidence:
        mark, style = _MARKS[item.standing]
        table.add_row(
            Text(f"  {mark}", style),
            Text(item.item.value),
            Text(item.standing.value, style),
            Text(item.reason, "dim", overflow="fold"),
        )
    return table


def _ranges(result: RunResult) -> RenderableType:
    table = Table(title="Losses, by id", title_justify="left", title_style="bold")
    for name in words.RANGE_COLUMNS:
        right = name in ("rows", "acked before the cut")
        table.add_column(name, justify="right" if right else "left")
    for span in result.ranges[: words.RANGES_SHOWN]:
        table.add_row(*words.range_cells(span))
    return Group(table, Text(words.ranges_note(result), "dim"))
