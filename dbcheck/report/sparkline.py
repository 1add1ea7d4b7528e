"""A row of small bars that shows how a number went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.:-=+*#"  # where the terminal's encoding has no others


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
