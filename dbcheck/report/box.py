"""The first box of each report on a terminal, and the figures beside it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dbcheck.report.terminal import BADGES, COLOURS, MINOR, NOTED, style_badge
from dbcheck.report.words.summary import Summary, Tile


def draw_summary(summary: Summary) -> RenderableType:
    """Return the box: verdict, what it proves, what to do, and what was checked."""
    parts: list[RenderableType] = [draw_headline(summary)]
    parts += [
        Text(text) for text in (summary.warning, summary.detail, summary.proof) if text
    ]
    parts += [Text(), draw_action(summary)]
    if summary.about:
        parts += [Text(), draw_pairs(summary.about)]
    colour = COLOURS[summary.verdict] if summary.verdict else NOTED
    return Panel(Group(*parts), border_style=colour)


def draw_headline(summary: Summary) -> Text:
    """Return the verdict's word and its sentence."""
    style = BADGES[summary.verdict] if summary.verdict else style_badge(NOTED)
    line = Text()
    line.append(f" {summary.badge} ", style)
    line.append(f"  {summary.headline}", "bold")
    return line


def draw_action(summary: Summary) -> Text:
    """Return what to do next."""
    return Text.assemble(("Next: ", "bold"), summary.action)


def draw_tiles(tiles: Iterable[Tile]) -> RenderableType:
    """Return the figures, a line each."""
    table = Table.grid(padding=(0, 2))
    for tile in tiles:
        table.add_row(
            Text(f"  {tile.name}", MINOR),
            Text(tile.value, "bold", no_wrap=True),
            Text(tile.note),
        )
    return table


def draw_pairs(pairs: Iterable[tuple[str, str]], indent: int = 0) -> RenderableType:
    """Return names with their values, a line or more each.

    indent: blanks before each name.
    """
    table = Table.grid(padding=(0, 2))
    for name, value in pairs:
        table.add_row(Text(name, MINOR), Text(value, overflow="fold"))
    return Padding(table, (0, 0, 0, indent)) if indent else table
