"""Progress reports of a cycle; each docstring is the contract."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dbcheck.model.flushes import UnderLoad


class Unit(enum.Enum):
    """Unit of a Progress; the value is its name.

    CUTS: the cuts of a campaign; each has phases of its own.
    """

    CUTS = "cuts"
    FINDINGS = "findings"
    ROWS = "rows"
    SECONDS = "s"
    STATES = "states"


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a phase, or of a campaign.

    what:  what it is at, e.g. the name of a table.
    done:  of *total*, which is None if it is not known; total may be too low.
    """

    what: str
    done: float
    total: float | None
    unit: Unit


Reporter = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """Drop what is reported."""


class Phase(enum.Enum):
    """Phase of a cycle, or of what runs cycles; the value is its title."""

    AUDIT = "audit"
    CAMPAIGN = "so far"
    CHECK = "check"
    CHECKPOINT = "checkpoint"
    CONTROL = "control"
    COPY = "copy"
    CUT = "cut"
    CYCLE = "cycle"
    EXPLORE = "crash states"
    FAULT = "fault"
    FILL = "fill"
    GONE = "server gone"
    INTERRUPT = "interrupted"
    JUDGE = "judge"
    LAB = "lab"
    LOAD = "load"
    PLAN = "plan"
    POWER = "power"
    PREFLIGHT = "preflight"
    READ = "read survivors"
    READ_AGAIN = "read again"
    READERS = "readers"
    REBUILD = "rebuild"
    REDUCE = "reduce"
    RESTART = "restart"
    RESTORE = "restore"
    STOPPED = "stopped"
    WAITING = "waiting"
    WARM = "warmed"


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """The load at one moment, for a live view.

    seconds:    since the load began.
    acked:      acks received; witnessed: of these, confirmed by the witness.
    rate:       acks per second over the last second.
    latency_ms: percentile ("p50", "p99", "max") -> commit latency, milliseconds.
    recent_ms:  the same over the last second; empty if nothing was acked in it.
    sessions:   connected now.
    behind_s:   how long the oldest ack has waited for the witness.
    drives:     what the drives of the host that takes the load did a moment ago, None
                if they are not counted.
    cut_in_s:   until the cut is due, 0 once it is; None if none is to come.
    """

    seconds: float
    acked: int
    witnessed: int
    rate: float
    latency_ms: Mapping[str, float]
    sessions: int
    behind_s: float = 0.0
    drives: UnderLoad | None = None
    recent_ms: Mapping[str, float] = field(default_factory=dict)
    cut_in_s: float | None = None


class Listener(Protocol):
    """Receives the progress of a cycle; must return at once and never raise."""

    def phase(self, phase: Phase, detail: str) -> None:
        """Note that a phase began, or how it goes."""

    def load(self, status: LoadStatus) -> None:
        """Report the load's status, about four times a second."""

    def progress(self, progress: Progress) -> None:
        """Report the phase's progress, as often as something is known."""
