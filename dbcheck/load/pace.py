"""Grants a load's sessions their operations: at its rate, and while a lease lasts.

Under a rate the operations are spread evenly, and not sent in bursts: a load that was
held up, as by the witness, makes up for a second of it at most.

Sessions on another machine have a lease: without news of the client they go on only
until it ends.  The client answers each report of such a group, and the answer names the
moment, on the group's own clock, at which the report was made.  The lease runs from
that moment, not from the answer's arrival, so an answer that the network held back
renews nothing.
"""

from __future__ import annotations

from dbcheck.base.system import now_us

_CATCH_UP_US = 1_000_000  # a load that was held up makes up for no more than this
LEASE_S = 10.0  # a scheduler under load, or a paused one, answers later than a server
_ENDLESS = 2**62


class Pace:
    """Grants operations at an even rate from *began_us* on; rate 0 grants all.

    rate: operations per second.  Moments are on the client's monotonic clock.
    """

    def __init__(self, rate: float, began_us: int) -> None:
        self._interval_us = 1e6 / rate if rate else 0.0
        self._due_us = float(began_us)

    def granted(self, now_us: int, wanted: int) -> int:
        """Return the number of *wanted* operations to send now, and count them."""
        if not self._interval_us:
            return wanted
        self._due_us = max(self._due_us, now_us - _CATCH_UP_US)
        if self._due_us > now_us:
            return 0
        due = int((now_us - self._due_us) / self._interval_us) + 1
        granted = min(wanted, due)
        self._due_us += granted * self._interval_us
        return granted

    def wait_s(self, now_us: int) -> float:
        """Return the seconds until the next operation is granted."""
        return max(0.0, (self._due_us - now_us) / 1e6) if self._interval_us else 0.0


class Lease:
    """The time until which sessions may send, on their machine's clock; thread-safe."""

    def __init__(self, *, ends: bool = False) -> None:
        """Let the lease end LEASE_S from now, or never."""
        self.until_us = now_us() + int(LEASE_S * 1e6) if ends else _ENDLESS

    def renew(self, heard_us: int) -> None:
        """Note that the client has the report that was made at *heard_us*."""
        self.until_us = max(self.until_us, heard_us + int(LEASE_S * 1e6))

    def is_over(self) -> bool:
        """Return True if nothing may be sent any more."""
        return now_us() > self.until_us
