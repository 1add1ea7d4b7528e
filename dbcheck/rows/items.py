"""Items, compared with the ledger's rows of the operations that wrote them.

An item is inserted by one operation, may be updated or deleted by another one, and
bears the key of the operation that wrote it last.  The rows in the ledger show which of
these operations took place; from that follows whether the item must be there, and in
which version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from dbcheck.rows.acks import SEQ_MAX, SESSION_MAX, Ints
from dbcheck.rows.earlier import Earlier
from dbcheck.rows.effects import Effects, Markers, stream_own
from dbcheck.rows.loss import (
    CODES,
    Codes,
    LossArray,
    LossKind,
    make_losses_of_rows,
    make_unnamed_losses,
)
from dbcheck.rows.reconcile import Observed
from dbcheck.rows.survivors import (
    DIFFERENT,
    RECORD,
    Flags,
    Records,
    find_distinct,
    is_among,
    is_among_distinct,
)
from dbcheck.rows.table import TableSpec

_NO_LOSS = 255
_PART_BITS = 8
_SESSION_SHIFT = _PART_BITS + SEQ_MAX.bit_length()
_TORN, _STALE = CODES[LossKind.TORN], CODES[LossKind.STALE]
_RESURRECTED, _DUPLICATE = CODES[LossKind.RESURRECTED], CODES[LossKind.DUPLICATE]


@dataclass(frozen=True, slots=True)
class Items:
    """Some items of a session, in columns: the operations that write to each item.

    part:        the item's part of the operation that inserts it, 1..255.
    inserted, updated, deleted: seq of the operation that inserts, updates or deletes
                 the item; 0 if none does.
    rolled_back: seq of an operation that writes to the item and rolls that back; 0 if
                 none does.
    """

    part: Ints
    inserted: Ints
    updated: Ints
    deleted: Ints
    rolled_back: Ints

    @classmethod
    def inserts(cls, part: Ints, seq: Ints) -> Self:
        """Return items that are inserted, and never updated or deleted."""
        none = np.zeros_like(seq)
        return cls(part, seq, none, none, none)

    @classmethod
    def undone(cls, part: Ints, seq: Ints) -> Self:
        """Return items whose insert their operation rolls back."""
        none = np.zeros_like(seq)
        return cls(part, none, none, none, seq)


# Takes a session and a seq; yields the items that the operations of the session up to
# that seq write to, and perhaps items of later operations.
Written = Callable[[int, int], Iterable[Items]]


def judge_items(
    seen: Observed, table: TableSpec, epoch: int, markers: Markers, written: Written
) -> Effects:
    """Judge the operations that wrote items to *table*, by its rows.

    table:   read in one transaction with the rows of *markers*.
    written: yields the items of a session.
    """
    earlier = Earlier(table, seen.before[table.name])
    rows = _Rows(table, stream_own(seen, table, epoch, earlier))
    losses = [rows.list_damaged_rows(markers), rows.list_repeated_rows()]
    for session in markers.sessions():
        for items in written(session, int(markers.tops[session])):
            losses.append(_find_losses(items, session, markers, rows))
    losses.append(rows.list_untaken_rows())
    return Effects(np.concatenate(losses), earlier)


class _Rows:
    """The rows of items that were read, each found by the operation in its key.

    Of an intact row only the key, as a number, and the id are kept: 17 bytes, and twice
    that while they are sorted.
    """

    def __init__(self, table: TableSpec, batches: Iterable[Records]) -> None:
        self.table = table
        damaged = [np.empty(0, RECORD)]
        numbers, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for records in batches:
            is_intact = _flag_valid_keys(records) & (records["content"] != DIFFERENT)
            damaged.append(records[~is_intact])
            intact = records[is_intact]
            numbers.append(_number_records(intact))
            ids.append(intact["row_id"].astype(np.int64))
        self._damaged = np.concatenate(damaged)
        self._damaged_numbers = find_distinct(_number_records(self._damaged))
        unsorted = np.concatenate(numbers)
        numbers.clear()
        order = np.argsort(unsorted, kind="stable")
        self._numbers = unsorted[order]
        del unsorted
        self._ids = np.concatenate(ids)[order]
        self._taken = np.zeros(self._numbers.size, np.bool_)

    def list_damaged_rows(self, markers: Markers) -> LossArray:
        """Return the losses of the rows that do not have the content that was sent."""
        is_of_operation = is_among(
            self._damaged["row_id"], markers.own(self._damaged)["row_id"]
        )
        kinds = np.where(
            is_of_operation, CODES[LossKind.CORRUPT], CODES[LossKind.UNEXPECTED]
        ).astype(np.uint8)
        return make_losses_of_rows(kinds, self._damaged, self.table)

    def list_repeated_rows(self) -> LossArray:
        """Return the losses of the rows whose key an earlier row has already."""
        is_repeated = np.zeros(self._numbers.size, np.bool_)
        is_repeated[1:] = self._numbers[1:] == self._numbers[:-1]
        self._taken |= is_repeated
        return self._make_losses(is_repeated, _DUPLICATE)

    def take_ids(self, session: int, seq: Ints, part: Ints) -> Ints:
        """Return the id of the row of each item, 0 if it has none; take the rows.

        The id is -1 if a damaged row has the item's key: that row is a loss already.
        """
        wanted = _number_items(session, seq, part)
        ids = np.zeros(wanted.size, np.int64)
        if self._numbers.size:
            places = np.searchsorted(self._numbers, wanted).clip(
                max=self._numbers.size - 1
            )
            is_there = (self._numbers[places] == wanted) & (seq > 0)
            self._taken[places[is_there]] = True
            ids[is_there] = self._ids[places[is_there]]
        if self._damaged_numbers.size:
            is_damaged = is_among_distinct(wanted, self._damaged_numbers)
            ids[(ids == 0) & (seq > 0) & is_damaged] = -1
        return ids

    def list_untaken_rows(self) -> LossArray:
        """Return the losses of the rows that no operation wrote: none was taken."""
        return self._make_losses(~self._taken, CODES[LossKind.UNEXPECTED])

    def _make_losses(self, are_lost: Flags, kind: int) -> LossArray:
        """Return losses of one kind of intact rows."""
        numbers = self._numbers[are_lost]
        losses = make_unnamed_losses(np.full(numbers.size, kind, np.uint8), self.table)
        losses["session"] = numbers >> _SESSION_SHIFT
        losses["seq"] = numbers >> _PART_BITS & SEQ_MAX
        losses["row_id"] = self._ids[are_lost]
        return losses


@dataclass(frozen=True, slots=True)
class _IdsOfItems:
    """The ids of the rows of some items, by version; see _Rows.take_ids().

    old, new: of the item as inserted, and as updated.
    undone:   of the item as an operation wrote it and rolled it back.
    """

    old: Ints
    new: Ints
    undone: Ints

    def pick_any_id(self) -> Ints:
        """Return the id of one row of each item, -1 if it has none."""
        ids = np.maximum(np.maximum(self.old, self.new), self.undone)
        return np.where(ids > 0, ids, -1)


def _find_losses(
    items: Items, session: int, markers: Markers, rows: _Rows
) -> LossArray:
    """Return the losses among *items*, which are of *session*."""
    ids = _IdsOfItems(
        rows.take_ids(session, items.inserted, items.part),
        rows.take_ids(session, items.updated, items.part),
        rows.take_ids(session, items.rolled_back, items.part),
    )
    ops = (items.inserted, items.updated, items.deleted)
    top = int(markers.tops[session])
    took_place = [markers.present(session, op) for op in ops]
    kinds, seq = _judge_items(items, ids, took_place, top)
    places = np.flatnonzero(kinds != _NO_LOSS)
    if places.size:  # no loss if damaged rows of the ledger explain it
        took_place = [markers.perhaps_present(session, op) for op in ops]
        kinds_if_damaged_count, _ = _judge_items(items, ids, took_place, top)
        places = places[kinds_if_damaged_count[places] != _NO_LOSS]
    losses = make_unnamed_losses(kinds[places], rows.table)
    losses["session"], losses["seq"] = session, seq[places]
    losses["row_id"] = ids.pick_any_id()[places]
    return losses


def _judge_items(
    items: Items, ids: _IdsOfItems, took_place: list[Flags], top: int
) -> tuple[Codes, Ints]:
    """Return the kind of loss of each item, and the seq of the operation it is of.

    took_place: for each item, whether its insert, its update, its delete took place.
    top: the last operation of the session that can have been sent.
    """
    inserted, updated, deleted = took_place
    old, new, undone = ids.old != 0, ids.new != 0, ids.undone != 0
    must_exist = inserted & ~deleted
    # An operation is torn if its row is in the ledger and its item is not, or the
    # other way round.  If an item is missing and its delete has no row in the ledger,
    # the delete is the torn operation, provided that it can have been sent.
    may_be_sent = (items.deleted > 0) & (items.deleted <= top)
    torn_operation = np.where(may_be_sent, items.deleted, items.inserted)
    conditions = [
        (undone, _RESURRECTED, items.rolled_back),
        (deleted & (old | new), _RESURRECTED, items.deleted),
        (~inserted & (old | new), _TORN, items.inserted),
        (old & new, _DUPLICATE, items.updated),
        (must_exist & updated & old, _STALE, items.updated),
        (must_exist & ~updated & new, _TORN, items.updated),
        (must_exist & ~old & ~new, _TORN, torn_operation),
    ]
    kinds = np.full(items.part.size, _NO_LOSS, np.uint8)
    seq = np.zeros(items.part.size, np.int64)
    for condition, kind, operation in reversed(conditions):
        kinds[condition], seq[condition] = kind, operation[condition]
    return kinds, seq


def _flag_valid_keys(records: Records) -> Flags:
    """Flag the rows with a key that an operation can have."""
    session, seq, part = (records[name] for name in ("session", "seq", "part"))
    is_valid: Flags = (session >= 0) & (session <= SESSION_MAX)
    is_valid &= (seq >= 1) & (seq <= SEQ_MAX)
    is_valid &= (part >= 1) & (part < 1 << _PART_BITS)
    return is_valid


def _number_items(session: Ints | int, seq: Ints, part: Ints) -> Ints:
    """Return one number for session, seq and part of each item."""
    numbers: Ints = (
        session << _SESSION_SHIFT | seq.astype(np.int64) << _PART_BITS | part
    )
    return numbers


def _number_records(records: Records) -> Ints:
    session, seq = records["session"].astype(np.int64), records["seq"]
    return _number_items(session, seq, records["part"].astype(np.int64))
