"""How long after a moment of its load a client saw something, by clocks that may step.

Its wall clock may be set meanwhile, as by NTP once a network is back.  CLOCK_BOOTTIME
is never set, and counts while the machine is suspended; it begins anew with each boot,
and stands still with a virtual machine that is paused, as does the wall clock until it
is set forward.  So what it shows passed at least, and more may have passed where the
wall clock shows more.  Of another machine, or of another boot, nothing is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dbcheck.model.host import ClientClocks
from dbcheck.model.records import LoadRecord

_UNKNOWN = (
    "the client's clocks at the load are not on record, or were of another boot or"
    " machine"
)
_UNSURE = "the client's clock was set meanwhile, or the client stood still"


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Between what limits a time lies, in seconds; infinite ones say nothing."""

    least_s: float = -math.inf
    most_s: float = math.inf

    @property
    def known(self) -> bool:
        """Whether anything is known of it."""
        return math.isfinite(self.least_s)

    @property
    def doubt(self) -> str:
        """Why it is not known better."""
        return _UNSURE if self.known else _UNKNOWN

    def less(self, seconds: float) -> Elapsed:
        """Return a time that is shorter by so much."""
        return Elapsed(self.least_s - seconds, self.most_s - seconds)

    def __str__(self) -> str:
        """Return it in words."""
        least, most = f"{self.least_s:.1f}", f"{self.most_s:.1f}"
        return f"{least} s" if least == most else f"{least} to {most} s"


UNKNOWN = Elapsed()


def elapsed(load: LoadRecord, moment_us: int, now: ClientClocks | None) -> Elapsed:
    """Return how long after a moment of *load* the client's clocks showed *now*.

    moment_us: on the clock of the load, and not after its end.  The machine may have
    been suspended before or after it while the load ran: the first is no part of the
    time, the second is.
    """
    if load.clocks is None or now is None:
        return UNKNOWN
    began, ended = load.clocks
    if {began.boot, ended.boot} != {now.boot}:
        return UNKNOWN
    least_us = now.boot_us - ended.boot_us + ended.clock_us - moment_us
    passed_us = max(now.boot_us - began.boot_us, now.wall_us - began.wall_us)
    most_us = max(least_us, passed_us + began.clock_us - moment_us)
    return Elapsed(least_us / 1e6, most_us / 1e6)
