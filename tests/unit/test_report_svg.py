"""Charts of the pages: what a line is where values are missing."""

from __future__ import annotations

import re

from dbcheck.report.html.svg import Plot, linear


def lines(*values: float | None) -> list[int]:
    """Return how many points each line through the values has."""
    plot = Plot("name", "about", linear(9.0, "s"), linear(9.0, "ms"), 200)
    plot.line(((float(x), y) for x, y in enumerate(values)), "first")
    drawn = str(plot.drawn())
    return [len(found.split()) for found in re.findall(r'points="([^"]*)"', drawn)]


def test_a_line_ends_where_a_value_is_missing() -> None:
    assert lines(1.0, 2.0, None, 3.0, 4.0, 5.0) == [2, 3]


def test_a_value_without_neighbours_is_drawn_as_a_dot() -> None:
    assert lines(None, 1.0, None, None, 2.0) == [2, 2]
    assert lines(None, None) == []
