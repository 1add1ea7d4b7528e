"""Colours, small bars, and what is drawn in place, in the reports for a terminal.

Colours never say anything that words do not.  They are those of the 256 colours of
xterm that have a contrast of at least 3:1 to black and to white (WCAG 2.2, success
criterion 1.4.11); rich takes the nearest where a terminal has fewer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import Phase
from dbcheck.report.progress import PlainProgress

GOOD = "green4"
DOUBTFUL = "dark_orange3"
BAD = "red3"
NOTED = "deep_sky_blue4"
MINOR = "dim"
WRONG = f"bold {BAD}"

COLOURS = {
    Verdict.PASS: GOOD,
    Verdict.FAIL: BAD,
    Verdict.INCONCLUSIVE: DOUBTFUL,
}
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.:-=+*#"  # where the terminal's encoding has no others


def style_badge(colour: str) -> str:
    """Return the style of a word that stands for a result."""
    return f"bold white on {colour}"


BADGES = {verdict: style_badge(colour) for verdict, colour in COLOURS.items()}


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The newest values that fit, each as a bar from 0 to the largest of them.

    width: characters, at most.  style: of the bars.
    """

    values: Sequence[float]
    width: int
    style: str = ""

    def shown(self) -> Sequence[float]:
        """Return the values that are drawn."""
        return self.values[-self.width :]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[Segment]:
        bars = _ASCII_BARS if options.ascii_only else _BARS
        largest = max(self.shown(), default=0.0) or 1.0
        text = "".join(
            bars[min(len(bars) - 1, int(value / largest * len(bars)))]
            for value in self.shown()
        )
        yield Segment(text, Style.parse(self.style))

    def __rich_measure__(
        self, console: Console, options: ConsoleOptions
    ) -> Measurement:
        return Measurement(self.width, self.width)


class InPlace(PlainProgress):
    """Redraws the result of _draw() in place, *per_second* times a second."""

    def __init__(
        self, console: Console, only: Set[Phase] | None = None, per_second: int = 8
    ) -> None:
        super().__init__(console, only)
        self._live = Live(
            console=console, refresh_per_second=per_second, transient=True
        )
        self._live.get_renderable = self._draw  # type: ignore[method-assign]

    def _draw(self) -> RenderableType:
        raise NotImplementedError

    def __enter__(self) -> Self:
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
