"""What is known of each target of a fleet while its campaigns run."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.Enum):
    """How far a campaign of a fleet is; the value is what tables show."""

    WAITING = "waiting"  # for a worker
    RUNNING = "running"
    ENDED = "ended"
    LOST = "worker lost"  # what it was at is settled by --resume


@dataclass(frozen=True, slots=True)
class RigStatus:
    """One campaign of a fleet at one moment.

    cuts, losses: that count so far, of *planned* cuts.
    doing:   what the campaign is at.
    rate:    acks a second, None if no load runs.
    silent_s: since the worker was last heard of; None if no worker has it.
    error:   why the campaign ended before it was finished, "" if it did not.
    """

    name: str
    state: State
    cuts: int
    losses: int
    planned: int
    doing: str = ""
    rate: float | None = None
    silent_s: float | None = None
    error: str = ""
