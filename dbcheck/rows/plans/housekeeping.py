"""A plan of the load, and beside it one session that does tasks in the side tables.

Tasks are done one after the other, and each leaves its row in the ledger once it is
done.  So the side tables must be as the last task with such a row left them.  On a
server that commits the change of a task before its row, they may also be as the change
of the next task left them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.earlier import Earlier
from dbcheck.rows.effects import Effects, Markers, add_effects
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.mix import BATCH_ROWS
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.plans.plan import INSERT, Plan
from dbcheck.rows.reconcile import Observed, Reconciliation
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import DIFFERENT, RECORD, Inspector, Records
from dbcheck.rows.table import LEDGER, SIDES, TableFacts, TableSpec
from dbcheck.rows.tasks import (
    INSERTING,
    OF_THE_SERVER,
    SIDE_BYTES,
    HousekeepingTask,
    HousekeepingTasks,
    Side,
    State,
    TaskKind,
    apply_task_without_inserts,
)

_TORN, _RESURRECTED = LossKind.TORN, LossKind.RESURRECTED
_NO_ID = -1


def judge_sides(
    seen: Observed, epoch: int, markers: Markers, tasks: HousekeepingTasks
) -> Effects:
    """Judge the tasks by the side tables.

    A table that was dropped and cannot be opened is gone with its rows.  Only its name
    is left (docs/findings.md), which evidence shows and which is no loss.
    """
    top = int(markers.tops[HOUSEKEEPING_SESSION])
    numbers = np.arange(1, top + 1, dtype=np.int64)
    with_row = numbers[markers.perhaps_present(HOUSEKEEPING_SESSION, numbers)]
    last = int(with_row.max(initial=0))
    found = {
        table.name: _SideTable(
            np.concatenate([np.empty(0, RECORD), *seen.survivors[table.name]()]),
            epoch,
        )
        for table in SIDES
        if table.name in seen.survivors
    }
    acked = int(markers.acked[HOUSEKEEPING_SESSION])
    states = _list_legal_states(tasks, last, max(last, acked), top, seen.is_ddl_atomic)
    differences = min(
        (list(_list_differences(state, found, tasks, last, top)) for state in states),
        key=len,
    )
    losses = [*differences, *_list_strange_rows(found, tasks, top)]
    return Effects(Losses.of(losses).columns, Earlier(SIDES[0], TableFacts({}, 0)))


def _list_legal_states(
    tasks: HousekeepingTasks, last: int, acked: int, top: int, is_ddl_atomic: bool
) -> Iterator[State]:
    """Yield the legal states of the side tables; the expected one first.

    last:  the last task that left its row.
    acked: the last task whose ack is confirmed.  If its row is gone, that is a loss
           already, and its change may be there or not.
    """
    for number in range(last, acked + 1):
        yield tasks.state(number)
        if not is_ddl_atomic and number < top:
            yield apply_task_without_inserts(
                tasks.state(number), tasks.task(number + 1)
            )


class _SideTable:
    """A side table as it was read.

    rows_by_task: task -> how many of its rows are there and intact, each counted once.
    id_by_task:   task -> the id of one of these rows.
    repeated_tasks: tasks some of whose rows are there twice.
    strange_rows: rows that are not intact, or are of no task of the run.
    """

    def __init__(self, records: Records, epoch: int) -> None:
        own = (records["epoch"] == epoch) & (records["content"] != DIFFERENT)
        own &= records["session"] == HOUSEKEEPING_SESSION
        self.strange_rows = records[~own]
        self.id_by_task: dict[int, int] = {}
        rows: Counter[tuple[int, int]] = Counter()
        for seq, part, row_id in records[own][["seq", "part", "row_id"]].tolist():
            rows[seq, part] += 1
            self.id_by_task[seq] = row_id
        self.rows_by_task = Counter(seq for seq, _ in rows)
        self.repeated_tasks = {seq for (seq, _), count in rows.items() if count > 1}


def _list_differences(
    state: State,
    found: Mapping[str, _SideTable],
    tasks: HousekeepingTasks,
    last: int,
    top: int,
) -> Iterator[Loss]:
    """Yield the losses by which the *found* tables differ from *state*."""
    for table in SIDES:
        side, side_table = state.get(table.name), found.get(table.name)
        if side is None and side_table is not None:
            yield _make_loss_of_leftover_table(table.name, side_table, tasks, last, top)
        elif side is not None and side_table is None:
            yield _make_loss(_TORN, table.name, side.created)
        elif side is not None and side_table is not None:
            yield from _list_wrong_rows(table.name, side, side_table, tasks, last, top)


def _make_loss_of_leftover_table(
    name: str, side_table: _SideTable, tasks: HousekeepingTasks, last: int, top: int
) -> Loss:
    """Return the loss of a table that is there although it should not be."""
    row_id = max(side_table.id_by_task.values(), default=_NO_ID)
    if last < top and name in tasks.state(last + 1):
        return _make_loss(_TORN, name, last + 1, row_id)
    dropping_tasks = (n for n in range(last, 0, -1) if name in tasks.state(n - 1))
    number = next(dropping_tasks, -1)
    kind = LossKind.UNEXPECTED if number < 0 else _RESURRECTED
    return _make_loss(kind, name, number, row_id)


def _list_wrong_rows(
    name: str,
    side: Side,
    side_table: _SideTable,
    tasks: HousekeepingTasks,
    last: int,
    top: int,
) -> Iterator[Loss]:
    for number in side.filled:
        if side_table.rows_by_task[number] < INSERTING[tasks.task(number).kind]:
            yield _make_loss(_TORN, name, number)
    for number in sorted(side_table.rows_by_task.keys() - set(side.filled)):
        if number <= last:
            yield _make_loss(_RESURRECTED, name, number, side_table.id_by_task[number])
        elif number <= top:
            yield _make_loss(_TORN, name, number, side_table.id_by_task[number])


def _list_strange_rows(
    found: Mapping[str, _SideTable], tasks: HousekeepingTasks, top: int
) -> Iterator[Loss]:
    """Yield the rows that are wrong whatever the tasks did."""
    for name, side_table in found.items():
        for number in sorted(side_table.repeated_tasks):
            yield _make_loss(
                LossKind.DUPLICATE, name, number, side_table.id_by_task[number]
            )
        for number in sorted(n for n in side_table.rows_by_task if not 1 <= n <= top):
            yield _make_loss(
                LossKind.UNEXPECTED, name, number, side_table.id_by_task[number]
            )
        for row in side_table.strange_rows[
            ["session", "seq", "row_id", "content"]
        ].tolist():
            session, seq, row_id, content = row
            is_of_task = session == HOUSEKEEPING_SESSION and 1 <= seq <= top
            if content == DIFFERENT and is_of_task:
                yield _make_loss(LossKind.CORRUPT, name, seq, row_id)
            else:
                yield Loss(LossKind.UNEXPECTED, session, seq, row_id, -1, name)


def _make_loss(kind: LossKind, name: str, number: int, row_id: int = _NO_ID) -> Loss:
    return Loss(kind, HOUSEKEEPING_SESSION, number, row_id, -1, name)


_BATCHES = {
    table: StatementSpec(
        Verb.INSERT,
        table,
        table.columns[1:] * BATCH_ROWS,
        rows=BATCH_ROWS,
        is_late=True,
    )
    for table in SIDES
}
_VACUUM = TaskKind.VACUUM
_VERBS: dict[TaskKind, Verb] = {
    kind: Verb(kind.value) for kind in TaskKind if kind is not TaskKind.FILL
}


class HousekeepingPlan:
    """See rows.plans.plan.Plan; the operations of its own session are tasks."""

    prepares_in: TableSpec | None
    housekeeping_tables: tuple[TableSpec, ...] = SIDES

    def __init__(
        self, base: Plan, schedule: Schedule, kinds: Sequence[TaskKind]
    ) -> None:
        """Have the other sessions follow *base*, whose rows *schedule* decides."""
        self._base, self._schedule = base, schedule
        self._side_schedule = Schedule(schedule.seed, schedule.epoch, (SIDE_BYTES,))
        self.tasks = HousekeepingTasks(schedule.seed, kinds)
        self.tables, self.statements = base.tables, base.statements
        self.replaces_sessions, self.prepares_in = (
            base.replaces_sessions,
            base.prepares_in,
        )
        self.violations_statement = base.violations_statement
        tasks = _list_statements_of_tasks(kinds, base.tables)
        self.housekeeping_statements: tuple[StatementSpec, ...] = (INSERT, *tasks)

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        if session != HOUSEKEEPING_SESSION:
            return self._base.operation(session, seq)
        task = self.tasks.task(seq)
        changed = (
            self._choose_table_to_vacuum(task, seq)
            if task.kind is _VACUUM
            else task.table
        )
        statements = [
            *_list_statements(task.kind, changed),
            *self._insert_rows(task, seq),
        ]
        marker = Statement(INSERT.name, self._schedule.values(session, seq))
        return Operation(session, seq, (*statements, marker))

    def _choose_table_to_vacuum(
        self, task: HousekeepingTask, seq: int
    ) -> TableSpec | None:
        """Return the table to vacuum: that of the task, or a table of the load.

        The tables of the load have rows that were deleted, updated or rolled back.
        """
        tables = (task.table, *self.tables)
        return tables[seq % len(tables)]

    def _insert_rows(self, task: HousekeepingTask, seq: int) -> Iterator[Statement]:
        rows = INSERTING.get(task.kind, 0)
        if task.table is None or not rows:
            return
        name, values = _BATCHES[task.table].name, self._side_schedule.values
        for first in range(1, rows + 1, BATCH_ROWS):
            parts = range(first, first + BATCH_ROWS)
            batch = [values(HOUSEKEEPING_SESSION, seq, part) for part in parts]
            yield Statement(name, tuple(value for row in batch for value in row))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return the judge of the content of each row of *table*."""
        if table in self.housekeeping_tables:
            return Inspector(self._side_schedule, range(1, max(INSERTING.values()) + 1))
        return self._base.inspector(table)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        judged_load = self._base.judge(seen)
        markers = Markers(seen, LEDGER, self._schedule.epoch)
        effects = judge_sides(seen, self._schedule.epoch, markers, self.tasks)
        return add_effects(judged_load, [effects], seen.acks, markers)


def _list_statements(kind: TaskKind, table: TableSpec | None) -> list[Statement]:
    """Return the statement by which a task changes that table, or the server."""
    verb = _VERBS.get(kind)
    return [] if verb is None else [Statement(_make_spec(verb, table).name, ())]


def _make_spec(verb: Verb, table: TableSpec | None) -> StatementSpec:
    return StatementSpec(verb, table or LEDGER, is_late=True)


def _list_statements_of_tasks(
    kinds: Sequence[TaskKind], tables: tuple[TableSpec, ...]
) -> Iterator[StatementSpec]:
    """Yield the statements of tasks of these kinds, beside a load of *tables*."""
    if set(INSERTING) & set(kinds):
        yield from _BATCHES.values()
    for kind in kinds:
        if (verb := _VERBS.get(kind)) is not None:
            if kind in OF_THE_SERVER:
                yield _make_spec(verb, None)
            else:
                changed = (*SIDES, *tables) if kind is _VACUUM else SIDES
                yield from (_make_spec(verb, table) for table in changed)
