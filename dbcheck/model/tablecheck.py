"""What the server's own check of dbcheck's tables showed."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class CheckOutcome(enum.Enum):
    """How it ended."""

    SOUND = "sound"
    INDEX = "index"  # an index disagrees with its table, or its pages with each other
    TABLE = "table"  # something is wrong with the table itself
    BROKE_OFF = "broke off"  # the connection broke meanwhile
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class TableCheck:
    """One check of all the tables of a plan.

    reason: what was checked, what it complains of or why it was not done, for a person.
    """

    outcome: CheckOutcome
    reason: str
