"""A model of the tables that mixed operations write to, and faults planted in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from dbcheck.rows.mix import Mix
from dbcheck.rows.operation import (
    ROLLBACK,
    ROLLBACK_TO,
    SAVEPOINT,
    Operation,
    Statement,
)
from dbcheck.rows.plans.mixed import (
    DELETE_ITEM,
    UPDATE_ITEM,
    UPDATE_REGISTER,
    MixedPlan,
)
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import TableFacts
from tests.kit.cycles import (
    EPOCH,
    NOTHING_BEFORE,
    SEED,
    acks_of,
    array_of,
    record,
    records_of,
)

EVERYTHING = Mix(2, 2, 2, 2, 3, 2, 2, 2)
COUNT = 6  # values of a row

Name = tuple[int, int, int]  # session, seq, part
Rows = dict[Name, dict[str, int]]  # what tests.kit.cycles.record() takes
Tables = dict[str, Rows]


def plan_of(mix: Mix = EVERYTHING) -> MixedPlan:
    return MixedPlan(Schedule(SEED, EPOCH, (16, 40)), mix)


def versions(plan: Plan, session: int, count: int) -> dict[Name, Name]:
    """Return each item that an operation up to *count* updated, as it was before."""
    found = {}
    for seq in range(1, count + 1):
        operation = plan.operation(session, seq)
        if ROLLBACK in operation.statements:
            continue
        for statement in operation.statements:
            if statement.name == UPDATE_ITEM.name:
                *_, old, part = statement.values
                found[session, seq, int(part)] = (session, int(old), int(part))
    return found


class Model:
    """What the tables hold; operations run one by one."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tables: Tables = {table.name: {} for table in plan.tables}
        self._ids = 0

    def run(self, session: int, count: int) -> None:
        """Run the first *count* operations of a session."""
        for seq in range(1, count + 1):
            self.commit(self.plan.operation(session, seq))

    def commit(self, operation: Operation) -> None:
        began = saved = self._copy_tables() if self._may_undo(operation) else {}
        for statement in operation.statements:
            if statement == ROLLBACK:
                self.tables = began
            elif statement == SAVEPOINT:
                saved = self._copy_tables()
            elif statement == ROLLBACK_TO:
                self.tables = saved
                saved = self._copy_tables()
            else:
                self.execute(statement)

    def _copy_tables(self) -> Tables:
        """Return tables of their own with the same rows, which do not change."""
        return {name: dict(rows) for name, rows in self.tables.items()}

    @staticmethod
    def _may_undo(operation: Operation) -> bool:
        return bool({ROLLBACK, SAVEPOINT} & set(operation.statements))

    def execute(self, statement: Statement) -> None:
        """Change rows, as the server's statement of that name does."""
        values = cast("tuple[Any, ...]", statement.values)
        verb, _, table = statement.name.partition("_")
        rows = self.tables[table]
        if verb in ("insert", "batch"):
            for at in range(0, len(values), COUNT):
                _, session, seq, part, _, _ = values[at : at + COUNT]
                self._insert(rows, (session, seq, part))
        elif statement.name == UPDATE_ITEM.name:
            seq, _, _, _, session, old, part = values
            rows[session, seq, part] = rows.pop((session, old, part))
        elif statement.name == UPDATE_REGISTER.name:
            seq, _, _, _, session, part = values
            (old,) = (n for n in rows if (n[0], n[2]) == (session, part))
            rows[session, seq, part] = rows.pop(old)
        else:
            assert statement.name == DELETE_ITEM.name
            _, session, seq, part = values
            del rows[session, seq, part]

    def _insert(self, rows: Rows, name: Name) -> None:
        assert name not in rows
        self._ids += 1
        # The id of a row of the ledger is the one that was acked, see cycles.ack().
        rows[name] = {"row_id": self._ids} if name[2] else {}

    def judged(
        self,
        confirmed: Mapping[int, int],
        sent: Mapping[int, int] | None = None,
        *,
        claimed: bool = True,
        more: Mapping[str, list[tuple[int, ...]]] = {},
        before: TableFacts = NOTHING_BEFORE,
    ) -> Reconciliation:
        """Judge what the tables hold.

        claimed: the client's record of the load is there.  more: rows beside them.
        before: what the table of the items held.
        """
        survivors = {
            table: [
                records_of(
                    [
                        *(
                            record(s, q, part=p, **row)
                            for (s, q, p), row in rows.items()
                        ),
                        *more.get(table, ()),
                    ]
                )
            ]
            for table, rows in self.tables.items()
        }
        acks = array_of(acks_of(confirmed))
        seen = Observed(
            lambda: acks,
            {name: partial(iter, rows) for name, rows in survivors.items()},
            {**dict.fromkeys(survivors, NOTHING_BEFORE), "item": before},
            Claim(sent or confirmed, confirmed) if claimed else None,
            window_acks=10,
        )
        return self.plan.judge(seen)
