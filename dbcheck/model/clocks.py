"""Tells how the client's wall clock differs from those of the witness and the servers.

A run has its date from the client's clock: a page shows it, and the runs of a folder
are sorted by it.  Nothing is judged by it, so a difference is a note and no evidence.
Which of the clocks is wrong is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.records import Manifest

_ALLOWED_US = 60 * 10**6  # the dates of reports are given to the minute
_MOST_US = 1 << 53  # what is stored of a clock that is wrong beyond any date
_SET_IT = (
    "The run is dated by the client's clock: set the one that is wrong (timedatectl"
    " shows whether NTP keeps it), and run again if the date matters"
)


def measure_ahead(clock_us: int, asked_us: int, answered_us: int) -> int:
    """Return by how much another clock is ahead of the client's, below 0 if behind.

    The least difference, in microseconds, that explains what was read: 0 if the clocks
    may agree.
    clock_us: the other clock.  asked_us, answered_us: the client's, before and after;
    it may have been set back meanwhile.
    """
    least_us, most_us = sorted((asked_us, answered_us))
    if clock_us > most_us:
        return min(clock_us - most_us, _MOST_US)
    if clock_us < least_us:
        return max(clock_us - least_us, -_MOST_US)
    return 0


def describe_clocks(manifest: Manifest) -> str:
    """Return which clocks differ from the client's by more than a minute.

    With what to do; "" if none is known to differ.
    """
    found = ", ".join(
        f"the clock of {whose} is {_format_span(ahead_us)} the client's"
        for whose, ahead_us in _list_clocks(manifest)
        if abs(ahead_us) > _ALLOWED_US
    )
    return f"{found}. {_SET_IT}" if found else ""


def _list_clocks(manifest: Manifest) -> Iterator[tuple[str, int]]:
    yield "the witness", manifest.witness_ahead_us
    for name, node in manifest.nodes.items():
        yield "the server" if name == ONLY_NODE else name, node.ahead_us


def _format_span(ahead_us: int) -> str:
    """Return the difference to the minute, as "2 h 5 min ahead of"."""
    hours, minutes = divmod(round(abs(ahead_us) / 60e6), 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"))
    span = " ".join(f"{number:,} {unit}" for number, unit in parts if number)
    return f"{span} {'ahead of' if ahead_us > 0 else 'behind'}"
