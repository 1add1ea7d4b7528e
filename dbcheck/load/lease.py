"""How long sessions on another machine may go on without news of the client.

The client answers what such a group reports, and each answer names the moment, on the
group's own clock, at which that report was made.  The lease runs from that moment, and
not from when the answer came: an answer that the network held back renews nothing.
"""

from __future__ import annotations

from dbcheck.base.system import now_us

LEASE_S = 10.0  # a scheduler under load, or a paused one, answers later than a server
_ENDLESS = 2**62


class Lease:
    """Until when sessions may send, on the clock of their machine; from any thread."""

    def __init__(self, *, ends: bool = False) -> None:
        """Let it end LEASE_S from now, or never."""
        self.until_us = now_us() + int(LEASE_S * 1e6) if ends else _ENDLESS

    def renew(self, heard_us: int) -> None:
        """Note that the client has what was reported at *heard_us*."""
        self.until_us = max(self.until_us, heard_us + int(LEASE_S * 1e6))

    def is_over(self) -> bool:
        """Say whether nothing may be sent any more."""
        return now_us() > self.until_us
