"""Shows a go-live check on a terminal: each step as it comes, and the summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dbcheck.model.golive import GoLiveResult, StepId, StepResult, StepStatus
from dbcheck.model.verdict import Verdict, describe_goal
from dbcheck.report.terminal import BAD, BADGES, COLOURS, DOUBTFUL, GOOD, MINOR
from dbcheck.report.words import golive as words

_COUNT = len(StepId)
_INDENT = 6  # columns of what stands below the title of a step
_SHOWN_MAX = 6  # details of a step on the terminal; the page has all
_MARKS = {
    StepStatus.DONE: ("+", GOOD),
    StepStatus.LEFT_OUT: ("-", DOUBTFUL),
    StepStatus.OPEN: (" ", MINOR),
    StepStatus.BEGUN: ("?", DOUBTFUL),
    StepStatus.STOPPED: ("!", BAD),
}


def draw_title(name: str, cuts: int, folder: Path) -> RenderableType:
    """Return the first lines of a check, whose campaign has so many *cuts*."""
    title = Text.assemble("Go-live check of ", (name, "bold"))
    goal = Text(f"The bound: {describe_goal(cuts)}.")
    return Group("", title, goal, Text(f"Everything is kept in {folder}", MINOR))


def draw_question(about: str) -> RenderableType:
    """Return the text above the question whether the power may be cut."""
    return Group("", Text(about))


def draw_beginning(
    step: StepId,
    *,
    control: bool,
    by_hand: bool,
    cuts: int,
    to_come: int,
    each_s: float | None,
) -> RenderableType:
    """Return the text of a step that begins: what it does, takes and changes.

    control: a control comes before the first cut.  by_hand: a person cuts.  cuts: of
    the campaign.  to_come: those that are still to be made.  each_s: how long one cut
    took, None if that is not known.
    """
    about = words.ABOUT[step]
    title = Text.assemble((f"{_place(step)}  ", MINOR), (about.title, "bold"))
    does = about.does
    if step is StepId.FIRST_CUT and control:
        does = f"{does} {words.CONTROL}"
    if step is StepId.CAMPAIGN:
        does = f"{does} {describe_goal(cuts)}."
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("does", MINOR), Text(does))
    takes = words.describe_duration(step, cuts, to_come, each_s)
    table.add_row(Text("takes", MINOR), Text(takes))
    table.add_row(Text("changes", MINOR), Text(about.changes))
    if step.is_campaign or (step.cuts_power and not by_hand):
        text = words.CUTS_BY_HAND if by_hand else words.CUTS
        table.add_row("", Text(text, f"bold {DOUBTFUL}"))
    return Group("", title, Padding(table, (0, 0, 0, _INDENT)))


def draw_ending(result: StepResult) -> RenderableType:
    """Return the result of a step."""
    mark, style = _MARKS[result.status]
    status = words.STATUS_WORDS[result.status]
    head = Text.assemble((f"{mark} {status}", f"bold {style}"), f"  {result.summary}")
    lines: list[RenderableType] = [head]
    shown = result.details if result.status is StepStatus.STOPPED else ()
    lines += [Text(f"  {line}") for line in shown[:_SHOWN_MAX]]
    if (more := len(shown) - _SHOWN_MAX) > 0:
        lines.append(Text(f"  {more} more on the page", MINOR))
    if result.verdict is not Verdict.FAIL:
        lines += [Text(f"to accept: {line}", DOUBTFUL) for line in result.to_accept]
    if result.fix:
        lines.append(Text.assemble(("Fix: ", "bold"), result.fix))
    return Padding(Group(*lines), (0, 0, 0, _INDENT))


def draw_kept(result: StepResult) -> RenderableType:
    """Return the line of a step that was done before and is not repeated."""
    mark, style = _MARKS[result.status]
    title = words.ABOUT[result.step].title
    text = f" {words.STATUS_WORDS[result.status]} at"
    text += f" {words.format_time(result.ended)} UTC, not repeated"
    return Text.assemble(
        (f"{_place(result.step)}  ", MINOR), (title, "bold"), (f" {mark}", style), text
    )


def draw_repeated(step: StepId, changes: Sequence[str]) -> RenderableType:
    """Return the line of a step that is repeated, with the reasons."""
    title = words.ABOUT[step].title
    text = f"The step {title} is repeated: {'; '.join(changes)}."
    return Group("", Text(text, DOUBTFUL))


def draw_golive(result: GoLiveResult) -> RenderableType:
    """Return the summary: the verdict, the steps, what is to be accepted, the files."""
    head = Text()
    head.append(f" {result.verdict.value} ", BADGES[result.verdict])
    head.append(f"  {words.headline(result)}", "bold")
    panel = Panel(
        Group(head, *map(Text, words.proofs(result))),
        border_style=COLOURS[result.verdict],
    )
    parts: list[RenderableType] = ["", panel, "", _draw_steps(result.steps)]
    if result.to_accept and result.verdict is not Verdict.FAIL:
        table = Table.grid(padding=(0, 1))
        for text in result.to_accept:
            table.add_row(Text("[ ]"), Text(text))
        title = Text("To accept by name", "bold")
        parts += ["", title, Padding(table, (0, 0, 0, 2))]
    parts += ["", *_list_files(result), ""]
    return Group(*parts)


def _draw_steps(steps: Sequence[StepResult]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for step in steps:
        mark, style = _MARKS[step.status]
        status = words.STATUS_WORDS[step.status]
        text = f"{status}: {step.summary}" if step.summary else status
        row = Text(f"  {mark}", style), Text(words.ABOUT[step.step].title), Text(text)
        table.add_row(*row)
    return table


def _list_files(result: GoLiveResult) -> Iterator[RenderableType]:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    page = "the page to sign" if result.verdict is Verdict.PASS else "the page"
    table.add_row(Text(page, MINOR), f"{result.folder}/golive.html")
    for paper in result.papers:
        table.add_row(Text(paper.what, MINOR), f"{result.folder}/{paper.file}")
    if result.verdict is Verdict.PASS:
        table.add_row(Text("remove what dbcheck made", MINOR), result.clean)
    yield table


def _place(step: StepId) -> str:
    return f"{list(StepId).index(step) + 1} of {_COUNT}"


def show(console: Console, drawn: RenderableType) -> None:
    """Write to *console*, which may be closed: a target may be without power then."""
    try:
        console.print(drawn)
    except OSError:
        return
