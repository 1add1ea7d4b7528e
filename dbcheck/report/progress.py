"""Writes the progress of a cycle as plain lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Set
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dbcheck.base.limits import BEHIND_S
from dbcheck.base.text import visible
from dbcheck.ports.listener import LoadStatus, Phase, Progress, Unit

TITLE = 15  # characters of the column with the phase
STEP_S = 30.0  # between two lines on how far a phase is


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
        self._stepped = time.monotonic()

    def phase(self, phase: Phase, detail: str) -> None:
        """Write the phase, and what the load reached when it ended."""
        self._stepped = time.monotonic()
        if self._only is not None and phase not in self._only:
            return
        if phase is Phase.GONE and self._last is not None:
            self.line("", _describe_load(self._last))
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

    def progress(self, progress: Progress) -> None:
        """Write how far a phase is that takes long, now and then."""
        if self._only is not None or progress.unit is Unit.CUTS:
            return
        if time.monotonic() - self._stepped >= STEP_S:
            self._stepped = time.monotonic()
            self.line("", format_progress(progress))

    def ask(self, text: str) -> None:
        """Write what a human is asked to do."""
        with contextlib.suppress(OSError):
            self._console.print(Group("", Text(f">>> {visible(text)}", "bold"), ""))

    def end_question(self) -> None:
        """Show no longer what a human was asked, which is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def line(self, title: str, detail: str) -> None:
        """Write one line; a terminal folds a long one below its beginning."""
        head, rest = Text(f"{visible(title):>{TITLE}}", "bold"), Text(visible(detail))
        with contextlib.suppress(OSError):
            if self._console.is_terminal:
                row = Table.grid(padding=(0, 2))
                row.add_column(no_wrap=True)
                row.add_column(overflow="fold")
                row.add_row(head, rest)
                self._console.print(row)
            else:
                self._console.print(head + Text("  ") + rest, soft_wrap=True)


def format_progress(progress: Progress) -> str:
    """Return the progress of a phase, for one line."""
    done = f"{progress.done:,.0f}"
    if progress.total is not None and progress.done <= progress.total:
        done = f"{done} of {progress.total:,.0f}"
    what = visible(progress.what)
    if progress.unit is Unit.SECONDS:
        return f"waited {done} s for {what}"
    return f"{what}: {done} {progress.unit.value}"


def _describe_load(status: LoadStatus) -> str:
    latency = status.latency_ms
    return (
        f"{status.acked:,} acked in {status.seconds:.1f} s, "
        f"{status.witnessed:,} witnessed, p50 {latency.get('p50', 0):.2f} ms, "
        f"p99 {latency.get('p99', 0):.2f} ms, max {latency.get('max', 0):.2f} ms"
    )
