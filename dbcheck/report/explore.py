"""The report on an exploration of crash states, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.model.explored import ExploreResult, Finding, LostBlock, StateResult
from dbcheck.report.box import draw_summary
from dbcheck.report.terminal import BADGES, MINOR
from dbcheck.report.words.explored import (
    BLOCK_COLUMNS,
    SCOPE,
    blocks_of,
    coverage_sentences,
    describe_state,
    how_it_fails,
    list_commands,
    not_reduced,
    summarize_exploration,
)
from dbcheck.report.words.run import number

_BLOCKS_SHOWN = 12
_STATES_SHOWN = 3


def draw_exploration(result: ExploreResult) -> RenderableType:
    """Return the verdict, each finding, and what the states cover."""
    summary = summarize_exploration(result)
    parts: list[RenderableType] = [draw_summary(summary)]
    for finding in result.findings:
        parts += [Text(""), *_draw_finding(finding)]
    if text := not_reduced(result):
        parts += [Text(""), Text(text)]
    parts += [Text(""), *(Text(line) for line in coverage_sentences(result))]
    parts += [Text(SCOPE), Text(""), Text(f"stored: {result.folder}")]
    parts += [Text(f"{what}: {command}") for what, command in list_commands(result)]
    return Group(*parts)


def draw_state(result: StateResult) -> RenderableType:
    """Draw the judgement on one state."""
    verdict = result.judgement.verdict
    head = Text.assemble((f" {verdict.value} ", BADGES[verdict]), f"  {result.name}")
    return Group(head, *_draw_judged_state(result))


def _draw_finding(finding: Finding) -> Iterator[RenderableType]:
    """Yield one finding: how it fails, the states, what the smallest one lacks."""
    yield Text(f"{finding.name}: {how_it_fails(finding)}", "bold")
    yield from _draw_judged_state(finding.smallest)
    states = ", ".join(finding.states[:_STATES_SHOWN])
    more = len(finding.states) - _STATES_SHOWN
    if more > 0:
        states += f" and {number(more)} more"
    yield Padding(Text(f"found in the states: {states}", MINOR), (0, 0, 0, 2))


def _draw_judged_state(result: StateResult) -> Iterator[RenderableType]:
    """Yield the time of the cut, the losses, and what the drive lacks."""
    for line in describe_state(result):
        yield Padding(Text(line), (0, 0, 0, 2))
    if result.lost:
        yield Padding(_draw_lost_blocks(result.lost), (0, 0, 0, 2))


def _draw_lost_blocks(lost: tuple[LostBlock, ...]) -> RenderableType:
    """Return a table of what is not on the drives."""
    table = Table(
        title="written and not on the drive", title_justify="left", title_style=MINOR
    )
    table.add_column(BLOCK_COLUMNS[0], overflow="fold")
    for name in BLOCK_COLUMNS[1:]:
        table.add_column(name, justify="right")
    for block in lost[:_BLOCKS_SHOWN]:
        table.add_row(*blocks_of(block))
    more = len(lost) - _BLOCKS_SHOWN
    if more > 0:
        table.caption, table.caption_justify = f"and {number(more)} more", "left"
    return table
