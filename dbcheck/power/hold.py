"""Waiting with a switch: until it has switched, and until enough time without power."""

from __future__ import annotations

import time
from collections.abc import Callable

from dbcheck.errors import PowerError
from dbcheck.ports import PowerState

POLL_S = 0.5


class Hold:
    """The time without power that a cut must last.

    Capacitors of supplies and drives hold a charge for seconds, and a cache that
    is back before they are empty was never without power.
    """

    def __init__(self, off_s: float) -> None:
        """Hold for *off_s* seconds at least."""
        self.off_s = off_s
        self._off_since_s: float | None = None

    def begin(self) -> None:
        """Note that the power is off now."""
        self._off_since_s = time.monotonic()

    def wait(self) -> None:
        """Wait until the time is over; at once if no cut was noted."""
        since_s, self._off_since_s = self._off_since_s, None
        if since_s is not None:
            time.sleep(max(0.0, since_s + self.off_s - time.monotonic()))


def wait_for(
    wanted: PowerState, read: Callable[[], PowerState], timeout_s: float
) -> None:
    """Return once read() is *wanted*; raise PowerError after *timeout_s* seconds."""
    deadline = time.monotonic() + timeout_s
    while (state := read()) is not wanted:
        if time.monotonic() > deadline:
            raise PowerError(
                f"the power is still {state.value} after {timeout_s:g} s",
                hint="Look at the switch before you trust this cycle.",
            )
        time.sleep(POLL_S)
