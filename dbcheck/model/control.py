"""The control: a cycle whose sessions are acked too early, so that it must lose.

If it does not, the cut does not reach what is at risk or dbcheck does not see what is
gone, and a PASS of the same rig proves nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ControlOutcome(enum.Enum):
    """What a control showed; the value is what is stored."""

    LOST = "lost"  # a tail, as expected
    BLIND = "blind"  # it was weak and a fair test, and lost nothing
    UNFAIR = "unfair"  # it was not weak, or not a fair test
    FAILED = "failed"  # it lost what no weak session can lose


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """What a control showed, for the cycles after it; none comes after one that failed.

    reason: the first of its reasons.
    """

    run_id: str
    outcome: ControlOutcome
    reason: str
