"""Orders of terminals, after TPC-C's New-Order and Payment (rows.plans.orders).

The number of an order comes from a counter of its district, which the same transaction
increments on the server; so beside the rows, whose keys decide all else in them, the
server's own sums must agree (rows.conditions).
"""

from __future__ import annotations

from collections.abc import Callable

from dbcheck.rows.conditions import CONDITIONS_OF_ORDERS
from dbcheck.rows.effects import with_effects
from dbcheck.rows.items import Written as ItemsWritten
from dbcheck.rows.items import judge_items
from dbcheck.rows.markers import Markers
from dbcheck.rows.mix import BATCH_ROWS
from dbcheck.rows.observed import Observed
from dbcheck.rows.operation import ROLLBACK, Operation, Statement, StatementSpec, Verb
from dbcheck.rows.plans.insert import INSERT
from dbcheck.rows.plans.orders import (
    DISTRICT_PARTS,
    LINE_PARTS,
    NEW_ORDER_PART,
    ORDER_PART,
    WAREHOUSE_PART,
    OrderAction,
    OrderDraw,
    Orders,
    drawn,
)
from dbcheck.rows.reconcile import Reconciliation, reconcile
from dbcheck.rows.registers import judge_registers
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import (
    DISTRICT,
    KEYED,
    LEDGER,
    NEW_ORDER,
    ORDER_LINE,
    ORDERS,
    WAREHOUSE,
    TableSpec,
)

_OVERWRITTEN_BYTES = 64  # about what TPC-C's rows have beside the numbers (1.3.1)
_INSERTED_BYTES = 24

_WRITTEN = ("seq", "payload", "checksum")
_PLACE = ("epoch", "session", "part")
_SENT = tuple(column.name for column in KEYED[1:])

INSERT_WAREHOUSE = StatementSpec(Verb.INSERT, WAREHOUSE, KEYED[1:])
INSERT_DISTRICT = StatementSpec(Verb.INSERT, DISTRICT, KEYED[1:])
UPDATE_WAREHOUSE = StatementSpec(
    Verb.UPDATE, WAREHOUSE, WAREHOUSE.named("ytd", *_WRITTEN, *_PLACE)
)
UPDATE_DISTRICT = StatementSpec(
    Verb.UPDATE, DISTRICT, DISTRICT.named("next_order", "ytd", *_WRITTEN, *_PLACE)
)
INSERT_ORDER = StatementSpec(
    Verb.INSERT, ORDERS, ORDERS.named(*_SENT, "district", "line_count", *_PLACE)
)
INSERT_NEW_ORDER = StatementSpec(
    Verb.INSERT, NEW_ORDER, NEW_ORDER.named(*_SENT, "district", *_PLACE)
)
INSERT_LINES = StatementSpec(
    Verb.INSERT, ORDER_LINE, KEYED[1:] * BATCH_ROWS, rows=BATCH_ROWS
)

_PARTS = {
    LEDGER: range(1),
    WAREHOUSE: range(WAREHOUSE_PART, WAREHOUSE_PART + 1),
    DISTRICT: DISTRICT_PARTS,
    ORDERS: range(ORDER_PART, ORDER_PART + 1),
    NEW_ORDER: range(NEW_ORDER_PART, NEW_ORDER_PART + 1),
    ORDER_LINE: LINE_PARTS,
}


