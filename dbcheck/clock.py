"""The clock that all moments of this machine's records are on, and its others."""

from __future__ import annotations

import time

_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def now_us() -> int:
    """Return the monotonic clock of this machine, in microseconds.

    It does not step, and all processes of one boot share it.
    """
    return time.monotonic_ns() // 1000


def clocks_us() -> tuple[int, int, int]:
    """Return this machine's monotonic, boot-time and wall clocks, in microseconds.

    Where the system has no CLOCK_BOOTTIME (clock_gettime(2)), the monotonic clock
    stands in its place.
    """
    monotonic_us = time.monotonic_ns() // 1000
    boot_us = time.clock_gettime_ns(_BOOT) // 1000 if _BOOT else monotonic_us
    return monotonic_us, boot_us, time.time_ns() // 1000
