"""Reports for a terminal on campaigns, on checks compared, and on checks over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.judge.checks import HistoryResult, ServerHistory
from dbcheck.judge.results import CampaignResult, CampaignsResult, ComparedResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.box import draw_action, draw_headline, draw_summary, draw_tiles
from dbcheck.report.matrix import draw_verdict
from dbcheck.report.terminal import DOUBTFUL, MINOR
from dbcheck.report.words import campaign as words
from dbcheck.report.words import campaign_table
from dbcheck.report.words import compare as compared_words
from dbcheck.report.words import history as history_words
from dbcheck.report.words import promises as promise_words

_CHECKS_SHOWN_MAX = 24  # checks of one server: two years of monthly ones


def draw_campaigns(subject: CampaignsResult) -> RenderableType:
    """Return the result of each target, and what its cuts prove."""
    results = subject.targets
    parts: list[RenderableType] = [""]
    if len(results) > 1:
        parts += [draw_summary(words.summarize_campaigns(subject)), ""]
        parts += [_draw_targets(results)]
        parts += [Text(words.PRICE, MINOR)] if campaign_table.has_price(results) else []
        parts.append("")
    for result in results:
        parts += [*_draw_campaign(result, alone=len(results) == 1), ""]
    if subject.groups:
        lines = (Padding(Text(each), (0, 0, 0, 2)) for each in words.groups(subject))
        parts += [Text(words.GROUPS, "bold"), *lines, ""]
    return Group(*parts, Text(f"All files: {subject.folder}", "italic"), "")


def _draw_targets(results: Sequence[CampaignResult]) -> Table:
    table = Table(title="Campaign", title_justify="left", title_style="bold")
    for name in campaign_table.columns(results):
        is_target = name == "target"
        table.add_column(
            name,
            justify="left" if is_target else "right",
            overflow="fold" if is_target else "ellipsis",
        )
    table.add_column("verdict")
    with_price = campaign_table.has_price(results)
    for result in results:
        cells = campaign_table.cells(result, with_price=with_price)
        table.add_row(*cells, draw_verdict(result.verdict))
    return table


def _draw_campaign(result: CampaignResult, *, alone: bool) -> Iterator[RenderableType]:
    """Yield the verdict on a target, what its cuts show, and its figures.

    alone: the report is on this target alone, and begins with its box.
    """
    summary = words.summarize_campaign(result)
    if alone:
        yield from (draw_summary(summary), "")
    else:
        yield draw_headline(summary)
        if summary.warning:
            yield Padding(Text(summary.warning), (0, 0, 0, 2))
        yield Padding(draw_action(summary), (0, 0, 0, 2))
    if result.promises:
        yield Padding(_draw_promises(result), (0, 0, 0, 2))
    for line in words.lines(result):
        yield Padding(Text(line), (0, 0, 0, 2))
    yield draw_tiles((*summary.tiles, *words.list_rates(result)))


def _draw_promises(result: CampaignResult) -> Table:
    """Return the table of the promises, of which each cut tests one."""
    table = Table(
        title=promise_words.TITLE,
        title_justify="left",
        title_style="bold",
        caption=promise_words.NOTE,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    for place, name in enumerate(promise_words.COLUMNS):
        table.add_column(name, justify="right" if place else "left")
    table.add_column("verdict")
    for cells, verdict in promise_words.list_rows(result):
        table.add_row(*cells, draw_verdict(verdict))
    return table


def draw_comparison(result: ComparedResult) -> RenderableType:
    """Return the figures, what they show, and what was configured differently."""
    parts: list[RenderableType] = [
        "",
        draw_summary(compared_words.summarize_comparison(result)),
        "",
        *map(Text, compared_words.findings(result)),
        "",
        _draw_table("Figures", compared_words.rows(result)),
    ]
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


def draw_history(result: HistoryResult) -> RenderableType:
    """Return a table for each server, its newest check first, and what changed."""
    parts: list[RenderableType] = [
        "",
        draw_summary(history_words.summarize_history(result)),
    ]
    for server in result.servers:
        parts += ["", _draw_checks(server), ""]
        parts += [
            Padding(Text(each), (0, 0, 0, 2)) for each in history_words.lines(server)
        ]
    parts += ["", *(Text(each, MINOR) for each in history_words.notes(result))]
    return Group(*parts, "", Text(f"All files: {result.folder}", "italic"), "")


def _draw_checks(server: ServerHistory) -> Table:
    table = Table(
        title=history_words.name_server(server.target),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for name in history_words.COLUMNS:
        is_text = name in history_words.COLUMNS[:2]
        justify: JustifyMethod = "left" if is_text else "right"
        # "0.0051% to 0.48%" breaks where it must, so that all else fits 80 columns.
        table.add_column(name, justify=justify, no_wrap=name != "bound")
    table.add_column("verdict", no_wrap=True)
    for check in server.checks[:_CHECKS_SHOWN_MAX]:
        table.add_row(*history_words.cells(check), _draw_word(check.verdict))
    if (more := len(server.checks) - _CHECKS_SHOWN_MAX) > 0:
        table.caption = f"and {more} older"
    return table


def _draw_word(verdict: Verdict | None) -> RenderableType:
    return Text("not judged", DOUBTFUL) if verdict is None else draw_verdict(verdict)
