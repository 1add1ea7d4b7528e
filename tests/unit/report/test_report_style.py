"""The colours of a terminal's report can be read on dark and on light terminals."""

from __future__ import annotations

import pytest
from rich.color import Color

from dbcheck.report.terminal import BAD, DOUBTFUL, GOOD, NOTED

CONTRAST_MIN = 3.0  # WCAG 2.2, success criterion 1.4.11
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance, 0 to 1, as WCAG 2.2 defines it."""
    parts = [part / 255 for part in colour]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """Return the contrast ratio of two colours, 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("name", [GOOD, DOUBTFUL, BAD, NOTED])
def test_a_colour_can_be_read_on_black_and_on_white(name: str) -> None:
    colour = Color.parse(name).get_truecolor()
    assert contrast(colour, BLACK) >= CONTRAST_MIN
    assert contrast(colour, WHITE) >= CONTRAST_MIN


def test_a_colour_for_one_kind_of_terminal_alone_is_found() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    yellow = Color.parse("yellow1").get_truecolor()
    assert contrast(yellow, WHITE) < CONTRAST_MIN
