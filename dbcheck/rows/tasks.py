"""Statements of the housekeeping session beside the load, one after the other.

A task changes one of the side tables, or has the server write its log or its pages.
The next task is drawn from the seed and the task's number, among the tasks that the
state of the side tables allows: a pure function of seed and number.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dbcheck.base.text import Explained
from dbcheck.rows.table import SIDES, TableSpec

CREATED_ROWS, FILLED_ROWS = 8, 120  # rows that a task CREATE, or FILL, inserts
SIDE_BYTES = 4000  # of the payload of each of these rows
_FILLS_MAX = 4  # tasks whose rows one side table may hold, so that it stays small
_DRAW = struct.Struct("<QQ")


class TaskKind(Explained):
    """Statement of the housekeeping session before its row in the ledger."""

    CREATE = "create", "Creates a side table and inserts rows into it."
    FILL = "fill", "Inserts many rows into a side table, so that its file is extended."
    INDEX = "index", "Creates an index on a side table."
    REWRITE = "rewrite", "`ALTER TABLE` that writes a side table into another file."
    TRUNCATE = "truncate", "Truncates a side table."
    DROP = "drop", "Drops a side table."
    VACUUM = (
        "vacuum",
        "PostgreSQL: vacuums a side table, or one that the load writes to.",
    )
    CHECKPOINT = (
        "checkpoint",
        "Has the server checkpoint; on MySQL and MariaDB the logs are flushed.",
    )
    ROTATE = "rotate", "Begins another file of WAL, or of the binary log."


KINDS = tuple(TaskKind)
OF_THE_SERVER = (TaskKind.CHECKPOINT, TaskKind.ROTATE)
# With one of these kinds there is always a next task: it can repeat without end, or it
# makes room for other tasks.
_WITHOUT_END = (*OF_THE_SERVER, TaskKind.REWRITE, TaskKind.VACUUM, TaskKind.DROP)
INSERTING = {TaskKind.CREATE: CREATED_ROWS, TaskKind.FILL: FILLED_ROWS}


class HousekeepingTask(NamedTuple):
    """One task; table: the side table that it changes, None if it changes none."""

    kind: TaskKind
    table: TableSpec | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """A side table that exists.

    created: the number of the task that created it.
    filled:  the numbers of the tasks whose rows it holds.
    """

    created: int
    filled: tuple[int, ...] = ()
    has_index: bool = False


State = Mapping[str, Side]  # name -> the side table, if it exists
NO_SIDES: State = {}


class HousekeepingTasks:
    """The tasks of one run, of *kinds* in which find_problem_of_kinds() finds none."""

    def __init__(self, seed: int, kinds: Sequence[TaskKind]) -> None:
        self._seed, self._kinds = seed, kinds
        self._states: list[State] = [NO_SIDES]  # by the number of tasks that are done
        self._tasks: list[HousekeepingTask] = []

    def task(self, number: int) -> HousekeepingTask:
        """Return the task of that number, from 1 on."""
        self._draw_tasks_up_to(number)
        return self._tasks[number - 1]

    def state(self, number: int) -> State:
        """Return the side tables after the first *number* tasks."""
        self._draw_tasks_up_to(number)
        return self._states[number]

    def _draw_tasks_up_to(self, number: int) -> None:
        for new_number in range(len(self._tasks) + 1, number + 1):
            state = self._states[-1]
            allowed = self._list_allowed_tasks(state)
            draw = hashlib.shake_128(_DRAW.pack(self._seed, new_number)).digest(8)
            task = allowed[int.from_bytes(draw, "little") % len(allowed)]
            self._tasks.append(task)
            self._states.append(apply_task(state, task, new_number))

    def _list_allowed_tasks(self, state: State) -> list[HousekeepingTask]:
        allowed = [
            HousekeepingTask(kind) for kind in self._kinds if kind in OF_THE_SERVER
        ]
        for table in SIDES:
            side = state.get(table.name)
            allowed += [
                HousekeepingTask(kind, table)
                for kind in self._kinds
                if _is_allowed(kind, side)
            ]
        return allowed


def _is_allowed(kind: TaskKind, side: Side | None) -> bool:
    """Return True if a task of *kind* can change *side*; None: no such table exists."""
    if kind in OF_THE_SERVER:
        return False
    if side is None or kind is TaskKind.CREATE:
        return side is None and kind is TaskKind.CREATE
    if kind is TaskKind.INDEX:
        return not side.has_index
    if kind is TaskKind.FILL:
        return len(side.filled) < _FILLS_MAX
    return kind is not TaskKind.TRUNCATE or bool(side.filled)


def apply_task(state: State, task: HousekeepingTask, number: int) -> State:
    """Return the side tables after *task*, which has that number."""
    if task.table is None:
        return state
    name = task.table.name
    others = {other: side for other, side in state.items() if other != name}
    side = state.get(name, Side(number))
    match task.kind:
        case TaskKind.DROP:
            return others
        case TaskKind.TRUNCATE:
            side = replace(side, filled=())
        case TaskKind.INDEX:
            side = replace(side, has_index=True)
        case TaskKind.CREATE | TaskKind.FILL:
            side = replace(side, filled=(*side.filled, number))
    return {**others, name: side}


def apply_task_without_inserts(state: State, task: HousekeepingTask) -> State:
    """Return the side tables when *task* is done but for the rows that it inserts.

    MySQL and MariaDB commit CREATE, DROP, TRUNCATE and ALTER alone, before the rows.
    """
    after = apply_task(state, task, 0)
    if task.table is None or task.kind not in INSERTING:
        return after
    if task.kind is TaskKind.FILL:
        return state
    return {**after, task.table.name: Side(0)}


def find_problem_of_kinds(kinds: Sequence[TaskKind]) -> str:
    """Return the reason why there can be no tasks of these kinds, "" if there can."""
    if len(set(kinds)) < len(kinds):
        return "a kind is named twice"
    if TaskKind.CREATE not in kinds and not set(kinds) <= set(OF_THE_SERVER):
        return "without create there is no table for the others"
    if not set(kinds) & set(_WITHOUT_END):
        names = ", ".join(kind.value for kind in _WITHOUT_END)
        return f"the housekeeping tasks come to an end without one of {names}"
    return ""
