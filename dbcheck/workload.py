"""Workload files: TOML in, a validated frozen object out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbcheck import files
from dbcheck.core.plans.kinds import PlanKind
from dbcheck.core.workload import (
    PAYLOAD_BYTES_MAX,
    PROCESSES_MAX,
    RAMP_S_MAX,
    RATE_MAX,
    SESSIONS_MAX,
    Workload,
)
from dbcheck.errors import UsageError

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
    if not good or not 0 < numbers[0] <= numbers[1] <= 86_400:
        raise UsageError(
            f"{where}: cut_after_s is {value!r}",
            hint="Give [earliest, latest] in seconds, both above 0.",
        )
    return float(numbers[0]), float(numbers[1])
