"""Shows a cycle as it goes, in place, on a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dbcheck.base.text import visible
from dbcheck.model.flushes import UnderLoad
from dbcheck.ports.listener import LoadStatus, Phase, Progress, Unit
from dbcheck.report.drives import list_drive_rates
from dbcheck.report.progress import TITLE, PlainProgress, format_progress
from dbcheck.report.terminal import DOUBTFUL, GOOD, MINOR, InPlace, Sparkline

_DRIVES_SHOWN = 4
_BAR = 20  # characters
_LINE = 40  # characters of a sparkline, four for each second
_KEPT = 240
_DUE_S = 0.05  # it would show as 0.0


class LiveProgress(InPlace):
    """Draws what goes on below the lines that PlainProgress writes."""

    def __init__(self, console: Console, only: Set[Phase] | None = None) -> None:
        super().__init__(console, only)
        self._asked = ""
        self._phase_began = time.monotonic()
        self._running: Phase | None = None
        self._at: Progress | None = None
        self._timed: _Timed | None = None
        self._campaign: _Timed | None = None
        self._rates: deque[float] = deque(maxlen=_KEPT)
        self._p99s_ms: deque[float] = deque(maxlen=_KEPT)

    def phase(self, phase: Phase, detail: str) -> None:
        """Write the phase above the live part."""
        super().phase(phase, detail)
        self._running, self._phase_began = phase, time.monotonic()
        self._at = self._timed = None
        if phase in (Phase.GONE, Phase.READ):
            self._asked = ""
        if phase is Phase.GONE:
            self._last = None
            self._rates.clear()
            self._p99s_ms.clear()

    def load(self, status: LoadStatus) -> None:
        """Draw the load as it is now."""
        super().load(status)
        self._rates.append(status.rate)
        self._p99s_ms.append(status.recent_ms.get("p99", 0.0))

    def progress(self, progress: Progress) -> None:
        """Draw how far the phase is, or the campaign that it is of."""
        if progress.unit is Unit.CUTS:
            self._campaign = _update_timed(self._campaign, progress)
        else:
            self._at = progress
        if progress.unit is Unit.STATES:
            self._timed = _update_timed(self._timed, progress)

    def ask(self, text: str) -> None:
        """Keep what a human is asked to do in sight until it has happened."""
        self._asked = visible(text)

    def end_question(self) -> None:
        """Take what a human was asked out of sight."""
        self._asked = ""

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = []
        status = self._last
        if status is not None:
            parts += [_draw_time_until_cut(status), "", _draw_load(status), ""]
            parts.append(_draw_sparklines(tuple(self._rates), tuple(self._p99s_ms)))
            if status.drives is not None and status.drives.drives:
                parts += ["", _draw_drives(status.drives)]
        elif self._running is not None:
            parts.append(self._how_far(self._running))
        if self._campaign is not None:
            parts.append(_draw_campaign(self._campaign))
        if self._asked:
            shown = Text(self._asked, "bold")
            parts.append(Panel(shown, border_style=f"bold {DOUBTFUL}"))
        return Group(*parts)

    def _how_far(self, phase: Phase) -> RenderableType:
        at, bar = self._at, None  # which the cycle's own thread replaces
        if at is None:
            elapsed_s = time.monotonic() - self._phase_began
            return _draw_bar(phase.value, None, f"{elapsed_s:.0f} s")
        if at.total:
            share = min(at.done, at.total)
            bar = ProgressBar(at.total, share, _BAR, complete_style=GOOD)
        left = self._timed.left if self._timed else ""
        return _draw_bar(phase.value, bar, format_progress(at) + left)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Progress with times; began_s: when this view began, with *first* of it done."""

    began_s: float
    first: float
    at: Progress

    @property
    def left(self) -> str:
        """The time that the rest may take, ", about 2 min left"; "" if not known."""
        at, new = self.at, self.at.done - self.first
        if new <= 0 or at.total is None or at.done >= at.total:
            return ""
        each_s = (time.monotonic() - self.began_s) / new
        return f", {_format_roughly(each_s * (at.total - at.done))} left"


def _update_timed(before: _Timed | None, at: Progress) -> _Timed:
    """Return *before*, with how far it is now."""
    if before is None:
        return _Timed(time.monotonic(), at.done, at)
    return replace(before, at=at)


