"""Values of the page of a go-live check, for its template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dbcheck.model.golive import GoLiveResult, StepResult, StepStatus
from dbcheck.model.verdict import Verdict, describe_goal, format_percent_up
from dbcheck.report.subject import Step
from dbcheck.report.words import golive as words

_TICKED, _UNTICKED = "☑", "☐"  # a box with a tick, an empty box
_SIGNERS = ("Checked by", "Approved by")


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Row:
    """One step in the checklist; command: "" if it cannot be done on this host."""

    box: str
    title: str
    status: str
    tone: str
    when: str
    summary: str
    details: tuple[str, ...]
    is_open: bool
    command: str


def make_golive_values(result: GoLiveResult) -> dict[str, Any]:
    """Return the values of templates/golive.html."""
    return {
        "title": f"Go-live check of {result.name}",
        "about": (
            f"Go-live check of {result.name}",
            f"{words.format_time(result.created)} UTC",
        ),
        "verdict": result.verdict.value,
        "headline": words.headline(result),
        "proofs": list(words.proofs(result)),
        "tiles": list(_list_tiles(result)),
        "facts_shown": list(_list_facts(result)),
        "rows": list(map(_make_row, result.steps)),
        "accept": [] if result.verdict is Verdict.FAIL else list(result.to_accept),
        "by_hand": [text.format(clean=result.clean) for text in words.BY_HAND],
        "box": _UNTICKED,
        "papers": result.papers,
        "covers": words.limits(result),
        "invalidates": words.INVALIDATES,
        "signers": _SIGNERS,
        "is_pass": result.verdict is Verdict.PASS,
        "steps": list(_list_steps(result)),
    }


def _list_tiles(result: GoLiveResult) -> Iterator[Tile]:
    proven = result.statistics
    if proven is None:
        yield Tile("cuts", f"0 of {result.planned_cuts}")
        return
    yield Tile("cuts that count", f"{proven.cuts} of {result.planned_cuts}")
    yield Tile("cuts that lost", f"{proven.losses}")
    if proven.cuts and not proven.losses:
        yield Tile("lose at most (95%)", format_percent_up(proven.loss_ppm_max))
    depths = ", ".join(depth or "not measured" for depth in proven.depths)
    yield Tile("depth", depths or "not measured")
    if result.confirmed is not None:
        yield Tile("commits compared", f"{result.confirmed:,}")


def _list_facts(result: GoLiveResult) -> Iterator[tuple[str, str]]:
    yield "server", result.target
    yield "witness", result.witness
    yield "switch", result.switch
    for name, value in result.subject.items():
        yield ("version" if name == "server" else name), value
    yield "agreed bound", describe_goal(result.planned_cuts)
    ended = max((step.ended for step in result.steps), default="")
    when = words.format_time(result.created)
    yield "checked (UTC)", f"{when} to {words.format_time(ended)}" if ended else when
    yield "program", f"dbcheck {result.dbcheck}"


def _make_row(step: StepResult) -> Row:
    tones = {StepStatus.DONE: "PASS", StepStatus.LEFT_OUT: "none"}
    tone = tones.get(step.status, "INCONCLUSIVE")
    if step.verdict is Verdict.FAIL:
        tone = "FAIL"
    return Row(
        box=_TICKED if step.status is StepStatus.DONE else _UNTICKED,
        title=words.ABOUT[step.step].title,
        status=words.STATUS_WORDS[step.status],
        tone=tone,
        when=words.format_time(step.ended or step.began),
        summary=step.summary or words.ABOUT[step.step].does,
        details=step.details,
        is_open=step.status is StepStatus.STOPPED,
        command="" if step.status is StepStatus.LEFT_OUT else step.command,
    )


def _list_steps(result: GoLiveResult) -> Iterator[Step]:
    if result.next_step is not None:
        yield Step("Continue this check", words.resume_command(result.folder))
    for paper in result.papers:
        if paper.file.endswith(".tar"):
            yield Step(
                "Judge all the evidence again, on any machine",
                f"dbcheck verify {paper.file}",
            )
