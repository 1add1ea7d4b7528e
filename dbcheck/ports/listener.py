"""Progress reports of a cycle; each docstring is the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """The load at one moment, for a live view.

    seconds:    since the load began.
    acked:      acks received; witnessed: of these, confirmed by the witness.
    rate:       acks per second over the last second.
    latency_ms: percentile ("p50", "p99", "max") -> commit latency, milliseconds.
    sessions:   connected now.
    behind_s:   how long the oldest ack has waited for the witness.
    """

    seconds: float
    acked: int
    witnessed: int
    rate: float
    latency_ms: Mapping[str, float]
    sessions: int
    behind_s: float = 0.0


class Listener(Protocol):
    """Receives the progress of a cycle; must return at once and never raise."""

    def phase(self, name: str, detail: str) -> None:
        """Note that a phase began, by its name in report.progress."""

    def load(self, status: LoadStatus) -> None:
        """Note how the load goes, about four times a second."""
