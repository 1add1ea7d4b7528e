"""Shows the progress of a cycle: a live view, or plain lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Set
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dbcheck.core.counters import UnderLoad
from dbcheck.limits import BEHIND_S
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.report.driverates import drive_rates
from dbcheck.visible import visible

_DRIVES_SHOWN = 4


class PlainProgress:
    """Writes a line for each phase to stderr; for pipes, logs and --json.

    Once stderr cannot be written, as after a terminal was closed, it writes nothing and
    raises nothing: a target may be without power then.
    only: the phases to write; all if None.
    """

    def __init__(self, console: Console, only: Set[Phase] | None = None) -> None:
        self._console = console
        self._only = only
        self._last: LoadStatus | None = None
        self._behind = False

    def phase(self, phase: Phase, detail: str) -> None:
        """Write the phase, and what the load reached when it ended."""
        if self._only is not None and phase not in self._only:
            return
        if phase is Phase.GONE and self._last is not None:
            self.line("", _described(self._last))
        self.line(phase.value, detail)

    def load(self, status: LoadStatus) -> None:
        """Keep the status for the end of the load; report when the witness lags."""
        self._last = status
        behind = status.behind_s >= BEHIND_S
        if behind != self._behind and (self._only is None or Phase.LOAD in self._only):
            text = "confirms again"
            if behind:
                text = f"is {status.behind_s:.0f} s behind; the load waits for it"
            self.line("witness", text)
        self._behind = behind

    def ask(self, text: str) -> None:
        """Write what a human is asked to do."""
        with contextlib.suppress(OSError):
            self._console.print(Group("", Text(f">>> {visible(text)}", "bold"), ""))

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def line(self, title: str, detail: str) -> None:
        """Write one line."""
        line = Text(f"{visible(title):>15}  ", "bold")
        line.append(visible(detail), "default not bold")
        with contextlib.suppress(OSError):
            self._console.print(line, soft_wrap=True)


class LiveProgress(PlainProgress):
    """Draws the load as it goes, and what a human is asked to do, in place."""

    def __init__(self, console: Console, only: Set[Phase] | None = None) -> None:
        super().__init__(console, only)
        self._asked = ""
        self._phase_began = time.monotonic()
        self._running: Phase | None = None
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._live.get_renderable = self._draw  # type: ignore[method-assign]

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    def phase(self, phase: Phase, detail: str) -> None:
        """Write the phase above the live part."""
        super().phase(phase, detail)
        self._running, self._phase_began = phase, time.monotonic()
        if phase in (Phase.GONE, Phase.READ):
            self._asked = ""
        if phase is Phase.GONE:
            self._last = None

    def ask(self, text: str) -> None:
        """Keep what a human is asked to do in sight until it has happened."""
        self._asked = visible(text)

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._last is not None:
            parts.append(_table(self._last))
            if self._last.drives is not None and self._last.drives.drives:
                parts.append(_drives(self._last.drives))
        elif self._running is not None:
            waited_s = time.monotonic() - self._phase_began
            parts.append(
                Text(f"{'':>15}  {self._running.value}: {waited_s:.0f} s", "dim")
            )
        if self._asked:
            parts.append(Panel(Text(self._asked, "bold"), border_style="bold yellow"))
        return Group(*parts)


def _table(status: LoadStatus) -> Table:
    """Return the load in two lines that fit on 80 columns, up to ten million acks."""
    table = Table.grid(padding=(0, 2))
    names = ("s", "acked", "witnessed", "window", "acks/s", "p50", "p99", "max ms")
    for _ in (*names, "open"):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(Text(name, "dim") for name in (*names, "open")))
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


def _drives(done: UnderLoad) -> Table:
    """Return what the drives did a moment ago, those that were flushed most first."""
    table = Table.grid(padding=(0, 2))
    names = ("drive", "flushes/s", "ms each", "commits per flush", "writes/s", "MB/s")
    for _ in names:
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(Text(name, "dim") for name in names))
    rates = drive_rates(done)
    for rate in rates[:_DRIVES_SHOWN]:
        table.add_row(
            visible(rate.drive),
            _or_dash(rate.flushes_per_s, ",.0f"),
            _or_dash(rate.flush_ms, ".2f"),
            _or_dash(rate.commits_per_flush, ",.1f"),
            f"{rate.writes_per_s:,.0f}",
            f"{rate.megabytes_per_s:,.1f}",
        )
    if len(rates) > _DRIVES_SHOWN:
        table.add_row(Text(f"{len(rates) - _DRIVES_SHOWN} more", "dim"))
    return table


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _described(status: LoadStatus) -> str:
    latency = status.latency_ms
    return (
        f"{status.acked:,} acked in {status.seconds:.1f} s, "
        f"{status.witnessed:,} witnessed, p50 {latency.get('p50', 0):.2f} ms, "
        f"p99 {latency.get('p99', 0):.2f} ms, max {latency.get('max', 0):.2f} ms"
    )


def progress(
    console: Console, *, live: bool, only: Set[Phase] | None = None
) -> PlainProgress:
    """Return the live view where the console is a terminal, else plain lines."""
    if live and console.is_terminal:
        return LiveProgress(console, only)
    return PlainProgress(console, only)
