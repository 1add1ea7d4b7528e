"""The report on campaigns for a terminal, made from the results that --json prints."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.judge.results import CampaignsResult
from dbcheck.report.lab import verdict
from dbcheck.report.style import MINOR
from dbcheck.report.words import campaign as words


def campaigns_report(subject: CampaignsResult) -> RenderableType:
    """Return one row for each target, and what its cuts prove."""
    results = subject.targets
    table = Table(title="Campaign", title_justify="left", title_style="bold")
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
        table.add_row(*cells, verdict(result.verdict))
        lines = (Padding(Text(each), (0, 0, 0, 2)) for each in words.lines(result))
        parts += ["", Text(result.name, "bold"), *lines]
    if subject.groups:
        lines = (Padding(Text(each), (0, 0, 0, 2)) for each in words.groups(subject))
        parts += ["", Text(words.GROUPS, "bold"), *lines]
    if with_price:
        parts += ["", Text(words.PRICE, MINOR)]
    parts += ["", Text(f"All files: {subject.folder}", "italic"), ""]
    return Group(*parts)
