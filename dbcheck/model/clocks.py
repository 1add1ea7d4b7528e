"""The clocks of a client at one moment, as its records hold them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientClocks:
    """What the clocks of a client show at one moment, in microseconds.

    boot: names the machine's boot; clocks of two boots cannot be compared.
    clock_us: CLOCK_MONOTONIC, which stands still while the machine is suspended.
    boot_us: CLOCK_BOOTTIME, which does not (clock_gettime(2)).
    wall_us: the time of day, since the epoch; it may be set.
    """

    boot: str
    clock_us: int
    boot_us: int
    wall_us: int
