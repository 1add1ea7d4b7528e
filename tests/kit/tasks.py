"""A model of the side tables, and of what a cut leaves of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.plans.housekeeping import HousekeepingPlan
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.tasks import INSERTING, KINDS, State, apply_task_without_inserts
from tests.kit.cycles import (
    EPOCH,
    NOTHING_BEFORE,
    SEED,
    acks_of,
    array_of,
    record,
    records_of,
)

_SCHEDULE = Schedule(SEED, EPOCH, (16, 40))
PLAN = HousekeepingPlan(InsertPlan(_SCHEDULE), _SCHEDULE, KINDS)
TASKS = PLAN.tasks

Row = tuple[int, ...]  # what cycles.record() returns


def rows_of(number: int) -> list[Row]:
    """Return the rows that a task inserts."""
    count = INSERTING[TASKS.task(number).kind]
    return [
        record(HOUSEKEEPING_SESSION, number, part=part, row_id=10**6 * number + part)
        for part in range(1, count + 1)
    ]


class Model:
    """What a cut leaves: the tasks that left their row, and the side tables."""

    def __init__(self, left: int, state: State | None = None) -> None:
        """Have so many tasks done; state: of the tables, if not that after them."""
        self.left = set(range(1, left + 1))
        found = TASKS.state(left) if state is None else state
        self.tables = {
            name: [row for number in side.filled for row in rows_of(number)]
            for name, side in found.items()
        }

    @classmethod
    def within(cls, number: int) -> Model:
        """Return what is left if the cut comes when that task has no row yet."""
        before = TASKS.state(number - 1)
        return cls(number - 1, apply_task_without_inserts(before, TASKS.task(number)))

    def judged(
        self, confirmed: int, sent: int | None = None, *, is_ddl_atomic: bool = True
    ) -> Reconciliation:
        """Judge what is left."""
        session = HOUSEKEEPING_SESSION
        ledger = records_of([record(session, number) for number in sorted(self.left)])
        survivors: Mapping[str, list[Row]] = self.tables
        acks = array_of(acks_of({session: confirmed}))
        read = {
            name: partial(iter, [records_of(rows)]) for name, rows in survivors.items()
        }
        most = confirmed if sent is None else sent
        seen = Observed(
            lambda: acks,
            {"ledger": partial(iter, [ledger]), **read},
            {"ledger": NOTHING_BEFORE},
            Claim({session: most}, {session: confirmed}),
            window_acks=10,
            is_ddl_atomic=is_ddl_atomic,
        )
        return PLAN.judge(seen)


def named(found: Reconciliation) -> list[tuple[str, int]]:
    """Return the losses by kind and by task."""
    return sorted((loss.kind.value, loss.seq) for loss in found.losses)
