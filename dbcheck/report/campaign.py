"""The reports on campaigns, and on two of them or of runs compared, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.judge.results import CampaignsResult, ComparedResult
from dbcheck.report.matrix import draw_verdict
from dbcheck.report.terminal import MINOR
from dbcheck.report.words import campaign as words
from dbcheck.report.words import compare as compared_words
from dbcheck.report.words.chosen import format_title


def draw_campaigns(subject: CampaignsResult) -> RenderableType:
    """Return one row for each target, and what its cuts prove."""
    results = subject.targets
    title = format_title(results[0]) if len(results) == 1 else "Campaigns"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in words.columns(results):
        is_target = name == "target"
        table.add_column(
            name,
            justify="left" if is_target else "right",
            overflow="fold" if is_target else "ellipsis",
        )
    table.add_column("verdict")
    parts: list[RenderableType] = ["", table]
    with_price = words.has_price(results)
    for result in results:
        cells = words.cells(result, with_price=with_price)
        table.add_row(*cells, draw_verdict(result.verdict))
        lines = (Padding(Text(each), (0, 0, 0, 2)) for each in words.lines(result))
        parts += ["", Text(result.name, "bold"), *lines]
    if subject.groups:
        lines = (Padding(Text(each), (0, 0, 0, 2)) for each in words.groups(subject))
        parts += ["", Text(words.GROUPS, "bold"), *lines]
    if with_price:
        parts += ["", Text(words.PRICE, MINOR)]
    parts += ["", Text(f"All files: {subject.folder}", "italic"), ""]
    return Group(*parts)


def draw_comparison(result: ComparedResult) -> RenderableType:
    """Return the figures, what they show, and what was configured differently."""
    parts: list[RenderableType] = [
        "",
        _draw_table("Figures", compared_words.rows(result)),
        "",
    ]
    parts += map(Text, compared_words.findings(result))
    if result.differences:
        title = "Configured differently"
        parts += ["", _draw_table(title, compared_words.differences(result))]
    return Group(*parts, "", Text(compared_words.same(result), MINOR), "")


def _draw_table(title: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    for name in compared_words.COLUMNS:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
