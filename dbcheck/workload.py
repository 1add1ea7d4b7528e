"""Workload files: TOML in, a validated frozen object out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from dbcheck import files
from dbcheck.core.history import SESSION_MAX
from dbcheck.core.plans.kinds import PlanKind
from dbcheck.errors import UsageError
from dbcheck.limits import (
    CUT_AFTER_S_MAX,
    PAYLOAD_BYTES_MAX,
    PROCESSES_MAX,
    RAMP_S_MAX,
    RATE_MAX,
    SESSIONS_MAX,
)
from dbcheck.validated import converted

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


def load(name: str) -> Workload:
    """Return the workload in the file *name*, or the one of that name in workloads/.

    Raise UsageError, with the file and the key, if there is none or it is wrong.
    """
    where, text = files.described("workload", name)
    return parse(Path(name).stem, files.parse_toml(text, where), where=where)


def parse(name: str, values: Mapping[str, Any], *, where: str) -> Workload:
    """Return the workload that *values* describe; raise UsageError naming the key."""
    if "shape" in values:
        raise UsageError(
            f"{where}: the key shape was replaced by plan",
            hint='Write plan = "insert" for "ledger", plan = "classic" for "classic".',
        )
    found = converted(
        {"description": "", **values}, Workload, where, given={"name": name}
    )
    is_classic = found.plan is PlanKind.CLASSIC
    if is_classic and found.payload_bytes:
        raise UsageError(
            f"{where}: payload_bytes is given for the classic plan",
            hint="A classic row has no payload; remove the key.",
        )
    if not is_classic and not found.payload_bytes:
        raise UsageError(
            f"{where}: payload_bytes is missing", hint="Give at least one size."
        )
    if found.cut_after_s[0] > found.cut_after_s[1]:
        raise UsageError(
            f"{where}: cut_after_s is {list(found.cut_after_s)}",
            hint="Give [earliest, latest] in seconds.",
        )
    return replace(found, processes=min(found.processes, found.sessions))


assert SESSIONS_MAX < SESSION_MAX  # session numbers are left for reconnecting clients
