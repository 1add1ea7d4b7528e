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

from dbcheck.limits import BEHIND_S
from dbcheck.ports.listener import LoadStatus
from dbcheck.visible import visible

_TITLES = {
    "lab": "lab",
    "preflight": "preflight",
    "control": "control",
    "fill": "fill",
    "warm": "warmed",
    "load": "load",
    "cut": "cut",
    "gone": "server gone",
    "interrupt": "interrupted",
    "stopped": "stopped",
    "power": "power",
    "restore": "restore",
    "read": "read survivors",
    "judge": "judge",
    "cycle": "cycle",
    "checkpoint": "checkpoint",
    "campaign": "so far",
}


class PlainProgress:
    """Writes a line for each phase to stderr; for pipes, logs and --json.

    Once stderr cannot be written, as after a terminal was closed, it writes nothing and
    raises nothing: a target may be without power then.
    only: the phases to write; all if None.
    """

    def __init__(self, console: Console, only: Set[str] | None = None) -> None:
        self._console = console
        self._only = only
        self._last: LoadStatus | None = None
        self._behind = False

    def phase(self, name: str, detail: str) -> None:
        """Write the phase, and what the load reached when it ended."""
        if self._only is not None and name not in self._only:
            return
        if name == "gone" and self._last is not None:
            self.line("", _described(self._last))
        self.line(_TITLES.get(name, name), detail)

    def load(self, status: LoadStatus) -> None:
        """Keep the status for the end of the load; report when the witness lags."""
        self._last = status
        behind = status.behind_s >= BEHIND_S
        if behind != self._behind and (self._only is None or "load" in self._only):
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

    def __init__(self, console: Console, only: Set[str] | None = None) -> None:
        super().__init__(console, only)
        self._asked = ""
        self._phase_began = time.monotonic()
        self._running = ""
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

    def phase(self, name: str, detail: str) -> None:
        """Write the phase above the live part."""
        super().phase(name, detail)
        self._running, self._phase_began = name, time.monotonic()
        if name in ("gone", "read"):
            self._asked = ""
        if name == "gone":
            self._last = None

    def ask(self, text: str) -> None:
        """Keep what a human is asked to do in sight until it has happened."""
        self._asked = visible(text)

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._last is not None:
            parts.append(_table(self._last))
        elif self._running:
            waited_s = time.monotonic() - self._phase_began
            parts.append(
                Text(f"{'':>15}  {_TITLES[self._running]}: {waited_s:.0f} s", "dim")
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


def _described(status: LoadStatus) -> str:
    latency = status.latency_ms
    return (
        f"{status.acked:,} acked in {status.seconds:.1f} s, "
        f"{status.witnessed:,} witnessed, p50 {latency.get('p50', 0):.2f} ms, "
        f"p99 {latency.get('p99', 0):.2f} ms, max {latency.get('max', 0):.2f} ms"
    )


def progress(
    console: Console, *, live: bool, only: Set[str] | None = None
) -> PlainProgress:
    """Return the live view where the console is a terminal, else plain lines."""
    if live and console.is_terminal:
        return LiveProgress(console, only)
    return PlainProgress(console, only)
