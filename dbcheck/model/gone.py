"""How a load saw its server end."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Gone(enum.Enum):
    """What a load saw of the end of its server; the value is what is stored."""

    NEVER = ""  # it kept answering
    BROKEN = "broken"  # every connection broke
    SILENT = "silent"  # no reply came any more
    STALLED = "stalled"  # it was silent, then answered again
    UNSEEN = "unseen"  # the client stopped watching


@dataclass(frozen=True, slots=True)
class Replaced:
    """Sessions of the load that broke and that others replaced.

    sessions: how many.  first_us, last_us: when the first and the last of them broke,
    on the client's monotonic clock; 0 if none did.
    """

    sessions: int = 0
    first_us: int = 0
    last_us: int = 0

    def joined(self, other: Replaced) -> Replaced:
        """Return these and the *other* ones."""
        if not self.sessions or not other.sessions:
            return self if self.sessions else other
        return Replaced(
            self.sessions + other.sessions,
            min(self.first_us, other.first_us),
            max(self.last_us, other.last_us),
        )

    def moved(self, by_us: int) -> Replaced:
        """Return the same by another clock, which shows *by_us* more."""
        if not self.sessions:
            return self
        return Replaced(self.sessions, self.first_us + by_us, self.last_us + by_us)
