"""How far something is that takes long."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass


class Unit(enum.Enum):
    """What a Progress counts; the value is its name.

    CUTS: those of a campaign, of which each has phases of its own.
    """

    CUTS = "cuts"
    FINDINGS = "findings"
    ROWS = "rows"
    SECONDS = "s"
    STATES = "states"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase, or a campaign, is.

    what:  what it is at, e.g. the name of a table.
    done:  of *total*, which is None if it is not known; total may be too low.
    """

    what: str
    done: float
    total: float | None
    unit: Unit


Reporter = Callable[[Progress], None]


def unreported(progress: Progress) -> None:
    """Drop what is reported."""
