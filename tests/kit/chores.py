"""A model of the side tables, and of what a cut leaves of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.chores import INSERTING, KINDS, State, apply_chore_without_inserts
from dbcheck.rows.plans.housekeeping import HousekeepingPlan
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation
from dbcheck.rows.schedule import Schedule
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
CHORES = PLAN.chores

Row = tuple[int, ...]  # what cycles.record() returns


def rows_of(number: int) -> list[Row]:
    """Return the rows that a chore inserts."""
    count = INSERTING[CHORES.chore(number).kind]
    return [
        record(HOUSEKEEPING_SESSION, number, part=part, row_id=10**6 * number + part)
        for part in range(1, count + 1)
    ]


class Model:
    """What a cut leaves: the chores that left their row, and the side tables."""

    def __init__(self, left: int, state: State | None = None) -> None:
        """Have so many chores done; state: of the tables, if not that after them."""
        self.left = set(range(1, left + 1))
        found = CHORES.state(left) if state is None else state
        self.tables = {
            name: [row for number in side.filled for row in rows_of(number)]
            for name, side in found.items()
        }

    @classmethod
    def within(cls, number: int) -> Model:
        """Return what is left if the cut comes when that chore has no row yet."""
        before = CHORES.state(number - 1)
        return cls(
            number - 1, apply_chore_without_inserts(before, CHORES.chore(number))
        )

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
    """Return the losses by kind and by chore."""
    return sorted((loss.kind.value, loss.seq) for loss in found.losses)
