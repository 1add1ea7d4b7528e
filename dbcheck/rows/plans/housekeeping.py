"""A plan of the load, and beside it one session that does chores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbcheck.rows.chores import (
    INSERTING,
    OF_THE_SERVER,
    SIDE_BYTES,
    Chore,
    ChoreKind,
    Chores,
)
from dbcheck.rows.effects import with_effects
from dbcheck.rows.history import HOUSEKEEPING_SESSION
from dbcheck.rows.markers import Markers
from dbcheck.rows.mix import BATCH_ROWS
from dbcheck.rows.observed import Observed
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.plans.insert import INSERT
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.plans.sides import judge_sides
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import LEDGER, SIDES, TableSpec

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
_VACUUM = ChoreKind.VACUUM
_VERBS: dict[ChoreKind, Verb] = {
    kind: Verb(kind.value) for kind in ChoreKind if kind is not ChoreKind.FILL
}


class HousekeepingPlan:
    """See rows.plans.plan.Plan; the operations of its own session are chores."""

    prepares_in: TableSpec | None
    sides: tuple[TableSpec, ...] = SIDES

    def __init__(
        self, base: Plan, schedule: Schedule, kinds: Sequence[ChoreKind]
    ) -> None:
        """Have the other sessions follow *base*, whose rows *schedule* decides."""
        self._base, self._schedule = base, schedule
        self._rows = Schedule(schedule.seed, schedule.epoch, (SIDE_BYTES,))
        self.chores = Chores(schedule.seed, kinds)
        self.tables, self.statements = base.tables, base.statements
        self.replaces_sessions, self.prepares_in = (
            base.replaces_sessions,
            base.prepares_in,
        )
        self.conditions = base.conditions
        chores = _chores(kinds, base.tables)
        self.chore_statements: tuple[StatementSpec, ...] = (INSERT, *chores)

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        if session != HOUSEKEEPING_SESSION:
            return self._base.operation(session, seq)
        chore = self.chores.chore(seq)
        changed = self._vacuumed(chore, seq) if chore.kind is _VACUUM else chore.table
        statements = [*_changes(chore.kind, changed), *self._inserts(chore, seq)]
        marker = Statement(INSERT.name, self._schedule.values(session, seq))
        return Operation(session, seq, (*statements, marker))

    def _vacuumed(self, chore: Chore, seq: int) -> TableSpec | None:
        """Return the table to vacuum: that of the chore, or one of the load's.

        Those have rows that transactions deleted, updated or rolled back.
        """
        tables = (chore.table, *self.tables)
        return tables[seq % len(tables)]

    def _inserts(self, chore: Chore, seq: int) -> Iterator[Statement]:
        rows = INSERTING.get(chore.kind, 0)
        if chore.table is None or not rows:
            return
        name, values = _BATCHES[chore.table].name, self._rows.values
        for first in range(1, rows + 1, BATCH_ROWS):
            parts = range(first, first + BATCH_ROWS)
            batch = [values(HOUSEKEEPING_SESSION, seq, part) for part in parts]
            yield Statement(name, tuple(value for row in batch for value in row))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what judges the content of each row of *table*."""
        if table in self.sides:
            return Inspector(self._rows, range(1, max(INSERTING.values()) + 1))
        return self._base.inspector(table)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        found = self._base.judge(seen)
        markers = Markers(seen, LEDGER, self._schedule.epoch)
        effects = judge_sides(seen, self._schedule.epoch, markers, self.chores)
        return with_effects(found, [effects], seen.acks, markers)


def _changes(kind: ChoreKind, table: TableSpec | None) -> list[Statement]:
    """Return the statement by which a chore changes that table, or the server."""
    verb = _VERBS.get(kind)
    return [] if verb is None else [Statement(_spec(verb, table).name, ())]


def _spec(verb: Verb, table: TableSpec | None) -> StatementSpec:
    return StatementSpec(verb, table or LEDGER, is_late=True)


def _chores(
    kinds: Sequence[ChoreKind], tables: tuple[TableSpec, ...]
) -> Iterator[StatementSpec]:
    """Yield the statements of chores of these kinds, beside a load of *tables*."""
    if set(INSERTING) & set(kinds):
        yield from _BATCHES.values()
    for kind in kinds:
        if (verb := _VERBS.get(kind)) is not None:
            if kind in OF_THE_SERVER:
                yield _spec(verb, None)
            else:
                changed = (*SIDES, *tables) if kind is _VACUUM else SIDES
                yield from (_spec(verb, table) for table in changed)