def _draw_campaign(campaign: _Timed) -> Table:
    """Draw the number of cuts that are over, and the time that the others may take."""
    at = campaign.at
    text = f"{at.done:,.0f} of {at.total:,.0f} cuts{campaign.left}"
    bar = ProgressBar(at.total, at.done, _BAR, complete_style=GOOD)
    return _draw_bar(at.what, bar, text)


def _format_roughly(seconds: float) -> str:
    """Return a duration as roughly as it is known."""
    if seconds < 60:
        return "less than 1 min"
    if seconds < 100 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:,.0f} h"


def _draw_bar(title: str, bar: ProgressBar | None, text: str) -> Table:
    """Return a line with a bar, if there is one."""
    row = Table.grid(padding=(0, 2))
    cells: list[RenderableType] = [Text(f"{title:>{TITLE}}", MINOR)]
    if bar is not None:
        cells.append(bar)
    row.add_row(*cells, Text(text, MINOR, overflow="ellipsis", no_wrap=True))
    return row


def _draw_time_until_cut(status: LoadStatus) -> RenderableType:
    """Draw the time until the cut."""
    left_s = status.cut_in_s
    if left_s is None:
        return _draw_bar(Phase.LOAD.value, None, "")
    whole_s = status.seconds + left_s
    bar = ProgressBar(whole_s, status.seconds, _BAR, complete_style=GOOD)
    due = left_s < _DUE_S
    text = "the cut is due" if due else f"the cut comes in {left_s:.1f} s"
    return _draw_bar(Phase.LOAD.value, bar, text)


def _draw_load(status: LoadStatus) -> Table:
    """Return the load in two lines that fit on 80 columns, up to ten million acks."""
    table = Table.grid(padding=(0, 2))
    names = ("s", "acked", "witnessed", "window", "acks/s", "p50", "p99", "max ms")
    for _ in (*names, "open"):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(Text(name, MINOR) for name in (*names, "open")))
    latency = status.latency_ms
    table.add_row(
        f"{status.seconds:.0f}",
        f"{status.acked:,}",
        f"{status.witnessed:,}",
        f"{status.acked - status.witnessed:,}",
        f"{status.rate:,.0f}",
        *(f"{latency.get(name, 0):.2f}" for name in ("p50", "p99", "max")),
        f"{status.sessions}",
    )
    return table


def _draw_sparklines(rates: tuple[float, ...], p99s_ms: tuple[float, ...]) -> Table:
    """Draw the rate and the latency of the last second, as sparklines."""
    table = Table.grid(padding=(0, 2))
    for name, values, form in (("acks/s", rates, ",.0f"), ("p99 ms", p99s_ms, ",.2f")):
        line = Sparkline(values, _LINE, GOOD)
        most = max(line.shown(), default=0.0)
        note = Text(f"0 to {most:{form}}", MINOR)
        table.add_row(Text(f"{name:>{TITLE}}", MINOR), line, note)
    return table


def _draw_drives(done: UnderLoad) -> Table:
    """Draw the work of the drives a moment ago, the most flushed first."""
    table = Table.grid(padding=(0, 2))
    names = ("drive", "flushes/s", "ms each", "commits per flush", "writes/s", "MB/s")
    for _ in names:
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(Text(name, MINOR) for name in names))
    for row in _list_drive_rows(done):
        table.add_row(*row)
    left = len(done.drives) - _DRIVES_SHOWN
    if left > 0:
        table.add_row(Text(f"{left} more", MINOR))
    return table


def _list_drive_rows(done: UnderLoad) -> Iterator[tuple[str, ...]]:
    for rate in list_drive_rates(done)[:_DRIVES_SHOWN]:
        yield (
            visible(rate.drive),
            _format_or_dash(rate.flushes_per_s, ",.0f"),
            _format_or_dash(rate.flush_ms, ".2f"),
            _format_or_dash(rate.commits_per_flush, ",.1f"),
            f"{rate.writes_per_s:,.0f}",
            f"{rate.megabytes_per_s:,.1f}",
        )


def _format_or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def make_progress(
    console: Console, *, live: bool, only: Set[Phase] | None = None
) -> PlainProgress:
    """Return the live view where the console can draw in place, else plain lines."""
    if live and console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console, only)
    return PlainProgress(console, only)
