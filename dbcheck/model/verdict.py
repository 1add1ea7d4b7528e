"""The verdicts on a cycle."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Verdict(enum.Enum):
    """The outcome of a cycle."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class CycleVerdict(enum.Enum):
    """The result of a cycle of a campaign: its verdict, or an error."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, None if there is none."""
        return None if self is CycleVerdict.ERROR else Verdict(self.value)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of *verdicts*: FAIL, then INCONCLUSIVE, then PASS."""
    order = (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)
    return max(verdicts, key=order.index)
