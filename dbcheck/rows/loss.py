"""The kinds of loss, lists of losses that a person can read, and conditions among rows.

An index that disagrees with its table is a loss, even if no row is missing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from dbcheck.base.text import Explained
from dbcheck.rows.acks import AckArray
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import TABLES, TableSpec


class Trait(enum.Flag):
    """Traits of a kind of loss, by which losses are counted and explained.

    MISSING:  the row of an acked commit is not there.
    GONE:     the commit is gone, at least in part; without it, there and damaged.
    NOT_KEPT: the operation is not kept, though its row of the ledger may be there.
    OF_PAGES: pages of a table or an index that came back old or damaged explain it.
    """

    NONE = 0
    MISSING = enum.auto()
    GONE = enum.auto()
    NOT_KEPT = enum.auto()
    OF_PAGES = enum.auto()


class LossKind(Explained):
    """What went wrong with a row, or with all; a reason for FAIL if no client did it.

    docs/losses.md has a section on each.
    """

    MISSING_TAIL = (
        "missing-tail",
        "The newest commits of a session are lost.",
        Trait.MISSING | Trait.GONE,
    )
    MISSING_HOLE = (
        "missing-hole",
        "A commit is lost although a later commit of its session survived.",
        Trait.MISSING | Trait.GONE,
    )
    CORRUPT = (
        "corrupt",
        "A row of an acknowledged commit has other content than was sent.",
        Trait.NOT_KEPT | Trait.OF_PAGES,
    )
    DUPLICATE = ("duplicate", "A row is in the table twice.", Trait.NONE)
    UNEXPECTED = (
        "unexpected",
        "A row is there that no client of the run can have written.",
        Trait.NONE,
    )
    STALE = (
        "stale",
        "An acknowledged update is lost: the row has its older content.",
        Trait.GONE | Trait.NOT_KEPT | Trait.OF_PAGES,
    )
    TORN = (
        "torn",
        "A transaction survived in part: some of its changes are lost.",
        Trait.GONE | Trait.NOT_KEPT | Trait.OF_PAGES,
    )
    RESURRECTED = (
        "resurrected",
        "A row is back that was deleted or rolled back.",
        Trait.GONE | Trait.NOT_KEPT | Trait.OF_PAGES,
    )
    PREPARED = (
        "prepared",
        "A prepared transaction is lost, or is prepared again although it was "
        "committed or rolled back.",
        Trait.GONE | Trait.NOT_KEPT,
    )
    INCONSISTENT = (
        "inconsistent",
        "The server's own sums over the rows do not agree, so part of a transaction "
        "is lost (plan `order-entry`).",
        Trait.OF_PAGES,
    )
    UNSTABLE = (
        "unstable",
        "A row that was read after the cut was lost or changed by a clean restart "
        "(`--twice`).",
        Trait.OF_PAGES,
    )
    DIVERGED = (
        "diverged",
        "Nodes of a group hold different rows although each has applied everything.",
        Trait.NONE,
    )
    INDEX_MISMATCH = (
        "index-mismatch",
        "Index and table disagree: a query can miss rows, or find rows that are gone.",
        Trait.OF_PAGES,
    )
    UNRECOVERABLE = (
        "unrecoverable",
        "The server, or a table of the run, did not come back from the cut.",
        Trait.NONE,
    )

    traits: Trait

    def __init__(self, *stated: Any) -> None:
        _name, _means, self.traits = stated


def list_kinds(trait: Trait) -> tuple[LossKind, ...]:
    """Return the kinds of loss that have *trait*."""
    return tuple(kind for kind in LossKind if trait in kind.traits)


MISSING = frozenset(list_kinds(Trait.MISSING))


class Loss(NamedTuple):
    """One row that is missing, or not as it was sent.

    session, seq: of its key; -1 where the row has no key of this run.
    row_id:       the id that was acked, or the one found if nothing was acked.
    acked_us:     when it was acked, on the client's clock; -1 if it was not.
    table:        the name of the table that the row, and so its id, is of.
    """

    kind: LossKind
    session: int
    seq: int
    row_id: int
    acked_us: int
    table: str


class IdRange(NamedTuple):
    """Losses of one kind in one table with consecutive ids.

    first_us, last_us: earliest and latest ack among them; -1 if not acked.
    """

    kind: LossKind
    table: str
    first_id: int
    last_id: int
    first_us: int
    last_us: int

    @property
    def rows(self) -> int:
        """Number of rows in the range."""
        return self.last_id - self.first_id + 1


_KINDS = sorted(LossKind, key=lambda kind: kind.value)
CODES = {kind: code for code, kind in enumerate(_KINDS)}


def list_codes(trait: Trait) -> npt.NDArray[np.int64]:
    """Return the codes of the kinds of loss that have *trait*."""
    return np.array([CODES[kind] for kind in list_kinds(trait)])


# A loss; kind: its code; table: its place in TABLES.  A drive that lies may lose ten
# million rows at once, of which objects take several gigabytes.
LOSS = np.dtype(
    [
        ("kind", "u1"),
        ("session", "<i4"),
        ("seq", "<i8"),
        ("row_id", "<i8"),
        ("acked_us", "<i8"),
        ("table", "u1"),
    ]
)
LossArray = npt.NDArray[np.void]
Codes = npt.NDArray[np.uint8]
_LOSSES_AT_ONCE = 1 << 14
_SEQ_BITS = 40
_PLACES = {table.name: place for place, table in enumerate(TABLES)}


def make_unnamed_losses(kinds: Codes, table: TableSpec) -> LossArray:
    """Return losses of *kinds* in *table*, of no row and of no operation yet."""
    losses = np.full(len(kinds), np.array((0, -1, -1, -1, -1, 0), LOSS))
    losses["kind"], losses["table"] = kinds, TABLES.index(table)
    return losses


def make_losses_of_acks(kinds: Codes, acks: AckArray, table: TableSpec) -> LossArray:
    """Return the losses of the rows of *table* that *acks* acked."""
    losses = make_unnamed_losses(kinds, table)
    for name in ("session", "seq", "row_id", "acked_us"):
        losses[name] = acks[name]
    return losses


def make_losses_of_rows(kinds: Codes, records: Records, table: TableSpec) -> LossArray:
    """Return the losses of rows of *table* that were read; no ack of them is known."""
    losses = make_unnamed_losses(kinds, table)
    for name in ("session", "seq", "row_id"):
        losses[name] = records[name]
    return losses


def make_losses_without_key(
    kinds: Codes, row_ids: npt.NDArray[np.int64], table: TableSpec
) -> LossArray:
    """Return the losses of rows of *table* that have no key of this run."""
    losses = make_unnamed_losses(kinds, table)
    losses["row_id"] = row_ids
    return losses


def number_operations(rows: LossArray | AckArray) -> npt.NDArray[np.int64]:
    """Return the operations of losses, acks or rows, a number for each."""
    numbers: npt.NDArray[np.int64] = rows["session"].astype(np.int64) << _SEQ_BITS
    numbers |= rows["seq"].astype(np.int64)
    return numbers


class Losses(Sequence[Loss]):
    """Losses in columns; an object is made for a loss when it is read."""

    def __init__(self, columns: LossArray) -> None:
        """Hold *columns* of LOSS."""
        self._columns = columns

    @classmethod
    def of(cls, losses: Iterable[Loss]) -> Self:
        """Hold *losses*."""
        return cls(np.array([_to_values(loss) for loss in losses], LOSS))

    @classmethod
    def gathered(cls, count: int, parts: Iterable[LossArray]) -> Self:
        """Hold what *parts* have together, *count* losses, without a second copy."""
        columns = np.empty(count, LOSS)
        at = 0
        for part in parts:
            columns[at : at + len(part)] = part
            at += len(part)
        assert at == count
        return cls(columns)

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, at: int) -> Loss: ...
    @overload
    def __getitem__(self, at: slice) -> Losses: ...
    def __getitem__(self, at: int | slice) -> Loss | Losses:
        if isinstance(at, slice):
            return Losses(self._columns[at])
        return _make_loss(self._columns[at].item())

    def __iter__(self) -> Iterator[Loss]:
        for begin in range(0, len(self), _LOSSES_AT_ONCE):
            yield from map(
                _make_loss, self._columns[begin : begin + _LOSSES_AT_ONCE].tolist()
            )

    @property
    def columns(self) -> LossArray:
        """All losses."""
        return self._columns

    @property
    def counts(self) -> dict[LossKind, int]:
        """Number of losses of each kind; only kinds that occur."""
        counted = np.bincount(self._columns["kind"], minlength=len(_KINDS)).tolist()
        return {kind: rows for kind, rows in zip(_KINDS, counted, strict=True) if rows}

    def by_id(self) -> Iterator[Loss]:
        """Yield the losses in order of their ids, one table after the other."""
        order = np.lexsort((self._columns["row_id"], self._columns["table"]))
        for begin in range(0, len(order), _LOSSES_AT_ONCE):
            yield from Losses(self._columns[order[begin : begin + _LOSSES_AT_ONCE]])

    def ranges(self) -> Iterator[IdRange]:
        """Yield the losses as ranges of consecutive ids, by kind, table and id.

        A range is of one kind and of one table: ids of two tables have nothing in
        common.
        """
        for code, kind in enumerate(_KINDS):
            for place, table in enumerate(TABLES):
                is_own = self._columns["kind"] == code
                is_own &= self._columns["table"] == place
                if is_own.any():
                    columns = (self._columns[name][is_own] for name in _RANGE_COLUMNS)
                    yield from _list_ranges(kind, table.name, *columns)


_RANGE_COLUMNS = ("row_id", "acked_us")


def _to_values(loss: Loss) -> tuple[int, int, int, int, int, int]:
    return (CODES[loss.kind], *loss[1:-1], _PLACES[loss.table])


def _make_loss(values: tuple[int, int, int, int, int, int]) -> Loss:
    return Loss(_KINDS[values[0]], *values[1:-1], TABLES[values[-1]].name)


def _list_ranges(
    kind: LossKind,
    table: str,
    ids: npt.NDArray[np.int64],
    acked_us: npt.NDArray[np.int64],
) -> Iterator[IdRange]:
    order = np.argsort(ids, kind="stable")
    ids, acked_us = ids[order], acked_us[order]
    begins = np.r_[0, np.flatnonzero(np.diff(ids) != 1) + 1]
    ends = np.r_[begins[1:], len(ids)] - 1
    earliest = np.minimum.reduceat(acked_us, begins)
    latest = np.maximum.reduceat(acked_us, begins)
    columns = (ids[begins], ids[ends], earliest, latest)
    for begin in range(0, len(begins), _LOSSES_AT_ONCE):
        parts_of_columns = (
            column[begin : begin + _LOSSES_AT_ONCE].tolist() for column in columns
        )
        for values in zip(*parts_of_columns, strict=True):
            yield IdRange(kind, table, *values)


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """A disagreement of table and index, found once the table had been read.

    reason: why table and index disagree.
    rows:   how many rows they disagree on, at least.
    ids:    of the rows that the index does not find, in their order, as far as they
            were checked.
    table:  its name, "" if the server's own check found it.
    """

    reason: str
    rows: int
    ids: tuple[int, ...] = ()
    table: str = ""

    def __post_init__(self) -> None:
        """Refuse what no reading can have found."""
        if not self.reason or self.rows < max(1, len(self.ids)):
            raise ValueError(f"an index lost {self.rows} rows: {self.reason!r}")

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        return {LossKind.INDEX_MISMATCH.value: self.rows}


CONDITIONS_OF_ORDERS = "conditions_orders"  # in sql/FAMILY/

# TPC-C 5.11, 3.3.2.1 to 3.3.2.4: what must be equal, and what the place is.
_TEXTS_OF_CONDITIONS = {
    1: ("the sum of a warehouse and that of its districts", "warehouse"),
    2: ("the district's next number less one and its newest order", "district"),
    3: ("the span of the district's new orders and their count", "district"),
    4: ("the lines that an order should have and those it has", "operation"),
}


class Broken(NamedTuple):
    """A condition that does not hold.

    condition: its number, as its statement in sql/ has it.
    session, place: whose rows, and which of them; see that statement.
    found, expected: the two numbers that had to be equal.
    """

    condition: int
    session: int
    place: int
    found: int
    expected: int

    def __str__(self) -> str:
        text, place = _TEXTS_OF_CONDITIONS[self.condition]
        return (
            f"condition {self.condition}, session {self.session}, {place} {self.place}:"
            f" {text} are {self.found:,} and {self.expected:,}"
        )


@dataclass(frozen=True, slots=True)
class ConditionCheck:
    """What the server answered when it was asked which conditions do not hold.

    broken:   those that do not, the first hundred.
    not_done: why it could not be asked, "" if it was.
    """

    broken: tuple[Broken, ...] = ()
    not_done: str = ""

    @property
    def reason(self) -> str:
        """The first of them, and how many more there are; "" if there are none."""
        first, *others = [*map(str, self.broken)] or [""]
        return f"{first}; and {len(others)} more" if others else first

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        count = len(self.broken)
        return {LossKind.INCONSISTENT.value: count} if count else {}
