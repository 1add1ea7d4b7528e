"""Conditions among the rows of a plan, checked by the server's own arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dbcheck.rows.loss import LossKind

CONDITIONS_OF_ORDERS = "conditions_orders"  # in sql/FAMILY/

# TPC-C 5.11, 3.3.2.1 to 3.3.2.4: what must be equal, and what the place is.
_TEXTS = {
    1: ("the sum of a warehouse and that of its districts", "warehouse"),
    2: ("the district's next number less one and its newest order", "district"),
    3: ("the span of the district's new orders and their count", "district"),
    4: ("the lines that an order should have and those it has", "operation"),
}


class Broken(NamedTuple):
    """A condition that does not hold.

    condition: its number, as its statement in sql/ has it.
    session, place: whose rows, and which of them; see that statement.
    found, expected: the two numbers that had to be equal.
    """

    condition: int
    session: int
    place: int
    found: int
    expected: int

    def __str__(self) -> str:
        text, place = _TEXTS[self.condition]
        return (
            f"condition {self.condition}, session {self.session}, {place} {self.place}:"
            f" {text} are {self.found:,} and {self.expected:,}"
        )


@dataclass(frozen=True, slots=True)
class ConditionCheck:
    """What the server answered when it was asked which conditions do not hold.

    broken:   those that do not, the first hundred.
    not_done: why it could not be asked, "" if it was.
    """

    broken: tuple[Broken, ...] = ()
    not_done: str = ""

    @property
    def reason(self) -> str:
        """The first of them, and how many more there are; "" if there are none."""
        first, *others = [*map(str, self.broken)] or [""]
        return f"{first}; and {len(others)} more" if others else first

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        count = len(self.broken)
        return {LossKind.INCONSISTENT.value: count} if count else {}
