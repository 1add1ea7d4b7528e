"""The report on an exploration of crash states, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.judge.results import ExploreResult, Finding, LostBlock, StateResult
from dbcheck.report.terminal import BADGES, MINOR
from dbcheck.report.words.explored import (
    SCOPE,
    blocks_of,
    coverage_sentences,
    how_it_fails,
    not_reduced,
    nothing_lacking,
    summary,
)
from dbcheck.report.words.run import number, sentence

_BLOCKS_SHOWN = 12
_STATES_SHOWN = 3


def draw_exploration(result: ExploreResult) -> RenderableType:
    """Return the verdict, each finding, and what the states cover."""
    head = Text.assemble(
        (f" {result.verdict.value} ", BADGES[result.verdict]), "  ", summary(result)
    )
    parts: list[RenderableType] = [head]
    for finding in result.findings:
        parts += [Text(""), *_draw_finding(finding)]
    if text := not_reduced(result):
        parts += [Text(""), Text(text)]
    parts += [Text(""), *(Text(line) for line in coverage_sentences(result))]
    parts += [Text(SCOPE), Text(""), Text(f"stored: {result.folder}")]
    if result.findings:
        again = f"dbcheck lab explore {result.folder} --state {result.findings[0].name}"
        parts.append(Text(f"judge it again: {again}"))
    if not result.finished:
        more = f"dbcheck lab explore {result.folder} --states {result.wanted}"
        parts.append(Text(f"go on: {more}"))
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
    found = result.judgement
    lines = [
        f"A cut {result.load_s:.3f} s into the load, with {number(found.acks)} acks"
        " before it."
    ]
    lines += [sentence(found.reason)] if found.reason else []
    for row in found.rows[:_STATES_SHOWN]:
        lines.append(
            f"{row.kind}: {row.table} id {row.row_id} (session {row.session}, "
            f"operation {row.seq})"
        )
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, 2))
    if result.lost:
        yield Padding(_draw_lost_blocks(result.lost), (0, 0, 0, 2))
    elif text := nothing_lacking(found):
        yield Padding(Text(text), (0, 0, 0, 2))


def _draw_lost_blocks(lost: tuple[LostBlock, ...]) -> RenderableType:
    """Return a table of what is not on the drives."""
    table = Table(
        title="written and not on the drive", title_justify="left", title_style=MINOR
    )
    table.add_column("file", overflow="fold")
    for name in ("bytes", "length", "written before the cut"):
        table.add_column(name, justify="right")
    for block in lost[:_BLOCKS_SHOWN]:
        table.add_row(*blocks_of(block))
    more = len(lost) - _BLOCKS_SHOWN
    if more > 0:
        table.caption, table.caption_justify = f"and {number(more)} more", "left"
    return table
