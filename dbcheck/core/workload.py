"""What the sessions of a load do, and when its cut comes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dbcheck.core.history import SESSION_MAX
from dbcheck.core.plans.kinds import PlanKind
from dbcheck.errors import UsageError

PAYLOAD_BYTES_MAX = 128 << 10
SESSIONS_MAX = 4096
PROCESSES_MAX = 64
RATE_MAX = 10_000_000.0
RAMP_S_MAX = 86_400.0
assert SESSIONS_MAX < SESSION_MAX  # session numbers are left for reconnecting clients


@dataclass(frozen=True, slots=True)
class Workload:
    """What the sessions do and when the cut comes.

    plan:          the operations, the tables and what they must hold.
    sessions:      client connections, 1..4096.
    payload_bytes: sizes to draw from, each 1..131072; empty if classic.
    cut_after_s:   earliest and latest moment of the cut, seconds of load.
    rate:          commits/s of all sessions together, 0 for as many as can be.
    ramp_s:        seconds within which the sessions begin, one after the other.
    processes:     of the client that share the sessions, at most one for each.
    """

    name: str
    description: str
    plan: PlanKind
    sessions: int
    payload_bytes: tuple[int, ...]
    cut_after_s: tuple[float, float]
    rate: float = 0.0
    ramp_s: float = 0.0
    processes: int = 1

    def with_sessions(self, sessions: int | None) -> Workload:
        """Return the workload with another number of sessions, if one is given."""
        if sessions is None:
            return self
        if not 1 <= sessions <= SESSIONS_MAX:
            raise UsageError(
                f"{sessions} sessions cannot be run",
                hint=f"Give a number from 1 to {SESSIONS_MAX}.",
            )
        return replace(self, sessions=sessions, processes=min(self.processes, sessions))

    def with_options(
        self, *, rate: float | None, ramp_s: float | None, processes: int | None
    ) -> Workload:
        """Return the workload with what is given in the place of its own."""
        wanted = self.processes if processes is None else processes
        return replace(
            self,
            rate=self.rate if rate is None else rate,
            ramp_s=self.ramp_s if ramp_s is None else ramp_s,
            processes=min(wanted, self.sessions),
        )