class OrderEntryPlan:
    """See rows.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = tuple(_PARTS)
    statements: tuple[StatementSpec, ...] = (
        INSERT,
        INSERT_WAREHOUSE,
        INSERT_DISTRICT,
        UPDATE_WAREHOUSE,
        UPDATE_DISTRICT,
        INSERT_ORDER,
        INSERT_NEW_ORDER,
        INSERT_LINES,
    )
    replaces_sessions = True
    prepares_in: TableSpec | None = None
    sides: tuple[TableSpec, ...] = ()
    chore_statements: tuple[StatementSpec, ...] = ()
    conditions = CONDITIONS_OF_ORDERS

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        seed, epoch = schedule.seed, schedule.epoch
        overwritten = Schedule(seed, epoch, (_OVERWRITTEN_BYTES,))
        inserted = Schedule(seed, epoch, (_INSERTED_BYTES,))
        self._schedules = {
            LEDGER: schedule,
            WAREHOUSE: overwritten,
            DISTRICT: overwritten,
            ORDERS: inserted,
            NEW_ORDER: inserted,
            ORDER_LINE: inserted,
        }
        self._make: dict[
            OrderAction, Callable[[int, int, OrderDraw], list[Statement]]
        ] = {
            OrderAction.OPEN: self._open,
            OrderAction.ORDER: self._order,
            OrderAction.UNDONE: self._order,
            OrderAction.PAYMENT: self._pay,
        }

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        draw = drawn(self._schedule.seed, session, seq)
        statements = self._make[draw.action](session, seq, draw)
        if draw.action is OrderAction.UNDONE:
            statements.append(ROLLBACK)
        marker = Statement(INSERT.name, self._schedule.values(session, seq))
        return Operation(session, seq, (*statements, marker))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what judges the content of each row of *table*."""
        return Inspector(self._schedules[table], _PARTS[table])

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        epoch, orders = self._schedule.epoch, Orders(self._schedule.seed)
        inserted = reconcile(seen, LEDGER, epoch)
        markers = Markers(seen, LEDGER, epoch)
        overwritten = {WAREHOUSE: orders.warehouses, DISTRICT: orders.districts}
        effects = [
            judge_registers(seen, table, epoch, markers, written, _PARTS[table])
            for table, written in overwritten.items()
        ]
        rows: dict[TableSpec, ItemsWritten] = {
            ORDERS: orders.orders,
            NEW_ORDER: orders.new_orders,
            ORDER_LINE: orders.lines,
        }
        effects += [
            judge_items(seen, table, epoch, markers, written)
            for table, written in rows.items()
        ]
        return with_effects(inserted, effects, seen.acks, markers)

    def _open(self, session: int, seq: int, draw: OrderDraw) -> list[Statement]:
        return [
            Statement(spec.name, self._schedules[spec.table].values(session, seq, part))
            for spec in (INSERT_WAREHOUSE, INSERT_DISTRICT)
            for part in _PARTS[spec.table]
        ]

    def _order(self, session: int, seq: int, draw: OrderDraw) -> list[Statement]:
        values = self._schedules[ORDERS].values
        district = (self._schedule.epoch, session, draw.district)
        order = (*values(session, seq, ORDER_PART), draw.district, draw.lines)
        new_order = (*values(session, seq, NEW_ORDER_PART), draw.district)
        statements = [
            self._in_district(session, seq, draw.district, orders=1),
            Statement(INSERT_ORDER.name, (*order, *district)),
            Statement(INSERT_NEW_ORDER.name, (*new_order, *district)),
        ]
        parts = LINE_PARTS[: draw.lines]
        for at in range(0, len(parts), BATCH_ROWS):
            rows = [values(session, seq, part) for part in parts[at : at + BATCH_ROWS]]
            lines = tuple(value for row in rows for value in row)
            statements.append(Statement(INSERT_LINES.name, lines))
        return statements

    def _pay(self, session: int, seq: int, draw: OrderDraw) -> list[Statement]:
        written = self._overwritten(WAREHOUSE, session, seq, WAREHOUSE_PART)
        return [
            Statement(UPDATE_WAREHOUSE.name, (draw.amount, *written)),
            self._in_district(session, seq, draw.district, amount=draw.amount),
        ]

    def _in_district(
        self, session: int, seq: int, district: int, *, orders: int = 0, amount: int = 0
    ) -> Statement:
        written = self._overwritten(DISTRICT, session, seq, district)
        return Statement(UPDATE_DISTRICT.name, (orders, amount, *written))

    def _overwritten(
        self, table: TableSpec, session: int, seq: int, part: int
    ) -> tuple[int | bytes, ...]:
        """Return what an update writes to a row, and where the row is."""
        values = self._schedules[table].values(session, seq, part)
        epoch, _, _, _, payload, check = values
        return seq, payload, check, epoch, session, part
