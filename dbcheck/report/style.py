"""The colours of a terminal's report, which never say anything that words do not.

Of the 256 colours of xterm those that have a contrast of at least 3:1 to black and to
white (WCAG 2.2, success criterion 1.4.11); rich takes the nearest where a terminal has
fewer.
"""

from __future__ import annotations

from dbcheck.model.verdict import Verdict

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


def badge(colour: str) -> str:
    """Return the style of a word that stands for a result."""
    return f"bold white on {colour}"


BADGES = {verdict: badge(colour) for verdict, colour in COLOURS.items()}
