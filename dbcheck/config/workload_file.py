"""Workload files: TOML in, a validated frozen object out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config import files
from dbcheck.config.validated import convert_fields, convert_value
from dbcheck.rows.mix import Mix
from dbcheck.rows.tasks import find_problem_of_kinds
from dbcheck.rows.workload import PlanKind, Workload


def load(name: str) -> Workload:
    """Return the workload in the file *name*, or that of this name in workloads/.

    Raise UsageError, with the file and the key, if it is missing or wrong.
    """
    where, text = files.read_described_file("workload", name)
    return parse_workload(Path(name).stem, files.parse_toml(text, where), where=where)


def parse_workload(name: str, values: Mapping[str, Any], *, where: str) -> Workload:
    """Return the workload that *values* describe; raise UsageError naming the key."""
    if "shape" in values:
        raise UsageError(
            f"{where}: the key shape was replaced by plan",
            id=ErrorId.KEY_REPLACED,
            hint='Write plan = "insert" for "ledger", plan = "classic" for "classic".',
        )
    converted: dict[str, Any] = {"name": name, "cores": None}
    weights = values.get("operations")
    if isinstance(weights, Mapping):
        converted["operations"] = convert_fields(weights, Mix, f"{where}: [operations]")
        values = {key: value for key, value in values.items() if key != "operations"}
    workload = convert_fields(
        {"description": "", **values}, Workload, where, given=converted
    )
    _require_consistent(workload, where)
    return workload.limited()


def change_workload(base: Workload, values: Mapping[str, Any], where: str) -> Workload:
    """Return *base* with *values* for some of its keys; text is converted.

    payload_bytes may be one size.  The number of processes is limited to that of
    sessions.  Raise UsageError naming the key if a value is wrong, or does not fit the
    plan.
    """
    values = dict(values)
    sizes = values.get("payload_bytes")
    if isinstance(sizes, int | str):
        values["payload_bytes"] = [sizes]
    types = get_type_hints(Workload, include_extras=True)
    workload = replace(
        base,
        **{
            key: convert_value(value, types[key], where, key, strict=False)
            for key, value in values.items()
        },
    )
    _require_consistent(workload, where)
    return workload.limited()


def _require_consistent(workload: Workload, where: str) -> None:
    """Raise UsageError, naming the key, if two keys do not fit each other."""
    is_classic = workload.plan is PlanKind.CLASSIC
    if is_classic and workload.payload_bytes:
        raise UsageError(
            f"{where}: payload_bytes is given for the classic plan",
            id=ErrorId.KEY_NOT_FOR_CLASSIC_PLAN,
            hint="A classic row has no payload; remove the key.",
        )
    if not is_classic and not workload.payload_bytes:
        raise UsageError(
            f"{where}: payload_bytes is missing",
            id=ErrorId.KEY_MISSING,
            hint="Give at least one size.",
        )
    if is_classic and workload.readers:
        raise UsageError(
            f"{where}: readers is given for the classic plan",
            id=ErrorId.KEY_NOT_FOR_CLASSIC_PLAN,
            hint="A classic row does not name its operation; leave readers out.",
        )
    _require_operations(workload, where)
    _require_housekeeping(workload, where)
    if workload.cut_after_s[0] > workload.cut_after_s[1]:
        raise UsageError(
            f"{where}: cut_after_s is {list(workload.cut_after_s)}",
            id=ErrorId.VALUE_INVALID,
            hint="Give [earliest, latest] in seconds.",
        )


def _require_operations(workload: Workload, where: str) -> None:
    """Raise UsageError unless the plan has the operations that it needs."""
    mix = workload.operations
    if (mix is None) is (workload.plan is PlanKind.MIXED):
        fault = (
            "is missing"
            if mix is None
            else f"is given for the plan {workload.plan.value}"
        )
        raise UsageError(
            f"{where}: the table [operations] {fault}",
            id=ErrorId.OPERATIONS_INVALID,
            hint='Give plan = "mixed" weights, such as insert = 4 and batch = 1; no'
            " other plan has any.",
        )
    if mix is not None and (problem := mix.problem()):
        raise UsageError(
            f"{where}: [operations]: {problem}",
            id=ErrorId.OPERATIONS_INVALID,
            hint="Change the weights.",
        )


def _require_housekeeping(workload: Workload, where: str) -> None:
    """Raise UsageError unless the tasks can be done beside the plan."""
    if not workload.housekeeping:
        return
    if workload.plan is PlanKind.CLASSIC:
        raise UsageError(
            f"{where}: housekeeping is given for the classic plan",
            id=ErrorId.KEY_NOT_FOR_CLASSIC_PLAN,
            hint="Its rows cannot name a task. Remove the key, or change the plan.",
        )
    if problem := find_problem_of_kinds(workload.housekeeping):
        raise UsageError(
            f"{where}: housekeeping: {problem}",
            id=ErrorId.HOUSEKEEPING_INVALID,
            hint='Name each kind once, and create among them: ["create", "drop"].',
        )
