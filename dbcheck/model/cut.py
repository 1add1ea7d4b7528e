"""What a power switch reports of its state, and of a cut."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class PowerState(enum.Enum):
    """The state that the switch reports; UNKNOWN if it cannot read one."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class SwitchKind(enum.Enum):
    """The kinds of power switches; the value names one in inventories and runs."""

    MANUAL = "manual"
    EXEC = "exec"
    FENCE = "fence"
    SYSRQ = "sysrq"
    LAB = "lab"


class PowerScope(enum.Enum):
    """What a switch takes the power from; the value is its name in inventories."""

    HOST = "host"  # the host, with all that is in it
    DRIVE = "drive"  # its drives alone: the host keeps running


class Rung(enum.Enum):
    """What a lab's cut takes; the value is its name in specs and runs."""

    DRIVE = "drive"  # the power of its virtual drive, and all above it
    PROCESS = "process"  # the server's process alone


@dataclass(frozen=True, slots=True)
class Cut:
    """When the power went, on the client's monotonic clock in microseconds.

    asked_us: when the switch was asked to cut; None if a person cuts, at any time.
    exact_us: when the power was gone, if the switch knows.
    report:   what the switch reports (counters, output); off_s: for how many
              seconds it is to keep the power off, if it does; off_seen: it reads
              from its device that the power is off.
    """

    asked_us: int | None
    exact_us: int | None
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def off_seen(self) -> bool:
        """Whether the switch reads from its device that the power is off."""
        return self.report.get("off_seen") is True

    @property
    def by_hand(self) -> bool:
        """Whether a human made the cut, at a moment of theirs."""
        return self.asked_us is None and self.exact_us is None
