"""Charts as inline SVG, drawn here so that a page needs no script and no network.

Colours are classes of style.css, so that they follow the reader's light or dark theme.
Every text goes through Markup.format(), which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 14, 14, 44
_ROUND_STEPS = (1, 2, 5, 10)
_TICKS = 5

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: the values at its two ends, and the moments that are labelled.

    label: what the axis counts, with its unit.  named: value of a tick -> its text.
    """

    first: float
    last: float
    ticks: tuple[float, ...]
    label: str
    named: Callable[[float], str]
    log: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1.

        A value beyond an end of the axis has the position of that end.
        """
        low, high, at = self.first, self.last, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(at, low))
        if high == low:
            return 0.0
        return min(1.0, max(0.0, (at - low) / (high - low)))


def linear(most: float, label: str) -> Axis:
    """Return an axis from 0 to a round number that is not below *most*."""
    step = _round_up((most or 1.0) / _TICKS)
    count = max(1, math.ceil((most or 1.0) / step - 1e-9))
    ticks = tuple(step * place for place in range(count + 1))
    return Axis(0.0, ticks[-1], ticks, label, number)


def logarithmic(least: float, most: float, label: str) -> Axis:
    """Return an axis from one power of ten to another."""
    low = math.floor(math.log10(least))
    high = max(low + 1, math.ceil(math.log10(most) - 1e-9))
    ticks = tuple(10.0**power for power in range(low, high + 1))
    return Axis(ticks[0], ticks[-1], ticks, label, number, log=True)


def before_the_end(seconds: float, label: str) -> Axis:
    """Return an axis of time that ends at 0, *seconds* after its beginning."""
    step = _round_up(seconds / 8)
    count = math.floor(seconds / step + 1e-9)
    ticks = tuple(step * place for place in range(count, -1, -1))
    return Axis(seconds, 0.0, ticks, label, _format_time_before_end)


def _format_time_before_end(value: float) -> str:
    return "0" if not value else f"-{number(value)}"


def number(value: float) -> str:
    """Return a figure for a tick: short, with separators, without an exponent."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _round_up(value: float) -> float:
    """Return 1, 2, 5 or 10 times a power of ten, not below *value*."""
    power = 10.0 ** math.floor(math.log10(value))
    step = next(step for step in _ROUND_STEPS if step * power >= value * (1 - 1e-9))
    return step * power


class Plot:
    """One chart; parts() are drawn in the order in which they were added."""

    def __init__(self, name: str, about: str, x: Axis, y: Axis, height: int) -> None:
        """Begin the chart *name*; *about* describes it to readers who cannot see it."""
        self._name, self._about = name, about
        self._x, self._y, self._height = x, y, height
        self._parts: list[Markup] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of a point in the drawing; y grows downwards."""
        wide, high = WIDTH - _LEFT - _RIGHT, self._height - _TOP - _BOTTOM
        across, up = self._x.share(x), self._y.share(y)
        return round(_LEFT + wide * across, 1), round(_TOP + high * (1 - up), 1)

    def bar(
        self, from_x: float, to_x: float, low: float, high: float, kind: str, title: str
    ) -> None:
        """Add a bar; a bar that is not empty is at least two pixels high."""
        left, top = self.at(from_x, high)
        right, bottom = self.at(to_x, low)
        if high > low and bottom - top < 2:
            top = bottom - 2
        gap = 1 if right - left > 4 else 0
        self._parts.append(
            Markup(
                '<rect class="{}" x="{}" y="{}" width="{:.1f}" height="{:.1f}">'
                "<title>{}</title></rect>"
            ).format(
                *(kind, left, top, max(0.5, right - left - gap), bottom - top, title)
            )
        )

    def line(self, points: Iterable[tuple[float, float | None]], kind: str) -> None:
        """Add a line, which ends where a value is None and begins again after it.

        A value without neighbours is a dot: the round end of a line of no length.
        """
        for points_between_gaps in _split_at_gaps(points):
            ends = (
                points_between_gaps * 2
                if len(points_between_gaps) == 1
                else points_between_gaps
            )
            path = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in ends))
            self._parts.append(
                Markup('<polyline class="line {}" points="{}"/>').format(kind, path)
            )

    def level(self, y: float, text: str) -> None:
        """Add a dashed line across, with a text on it."""
        left, height = self.at(self._x.first, y)
        right, _ = self.at(self._x.last, y)
        self._parts.append(
            Markup(
                '<line class="level" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text class="on-level" x="{}" y="{}">{}</text>'
            ).format(left, right, height, height, right - 4, height - 4, text)
        )

    def mark(self, x: float, y: float, kind: str, title: str) -> None:
        """Add a point: a disc, or a cross if something is wrong."""
        across, down = self.at(x, y)
        shape = 'M{0} {1}m-4 -4l8 8m0 -8l-8 8" class="cross {2}'
        if kind == "good":
            shape = 'M{0} {1}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0" class="{2}'
        self._parts.append(
            Markup('<path d="' + shape + '"><title>{3}</title></path>').format(
                across, down, kind, title
            )
        )

    def drawn(self) -> Markup:
        """Return the chart."""
        return Markup(
            '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">'
            "<title>{}</title>{}{}</svg>"
        ).format(
            *(WIDTH, self._height, self._about, self._name),
            *(Markup("").join(self._axes()), Markup("").join(self._parts)),
        )

    def _axes(self) -> Iterator[Markup]:
        bottom = self._height - _BOTTOM
        for tick in self._y.ticks:
            _, y = self.at(self._x.first, tick)
            yield Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text class="tick y" x="{}" y="{}">{}</text>'
            ).format(
                *(_LEFT, WIDTH - _RIGHT, y, y, _LEFT - 6, y + 4, self._y.named(tick))
            )
        for tick in self._x.ticks:
            x, _ = self.at(tick, self._y.first)
            yield Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text class="tick x" x="{}" y="{}">{}</text>'
            ).format(x, x, bottom, bottom + 4, x, bottom + 19, self._x.named(tick))
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        yield Markup(
            '<text class="axis" x="{}" y="{}">{}</text>'
            '<text class="axis y" transform="translate(13 {}) rotate(-90)">{}</text>'
        ).format(
            *(middle, self._height - 3, self._x.label),
            *((_TOP + bottom) / 2, self._y.label),
        )


def _split_at_gaps(
    points: Iterable[tuple[float, float | None]],
) -> Iterator[list[tuple[float, float]]]:
    """Yield each sequence of points that have a value, without a gap between them."""
    points_between_gaps: list[tuple[float, float]] = []
    for x, y in points:
        if y is not None:
            points_between_gaps.append((x, y))
        elif points_between_gaps:
            yield points_between_gaps
            points_between_gaps = []
    if points_between_gaps:
        yield points_between_gaps
