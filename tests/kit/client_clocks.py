"""What the clocks of a client show at some moments."""

from __future__ import annotations

from dbcheck.model.host import ClientClocks


def clocks(moment_us: int, *, set_us: int = 0, boot: str = "c1") -> ClientClocks:
    """Return the client's at a moment of its monotonic clock.

    set_us: by how much its wall clock was set forward before it.
    """
    wall_us = 1_700_000_000_000_000 + moment_us + set_us
    return ClientClocks(boot, moment_us, 10**9 + moment_us, wall_us)


LOADED = clocks(1), clocks(20 * 10**6)  # as a load began, and when it was over
LATER = clocks(90 * 10**6)
