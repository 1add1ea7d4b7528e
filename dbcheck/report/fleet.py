"""Shows many campaigns as they go: a line for each event, and a table on a terminal."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.model.verdict import format_count
from dbcheck.report.progress import PlainProgress
from dbcheck.report.terminal import BAD, DOUBTFUL, GOOD, MINOR, InPlace


class State(enum.Enum):
    """State of a campaign of a fleet; the value is what tables show."""

    WAITING = "waiting"  # for a worker
    RUNNING = "running"
    ENDED = "ended"
    LOST = "worker lost"  # what it was at is settled by --resume


@dataclass(frozen=True, slots=True)
class RigStatus:
    """One campaign of a fleet at one moment.

    cuts, losses: that count so far, of *planned* cuts.
    failed:  its verdict is FAIL: a cut lost something, or, with losses 0, a control
             did, or the server without a power cut.
    doing:   what the campaign is at.
    rate:    acks a second, None if no load runs.
    silent_s: since the worker was last heard of; None if no worker has it.
    error:   why the campaign ended before it was finished, "" if it did not.
    """

    name: str
    state: State
    cuts: int
    losses: int
    planned: int
    doing: str = ""
    rate: float | None = None
    silent_s: float | None = None
    error: str = ""
    failed: bool = False


_OF_NO_CUT = "by a control or a loss without a power cut"
_FAIL_OF_NO_CUT = f"FAIL {_OF_NO_CUT}"
_SILENT_S = 15.0  # after which the table says since when
_OTHER_LINES = 8  # of the terminal: heads, the sums, and some events above
_ORDER = (State.LOST, State.RUNNING, State.WAITING, State.ENDED)


class PlainFleet(PlainProgress):
    """Writes a line for each event."""

    def show(self, rigs: Sequence[RigStatus]) -> None:
        """Write nothing: what changes has a line."""


class LiveFleet(InPlace, PlainFleet):
    """Draws a table of all targets below these lines."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, per_second=4)
        self._rigs: Sequence[RigStatus] = ()

    def show(self, rigs: Sequence[RigStatus]) -> None:
        """Draw the targets as they are now."""
        self._rigs = rigs

    def _draw(self) -> RenderableType:
        return draw_fleet(self._rigs, self._console.height - _OTHER_LINES)


def draw_fleet(rigs: Sequence[RigStatus], rows: int) -> RenderableType:
    """Return the table of targets, at most *rows* of them, with the sums below.

    Targets that failed come first.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
    for name in ("target", "cuts", "lossy", "acks/s", "now"):
        right = name in ("cuts", "lossy", "acks/s")
        table.add_column(
            Text(name, MINOR),
            justify="right" if right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if name == "now" else None,  # all else keeps its width
        )
    urgent = sorted(rigs, key=_rank_urgency)
    for rig in urgent[: max(rows, 1)]:
        table.add_row(*_draw_cells(rig))
    return Group(table, Text(_format_sums(rigs, len(rigs) - max(rows, 1)), MINOR))


def _rank_urgency(rig: RigStatus) -> tuple[bool, bool, int]:
    return (not rig.failed, not rig.error, _ORDER.index(rig.state))


def _draw_cells(rig: RigStatus) -> tuple[Text, ...]:
    return (
        Text(rig.name),
        Text(f"{rig.cuts} of {rig.planned}"),
        Text(str(rig.losses), BAD if rig.losses else MINOR),
        Text("-" if rig.rate is None else f"{rig.rate:,.0f}"),
        _draw_now(rig),
    )


def _draw_now(rig: RigStatus) -> Text:
    """Draw the status of a target, after a FAIL that no column of cuts shows."""
    status = _draw_status(rig)
    if rig.failed and not rig.losses and rig.state is not State.ENDED:
        return Text.assemble((_FAIL_OF_NO_CUT, BAD), "; ", status)
    return status


def _draw_status(rig: RigStatus) -> Text:
    """Draw the current phase of a target, or its end."""
    if rig.error:
        return Text(rig.error, DOUBTFUL)
    if rig.silent_s is not None and rig.silent_s > _SILENT_S:
        return Text(f"its worker has been silent for {rig.silent_s:.0f} s", DOUBTFUL)
    if rig.state is State.RUNNING:
        return Text(rig.doing or "begins")
    if rig.state is State.ENDED:
        return _draw_end(rig)
    return Text("waits for a worker", MINOR)


def describe_end(rig: RigStatus) -> str:
    """Return the end of a campaign in words: whether it failed, and what counts."""
    if rig.failed:
        return "ended: FAIL" if rig.losses else f"ended: {_FAIL_OF_NO_CUT}"
    if rig.cuts >= rig.planned:
        return "ended"
    if rig.cuts:
        return f"ended: too few cuts count, {rig.cuts} of {rig.planned}"
    return "ended: no cut counts, so nothing is shown"


def _draw_end(rig: RigStatus) -> Text:
    enough = GOOD if rig.cuts >= rig.planned else DOUBTFUL
    return Text(describe_end(rig), BAD if rig.failed else enough)


def _format_sums(rigs: Sequence[RigStatus], hidden: int) -> str:
    states = Counter(rig.state for rig in rigs)
    counts = ", ".join(f"{states[one]} {one.value}" for one in _ORDER if states[one])
    cuts, losses = sum(r.cuts for r in rigs), sum(r.losses for r in rigs)
    counting = f"{format_count(cuts, 'cut')} {'counts' if cuts == 1 else 'count'}"
    targets = format_count(len(rigs), "target")
    text = f"{targets}: {counts}; {counting}, {losses:,} lost"
    if hidden_fails := sum(rig.failed and not rig.losses for rig in rigs):
        failed = format_count(hidden_fails, "target")
        text += f"; {failed} failed {_OF_NO_CUT}"
    return f"{text} ({hidden} not shown)" if hidden > 0 else text


def make_fleet_view(console: Console, *, live: bool) -> PlainFleet:
    """Return the table where the console can draw in place, else plain lines."""
    if live and console.is_terminal and not console.is_dumb_terminal:
        return LiveFleet(console)
    return PlainFleet(console)
