"""The clock that all moments of this machine's records are on."""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the monotonic clock of this machine, in microseconds.

    It does not step, and all processes of one boot share it.
    """
    return time.monotonic_ns() // 1000
