"""What the operations of order entry do, drawn from the seed and the key.

After the New-Order and Payment transactions of TPC-C 5.11 (2.4, 2.5, 2.8.1).  A session
is a terminal, and has a warehouse of its own: so no two sessions write to one row, and
the rows of a terminal are those after its first n operations.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dbcheck.rows.expected import Ints, crc32_of_words
from dbcheck.rows.items import Items

DISTRICTS = 10  # of a warehouse (1.2.1)

# The parts of an operation: a row of each table has one that no other table's has.
DISTRICT_PARTS = range(1, DISTRICTS + 1)
ORDER_PART, NEW_ORDER_PART = 11, 12
LINES_MAX = 16  # TPC-C: 5 to 15
LINE_PARTS = range(13, 13 + LINES_MAX)
WAREHOUSE_PART = LINE_PARTS.stop

_LINES_STEP = 4  # as many as one statement inserts: 4, 8, 12 or 16, 10 on average
_AMOUNT_MAX = 5000  # of a payment (2.5.1.3)
_PER_CENT = 100
_ORDERS_PER_CENT = 51  # New-Order 45 beside Payment 43 (5.2.3)
_UNDONE_PER_CENT = 1  # of the orders (2.4.1.4)
_AT_ONCE = 1 << 16  # operations
_DRAW = struct.Struct("<QQQQ")
_PURPOSE = 0x6F72646572  # tells this draw from others by the same key


class OrderAction(enum.Enum):
    """What one operation does beside the row that it inserts into the ledger."""

    OPEN = "open"  # inserts the warehouse and its districts; the first of a session
    ORDER = "order"  # takes the district's next number, inserts an order and its lines
    UNDONE = "undone"  # does the same, and rolls it back
    PAYMENT = "payment"  # adds an amount to the warehouse and a district


class OrderDraw(NamedTuple):
    """What one operation does.

    district: 1..DISTRICTS.  lines: of an order.  amount: of a payment.
    """

    action: OrderAction
    district: int
    lines: int
    amount: int


def drawn(seed: int, session: int, seq: int) -> OrderDraw:
    """Return what operation (session, seq) does."""
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
    """What some operations do, in columns; seq has each once."""

    seq: Ints
    is_payment: np.ndarray[tuple[int], np.dtype[np.bool_]]
    is_undone: np.ndarray[tuple[int], np.dtype[np.bool_]]
    district: Ints
    lines: Ints

    @property
    def orders(self) -> tuple[Ints, Ints]:
        """The seq and the number of lines of each order that is committed."""
        own = ~self.is_payment & ~self.is_undone
        return self.seq[own], self.lines[own]

    @property
    def undone(self) -> tuple[Ints, Ints]:
        """The same of each that is rolled back."""
        own = ~self.is_payment & self.is_undone
        return self.seq[own], self.lines[own]


class Orders:
    """What all operations of a run do, as rows.items and rows.registers take it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def warehouses(self, session: int, top: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the writes to the warehouse; see rows.registers.Written."""
        for some in self._drawn(session, top):
            seq = some.seq[some.is_payment]
            yield np.full_like(seq, WAREHOUSE_PART), seq
        first = np.ones(1, np.int64)
        yield first * WAREHOUSE_PART, first

    def districts(self, session: int, top: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the writes to the districts; see rows.registers.Written."""
        for some in self._drawn(session, top):
            kept = some.is_payment | ~some.is_undone
            yield some.district[kept], some.seq[kept]
        parts = np.array(DISTRICT_PARTS)
        yield parts, np.ones_like(parts)

    def orders(self, session: int, top: int) -> Iterator[Items]:
        """Yield the rows of the orders; see rows.items.Written."""
        return self._single(session, top, ORDER_PART)

    def new_orders(self, session: int, top: int) -> Iterator[Items]:
        """Yield the rows of the orders that are not delivered."""
        return self._single(session, top, NEW_ORDER_PART)

    def lines(self, session: int, top: int) -> Iterator[Items]:
        """Yield the rows of the orders' lines."""
        for some in self._drawn(session, top):
            yield Items.inserts(*_lines(*some.orders))
            yield Items.undone(*_lines(*some.undone))

    def _single(self, session: int, top: int, part: int) -> Iterator[Items]:
        for some in self._drawn(session, top):
            (kept, _), (undone, _) = some.orders, some.undone
            yield Items.inserts(np.full_like(kept, part), kept)
            yield Items.undone(np.full_like(undone, part), undone)

    def _drawn(self, session: int, top: int) -> Iterator[_Drawn]:
        """Yield what the operations of a session behind its first one do, up to *top*.

        Equals drawn() to the bit; the tests compare the two.
        """
        for begin in range(2, top + 1, _AT_ONCE):
            seq = np.arange(begin, min(begin + _AT_ONCE, top + 1))
            draw = crc32_of_words(self._seed, session, seq, _PURPOSE).astype(np.int64)
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


def _lines(seq: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Return the part and the seq of each line of the orders."""
    ends = np.cumsum(lines)
    places = np.arange(lines.sum()) - np.repeat(ends - lines, lines)
    return places + LINE_PARTS.start, np.repeat(seq, lines)
