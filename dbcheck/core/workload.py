"""What the sessions of a load do, and when its cut comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from dbcheck.core.chores import ChoreKind
from dbcheck.core.history import SESSION_MAX
from dbcheck.core.mix import Mix
from dbcheck.core.plans.kinds import PlanKind
from dbcheck.errors import UsageError
from dbcheck.limits import (
    CUT_AFTER_S_MAX,
    PAYLOAD_BYTES_MAX,
    PROCESSES_MAX,
    RAMP_S_MAX,
    RATE_MAX,
    READERS_MAX,
    ROWS_BEFORE_MAX,
    SESSIONS_MAX,
)

assert SESSIONS_MAX < SESSION_MAX  # session numbers are left for reconnecting clients

_Moment = Annotated[float, Meta(gt=0, le=CUT_AFTER_S_MAX)]


@dataclass(frozen=True, slots=True)
class Workload:
    """What the sessions do and when the cut comes.

    plan:          the operations, the tables and what they must hold.
    sessions:      client connections.
    payload_bytes: bytes to draw from; empty if classic.
    cut_after_s:   earliest and latest moment of the cut, seconds of load.
    rate:          commits/s of all sessions together, 0 for as many as can be.
    ramp_s:        seconds within which the sessions begin, one after the other.
    processes:     of the client that share the sessions, at most one for each.
    readers:       connections that read the newest rows meanwhile, see core.seen.
    rows_before:   rows that each table holds before the load, at least.
    operations:    how often each kind comes, None if the plan has only one.
    housekeeping:  what one more session does beside them, see core.chores.
    description, finds, cost: for people: what it does, which losses it can find that
                   others cannot, what it takes.
    """

    name: str
    description: str
    plan: PlanKind
    sessions: Annotated[int, Meta(ge=1, le=SESSIONS_MAX)] = 1
    payload_bytes: tuple[Annotated[int, Meta(ge=1, le=PAYLOAD_BYTES_MAX)], ...] = ()
    cut_after_s: tuple[_Moment, _Moment] = (3.0, 6.0)
    rate: Annotated[float, Meta(ge=0, le=RATE_MAX)] = 0.0
    ramp_s: Annotated[float, Meta(ge=0, le=RAMP_S_MAX)] = 0.0
    processes: Annotated[int, Meta(ge=1, le=PROCESSES_MAX)] = 1
    readers: Annotated[int, Meta(ge=0, le=READERS_MAX)] = 0
    rows_before: Annotated[int, Meta(ge=0, le=ROWS_BEFORE_MAX)] = 0
    operations: Mix | None = None
    housekeeping: tuple[ChoreKind, ...] = ()
    finds: str = ""
    cost: str = ""

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
        self,
        *,
        rate: float | None,
        ramp_s: float | None,
        processes: int | None,
        rows_before: int | None = None,
        readers: int | None = None,
    ) -> Workload:
        """Return the workload with what is given in the place of its own.

        Raise UsageError if it cannot have readers.
        """
        if readers and self.plan is PlanKind.CLASSIC:
            raise UsageError(
                f"readers is given for the classic plan of the workload {self.name}",
                hint="A classic row does not name its operation; leave readers out.",
            )
        wanted = self.processes if processes is None else processes
        return replace(
            self,
            rate=self.rate if rate is None else rate,
            ramp_s=self.ramp_s if ramp_s is None else ramp_s,
            processes=min(wanted, self.sessions),
            rows_before=self.rows_before if rows_before is None else rows_before,
            readers=self.readers if readers is None else readers,
        )
