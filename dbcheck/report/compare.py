"""Two runs or campaigns side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.judge.results import ComparedResult
from dbcheck.report.style import MINOR
from dbcheck.report.words import compare as words


def compare_report(result: ComparedResult) -> RenderableType:
    """Return the figures, what they show, and what was configured differently."""
    parts: list[RenderableType] = ["", _table("Figures", words.rows(result)), ""]
    parts += map(Text, words.findings(result))
    if result.differences:
        title = "Configured differently"
        parts += ["", _table(title, words.differences(result))]
    return Group(*parts, "", Text(words.same(result), MINOR), "")


def _table(title: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    for name in words.COLUMNS:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
