"""Waiting with a switch: until it has switched, and until enough time without power."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.model.cut import PowerState

POLL_S = 0.5
_LOOK_S = 0.1  # how long an interrupt may have to wait


class OffTimer:
    """The time without power that a cut must last.

    Capacitors of supplies and drives hold a charge for seconds, and a cache that
    is back before they are empty was never without power.
    """

    def __init__(self, off_s: float) -> None:
        """Measure nothing yet; *off_s*: seconds, at least."""
        self.off_s = off_s
        self._off_since_s: float | None = None

    def begin(self) -> None:
        """Note that the power is off now."""
        self._off_since_s = time.monotonic()

    def wait(self, read: Callable[[], PowerState]) -> float | None:
        """Wait until the time is over; return how long the power was off, in seconds.

        read: returns the power's state.  Where no cut was noted, as in another process
        than the one that cut, the time begins when that is first seen off; without
        that there is nothing to wait for.  None if the power may have been on.
        An interrupt that comes meanwhile, held back by the caller, ends the time.
        """
        before = interrupt.so_far()
        since_s, self._off_since_s = self._off_since_s, None
        if since_s is None and _seen(read) is PowerState.OFF:
            since_s = time.monotonic()
        if since_s is None:
            return None
        while (off_s := time.monotonic() - since_s) < self.off_s:
            if interrupt.so_far() > before:
                break
            time.sleep(min(_LOOK_S, self.off_s - off_s))
        return off_s if _seen(read) in (PowerState.OFF, PowerState.UNKNOWN) else None


def _seen(read: Callable[[], PowerState]) -> PowerState | None:
    """Return read(), None if it fails: the power must come back all the same.

    A switch that cannot read it returns UNKNOWN.
    """
    with contextlib.suppress(PowerError):
        return read()
    return None


def wait_for(
    wanted: PowerState, read: Callable[[], PowerState], timeout_s: float
) -> None:
    """Return once read() is *wanted*; raise PowerError after *timeout_s* seconds."""
    deadline = time.monotonic() + timeout_s
    while (state := read()) is not wanted:
        if time.monotonic() > deadline:
            raise PowerError(
                f"the power is still {state.value} after {timeout_s:g} s",
                id=ErrorId.POWER_STATE_NOT_REACHED,
                hint="Check the switch; do not trust this cycle.",
            )
        time.sleep(POLL_S)
