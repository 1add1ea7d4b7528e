"""Workload files: TOML in, a validated frozen object out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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

_KEYS = {
    "description",
    "plan",
    "sessions",
    "payload_bytes",
    "cut_after_s",
    "rate",
    "ramp_s",
    "processes",
}


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
    unknown = sorted(values.keys() - _KEYS)
    if unknown:
        raise UsageError(
            f"{where}: unknown key {unknown[0]!r}",
            hint=f"Known keys are {', '.join(sorted(_KEYS))}.",
        )
    plan = _plan(values.get("plan"), where)
    sessions = _whole(values.get("sessions", 1), 1, SESSIONS_MAX, where, "sessions")
    processes = _whole(values.get("processes", 1), 1, PROCESSES_MAX, where, "processes")
    return Workload(
        name=name,
        description=str(values.get("description", "")),
        plan=plan,
        sessions=sessions,
        payload_bytes=_sizes(values.get("payload_bytes", []), plan, where),
        cut_after_s=_moments(values.get("cut_after_s", [3.0, 6.0]), where),
        rate=_number(values.get("rate", 0.0), RATE_MAX, where, "rate"),
        ramp_s=_number(values.get("ramp_s", 0.0), RAMP_S_MAX, where, "ramp_s"),
        processes=min(processes, sessions),
    )


def _plan(value: object, where: str) -> PlanKind:
    known = [plan.value for plan in PlanKind]
    if value not in known:
        raise UsageError(
            f"{where}: plan is {value!r}", hint=f"It must be one of {known}."
        )
    return PlanKind(value)


def _whole(value: object, low: int, high: int, where: str, key: str) -> int:
    if type(value) is not int or not low <= value <= high:
        raise UsageError(
            f"{where}: {key} is {value!r}",
            hint=f"It must be a whole number from {low} to {high}.",
        )
    return value


def _number(value: object, high: float, where: str, key: str) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= high:  # type: ignore[operator]
        raise UsageError(
            f"{where}: {key} is {value!r}",
            hint=f"It must be a number from 0 to {high:g}; 0 means none.",
        )
    return float(value)  # type: ignore[arg-type]


def _sizes(value: object, plan: PlanKind, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where}: payload_bytes is {value!r}", hint="Give a list.")
    if plan is PlanKind.CLASSIC and value:
        raise UsageError(
            f"{where}: payload_bytes is given for the classic plan",
            hint="A classic row has no payload; remove the key.",
        )
    if plan is not PlanKind.CLASSIC and not value:
        raise UsageError(
            f"{where}: payload_bytes is missing", hint="Give at least one size."
        )
    return tuple(
        _whole(size, 1, PAYLOAD_BYTES_MAX, where, "payload_bytes") for size in value
    )


def _moments(value: object, where: str) -> tuple[float, float]:
    numbers = value if isinstance(value, list) else []
    good = len(numbers) == 2 and all(
        isinstance(n, int | float) and not isinstance(n, bool) for n in numbers
    )
    if not good or not 0 < numbers[0] <= numbers[1] <= CUT_AFTER_S_MAX:
        raise UsageError(
            f"{where}: cut_after_s is {value!r}",
            hint="Give [earliest, latest] in seconds, both above 0.",
        )
    return float(numbers[0]), float(numbers[1])


assert SESSIONS_MAX < SESSION_MAX  # session numbers are left for reconnecting clients
