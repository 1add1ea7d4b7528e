"""Orders of terminals, after the New-Order and Payment transactions of TPC-C.

They follow TPC-C 5.11 (2.4, 2.5, 2.8.1), and are drawn from the seed and the key.  A
session is a terminal, and has a warehouse of its own: so no two sessions write to one
row, and what the first n operations of a session write decides its rows.

The number of an order comes from a counter of its district, which the same transaction
increments on the server; so beside the rows, whose keys decide all else in them, the
server's own sums must agree (rows.loss).
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from dbcheck.rows.acks import Ints
from dbcheck.rows.effects import Markers, add_effects
from dbcheck.rows.items import Items, judge_items
from dbcheck.rows.items import Written as ItemsWritten
from dbcheck.rows.loss import CONDITIONS_OF_ORDERS
from dbcheck.rows.mix import BATCH_ROWS
from dbcheck.rows.operation import ROLLBACK, Operation, Statement, StatementSpec, Verb
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.reconcile import Observed, Reconciliation, reconcile
from dbcheck.rows.registers import judge_registers
from dbcheck.rows.schedule import Schedule, compute_crc32_of_words
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

DISTRICTS = 10  # of a warehouse (1.2.1)

# The parts of an operation: each table has parts of its own.
DISTRICT_PARTS = range(1, DISTRICTS + 1)
ORDER_PART, NEW_ORDER_PART = 11, 12
LINES_MAX = 16  # lines of an order; 5 to 15 in TPC-C
LINE_PARTS = range(13, 13 + LINES_MAX)
WAREHOUSE_PART = LINE_PARTS.stop

_LINES_STEP = 4  # one statement inserts 4; an order has 4, 8, 12 or 16, 10 on average
_AMOUNT_MAX = 5000  # of a payment (2.5.1.3)
_PER_CENT = 100
_ORDERS_PER_CENT = 51  # New-Order 45 beside Payment 43 (5.2.3)
_UNDONE_PER_CENT = 1  # of the orders (2.4.1.4)
_DRAWN_AT_ONCE = 1 << 16  # operations
_DRAW = struct.Struct("<QQQQ")
_PURPOSE = 0x6F72646572  # keeps this draw apart from other draws by the same key


class OrderAction(enum.Enum):
    """Part of an operation beside the row that it inserts into the ledger."""

    OPEN = "open"  # inserts the warehouse and its districts; the first of a session
    ORDER = "order"  # takes the district's next number, inserts an order and its lines
    UNDONE = "undone"  # does the same, and rolls it back
    PAYMENT = "payment"  # adds an amount to the warehouse and a district


class OrderDraw(NamedTuple):
    """Draw of one operation.

    district: 1..DISTRICTS.  lines: how many an order has.  amount: of a payment.
    """

    action: OrderAction
    district: int
    lines: int
    amount: int


def draw_operation(seed: int, session: int, seq: int) -> OrderDraw:
    """Draw operation (session, seq)."""
    draw = zlib.crc32(_DRAW.pack(seed, session, seq, _PURPOSE))
    draw, action = divmod(draw, _PER_CENT)
    draw, undone = divmod(draw, _PER_CENT)
    draw, district = divmod(draw, DISTRICTS)
    amount, lines = divmod(draw, LINES_MAX // _LINES_STEP)
    if seq == 1:
        kind = OrderAction.OPEN
    elif action >= _ORDERS_PER_CENT:
        kind = OrderAction.PAYMENT
    else:
        is_undone = undone < _UNDONE_PER_CENT
        kind = OrderAction.UNDONE if is_undone else OrderAction.ORDER
    lines = (lines + 1) * _LINES_STEP
    return OrderDraw(kind, district + 1, lines, amount % _AMOUNT_MAX + 1)


class _Drawn(NamedTuple):
    """Draws of some operations, in columns, one operation in each line."""

    seq: Ints
    is_payment: np.ndarray[tuple[int], np.dtype[np.bool_]]
    is_undone: np.ndarray[tuple[int], np.dtype[np.bool_]]
    district: Ints
    lines: Ints

    @property
    def orders(self) -> tuple[Ints, Ints]:
        """The seq and the number of lines of each order that is committed."""
        is_committed_order = ~self.is_payment & ~self.is_undone
        return self.seq[is_committed_order], self.lines[is_committed_order]

    @property
    def undone(self) -> tuple[Ints, Ints]:
        """The seq and the number of lines of each order that is rolled back."""
        is_undone_order = ~self.is_payment & self.is_undone
        return self.seq[is_undone_order], self.lines[is_undone_order]


class Orders:
    """Effects of a run's operations, as rows.items and rows.registers take them."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def warehouses(self, session: int, top: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the writes to the warehouse; see rows.registers.Written."""
        for drawn in self._draw_operations(session, top):
            seq = drawn.seq[drawn.is_payment]
            yield np.full_like(seq, WAREHOUSE_PART), seq
        opening = np.ones(1, np.int64)
        yield opening * WAREHOUSE_PART, opening

    def districts(self, session: int, top: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the writes to the districts; see rows.registers.Written."""
        for drawn in self._draw_operations(session, top):
            is_committed = drawn.is_payment | ~drawn.is_undone
            yield drawn.district[is_committed], drawn.seq[is_committed]
        parts = np.array(DISTRICT_PARTS)
        yield parts, np.ones_like(parts)

    def orders(self, session: int, top: int) -> Iterator[Items]:
        """Yield the rows of the orders; see rows.items.Written."""
        return self._list_single_rows(session, top, ORDER_PART)

    def new_orders(self, session: int, top: int) -> Iterator[Items]:
        """Yield the rows of the orders that are not delivered."""
        return self._list_single_rows(session, top, NEW_ORDER_PART)

    def lines(self, session: int, top: int) -> Iterator[Items]:
        """Yield the rows of the orders' lines."""
        for drawn in self._draw_operations(session, top):
            yield Items.inserts(*_number_lines(*drawn.orders))
            yield Items.undone(*_number_lines(*drawn.undone))

    def _list_single_rows(self, session: int, top: int, part: int) -> Iterator[Items]:
        for drawn in self._draw_operations(session, top):
            (committed, _), (undone, _) = drawn.orders, drawn.undone
            yield Items.inserts(np.full_like(committed, part), committed)
            yield Items.undone(np.full_like(undone, part), undone)

    def _draw_operations(self, session: int, top: int) -> Iterator[_Drawn]:
        """Yield the draws of a session's operations from its second up to *top*.

        Equals draw_operation() to the bit; the tests compare the two.
        """
        for begin in range(2, top + 1, _DRAWN_AT_ONCE):
            seq = np.arange(begin, min(begin + _DRAWN_AT_ONCE, top + 1))
            draw = compute_crc32_of_words(self._seed, session, seq, _PURPOSE).astype(
                np.int64
            )
            draw, action = np.divmod(draw, _PER_CENT)
            draw, undone = np.divmod(draw, _PER_CENT)
            draw, district = np.divmod(draw, DISTRICTS)
            lines = draw % (LINES_MAX // _LINES_STEP)
            yield _Drawn(
                seq,
                action >= _ORDERS_PER_CENT,
                undone < _UNDONE_PER_CENT,
                district + 1,
                (lines + 1) * _LINES_STEP,
            )


def _number_lines(seq: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Return the part and the seq of each line of the orders."""
    ends = np.cumsum(lines)
    places = np.arange(lines.sum()) - np.repeat(ends - lines, lines)
    return places + LINE_PARTS.start, np.repeat(seq, lines)


_OVERWRITTEN_BYTES = 64  # about what a row of TPC-C has beside its numbers (1.3.1)
_INSERTED_BYTES = 24

_UPDATED_COLUMNS = ("seq", "payload", "checksum")
_ROW_KEY_COLUMNS = ("epoch", "session", "part")
_KEYED_COLUMNS = tuple(column.name for column in KEYED[1:])

INSERT_WAREHOUSE = StatementSpec(Verb.INSERT, WAREHOUSE, KEYED[1:])
INSERT_DISTRICT = StatementSpec(Verb.INSERT, DISTRICT, KEYED[1:])
UPDATE_WAREHOUSE = StatementSpec(
    Verb.UPDATE, WAREHOUSE, WAREHOUSE.named("ytd", *_UPDATED_COLUMNS, *_ROW_KEY_COLUMNS)
)
UPDATE_DISTRICT = StatementSpec(
    Verb.UPDATE,
    DISTRICT,
    DISTRICT.named("next_order", "ytd", *_UPDATED_COLUMNS, *_ROW_KEY_COLUMNS),
)
INSERT_ORDER = StatementSpec(
    Verb.INSERT,
    ORDERS,
    ORDERS.named(*_KEYED_COLUMNS, "district", "line_count", *_ROW_KEY_COLUMNS),
)
INSERT_NEW_ORDER = StatementSpec(
    Verb.INSERT,
    NEW_ORDER,
    NEW_ORDER.named(*_KEYED_COLUMNS, "district", *_ROW_KEY_COLUMNS),
)
INSERT_LINES = StatementSpec(
    Verb.INSERT, ORDER_LINE, KEYED[1:] * BATCH_ROWS, rows=BATCH_ROWS
)

_PARTS_BY_TABLE = {
    LEDGER: range(1),
    WAREHOUSE: range(WAREHOUSE_PART, WAREHOUSE_PART + 1),
    DISTRICT: DISTRICT_PARTS,
    ORDERS: range(ORDER_PART, ORDER_PART + 1),
    NEW_ORDER: range(NEW_ORDER_PART, NEW_ORDER_PART + 1),
    ORDER_LINE: LINE_PARTS,
}


class OrderEntryPlan:
    """See rows.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = tuple(_PARTS_BY_TABLE)
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
    housekeeping_tables: tuple[TableSpec, ...] = ()
    housekeeping_statements: tuple[StatementSpec, ...] = ()
    violations_statement = CONDITIONS_OF_ORDERS

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
        self._statement_makers: dict[
            OrderAction, Callable[[int, int, OrderDraw], list[Statement]]
        ] = {
            OrderAction.OPEN: self._open_warehouse,
            OrderAction.ORDER: self._make_order,
            OrderAction.UNDONE: self._make_order,
            OrderAction.PAYMENT: self._make_payment,
        }

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        draw = draw_operation(self._schedule.seed, session, seq)
        statements = self._statement_makers[draw.action](session, seq, draw)
        if draw.action is OrderAction.UNDONE:
            statements.append(ROLLBACK)
        marker = Statement(INSERT.name, self._schedule.values(session, seq))
        return Operation(session, seq, (*statements, marker))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return the judge of the content of each row of *table*."""
        return Inspector(self._schedules[table], _PARTS_BY_TABLE[table])

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        epoch, orders = self._schedule.epoch, Orders(self._schedule.seed)
        inserted = reconcile(seen, LEDGER, epoch)
        markers = Markers(seen, LEDGER, epoch)
        overwritten = {WAREHOUSE: orders.warehouses, DISTRICT: orders.districts}
        effects = [
            judge_registers(
                seen, table, epoch, markers, written, _PARTS_BY_TABLE[table]
            )
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
        return add_effects(inserted, effects, seen.acks, markers)

    def _open_warehouse(
        self, session: int, seq: int, draw: OrderDraw
    ) -> list[Statement]:
        return [
            Statement(spec.name, self._schedules[spec.table].values(session, seq, part))
            for spec in (INSERT_WAREHOUSE, INSERT_DISTRICT)
            for part in _PARTS_BY_TABLE[spec.table]
        ]

    def _make_order(self, session: int, seq: int, draw: OrderDraw) -> list[Statement]:
        values = self._schedules[ORDERS].values
        district = (self._schedule.epoch, session, draw.district)
        order = (*values(session, seq, ORDER_PART), draw.district, draw.lines)
        new_order = (*values(session, seq, NEW_ORDER_PART), draw.district)
        statements = [
            self._update_district(session, seq, draw.district, orders=1),
            Statement(INSERT_ORDER.name, (*order, *district)),
            Statement(INSERT_NEW_ORDER.name, (*new_order, *district)),
        ]
        parts = LINE_PARTS[: draw.lines]
        for at in range(0, len(parts), BATCH_ROWS):
            rows = [values(session, seq, part) for part in parts[at : at + BATCH_ROWS]]
            lines = tuple(value for row in rows for value in row)
            statements.append(Statement(INSERT_LINES.name, lines))
        return statements

    def _make_payment(self, session: int, seq: int, draw: OrderDraw) -> list[Statement]:
        written = self._make_update_values(WAREHOUSE, session, seq, WAREHOUSE_PART)
        return [
            Statement(UPDATE_WAREHOUSE.name, (draw.amount, *written)),
            self._update_district(session, seq, draw.district, amount=draw.amount),
        ]

    def _update_district(
        self, session: int, seq: int, district: int, *, orders: int = 0, amount: int = 0
    ) -> Statement:
        written = self._make_update_values(DISTRICT, session, seq, district)
        return Statement(UPDATE_DISTRICT.name, (orders, amount, *written))

    def _make_update_values(
        self, table: TableSpec, session: int, seq: int, part: int
    ) -> tuple[int | bytes, ...]:
        """Return the values that an update writes to a row, and the row's key."""
        values = self._schedules[table].values(session, seq, part)
        epoch, _, _, _, payload, checksum = values
        return seq, payload, checksum, epoch, session, part
