"""A model of the tables that order entry writes to."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from dbcheck.rows.operation import ROLLBACK, Operation, Statement
from dbcheck.rows.plans.orderentry import OrderEntryPlan
from dbcheck.rows.schedule import Schedule
from tests.kit.cycles import EPOCH, SEED
from tests.kit.mixed import COUNT, Model

District = tuple[int, int]  # session and number


def plan_of(seed: int = SEED, epoch: int = EPOCH) -> OrderEntryPlan:
    return OrderEntryPlan(Schedule(seed, epoch, (46,)))


class OrdersModel(Model):
    """What the tables hold; operations run one by one.

    orders: how many each district has.
    sums:   of the payments of each district.
    """

    def __init__(self, plan: OrderEntryPlan) -> None:
        super().__init__(plan)
        self.orders: Counter[District] = Counter()
        self.sums: Counter[District] = Counter()

    def commit(self, operation: Operation) -> None:
        statements = list(operation.statements)
        if ROLLBACK in statements:
            statements = statements[statements.index(ROLLBACK) + 1 :]
        for statement in statements:
            self.execute(statement)

    def execute(self, statement: Statement) -> None:
        """Change rows, as the server's statement of that name does."""
        values = cast("tuple[Any, ...]", statement.values)
        verb, _, table = statement.name.partition("_")
        rows = self.tables[table]
        if verb == "update":
            *added, seq, _, _, _, session, part = values
            (old,) = (n for n in rows if (n[0], n[2]) == (session, part))
            rows[session, seq, part] = rows.pop(old)
            if table == "district":
                self.orders[session, part] += added[0]
                self.sums[session, part] += added[1]
            return
        step = COUNT if verb == "batch" else len(values)
        for at in range(0, len(values), step):
            _, session, seq, part = values[at : at + 4]
            self._insert(rows, (session, seq, part))
