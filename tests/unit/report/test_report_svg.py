"""Charts of the pages: what is drawn of which values, and what is said of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dbcheck.report.html.runcharts import figures
from dbcheck.report.html.svg import Plot, linear
from dbcheck.rows.timeline import Bin, Instant, Timeline
from tests.kit.subjects import detail


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


def test_the_end_of_a_long_load_has_a_chart_of_its_own() -> None:
    moments = tuple(Instant(n, n - 1, 50, n == 1, 1.0, 2.0) for n in range(60, 0, -1))
    near = tuple(Bin(n / 20, (n - 1) / 20, 3, n == 1) for n in range(40, 0, -1))
    timeline = Timeline(moments, True, near, 0.0123)
    drawn = figures(replace(detail(), timeline=timeline, keys=None))
    whole, closer, *_ = drawn
    assert (whole.title, closer.title) == (
        "Commits per second",
        "Commits per second in the last 2 s",
    )
    assert whole.note.endswith("lost commit was acked 0.012 s before the power cut.")
    assert closer.note == "Each bar stands for 0.05 s."
    assert closer.drawing.count('class="kept"') == 40
    assert closer.drawing.count('class="lost"') == 1
    about = "in the last 2 s, 60 at most; 1 commit was lost."
    assert f'aria-label="Commits per second {about}"' in closer.drawing
    assert "seconds before the power cut</text>" in closer.drawing


@pytest.mark.parametrize(
    ("compared", "said"),
    [(True, "all acked and kept"), (False, "all acked; whether kept, unknown")],
)
def test_a_chart_claims_no_more_than_was_compared(compared: bool, said: str) -> None:
    moments = (Instant(1.0, 0.0, 5, 0, None, None),)
    timeline = Timeline(moments, True, (), None)
    run = replace(detail(), timeline=timeline, compared=compared)
    whole, *_ = figures(run)
    assert f'aria-label="Commits per second, 5 at most; {said}."' in whole.drawing
