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
from dbcheck.rows.effects import Effects, Markers, split_by_epoch
from dbcheck.rows.loss import (
    CODES,
    Codes,
    LossArray,
    LossKind,
    make_losses_of_rows,
    make_unnamed_losses,
)
from dbcheck.rows.reconcile import Observed
from dbcheck.rows.survivors import DIFFERENT, Flags, Records, is_among
from dbcheck.rows.table import TableSpec

_NO_LOSS = 255
_PART_BITS = 8
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
    own, earlier = split_by_epoch(seen, table, epoch)
    rows = _Rows(table, own)
    losses = [rows.list_damaged_rows(markers), rows.list_repeated_rows()]
    for session in markers.sessions():
        for items in written(session, int(markers.tops[session])):
            losses.append(_find_losses(items, session, markers, rows))
    losses.append(rows.list_untaken_rows())
    return Effects(np.concatenate(losses), earlier)


class _Rows:
    """The rows of items that were read, each found by the operation in its key."""

    def __init__(self, table: TableSpec, records: Records) -> None:
        self.table = table
        has_valid_key: Flags = (records["session"] >= 0) & (
            records["session"] <= SESSION_MAX
        )
        has_valid_key &= (records["seq"] >= 1) & (records["seq"] <= SEQ_MAX)
        has_valid_key &= (records["part"] >= 1) & (records["part"] < 1 << _PART_BITS)
        self._damaged = records[(records["content"] == DIFFERENT) | ~has_valid_key]
        intact = records[(records["content"] != DIFFERENT) & has_valid_key]
        order = np.argsort(_number_records(intact), kind="stable")
        self._intact = intact[order]
        self._numbers = _number_records(self._intact)
        self._taken = np.zeros(self._numbers.size, np.bool_)
        self._damaged_numbers = _number_records(self._damaged)

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
        rows = self._intact[is_repeated]
        return make_losses_of_rows(
            np.full(len(rows), _DUPLICATE, np.uint8), rows, self.table
        )

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
            ids[is_there] = self._intact["row_id"][places[is_there]]
        ids[(ids == 0) & (seq > 0) & is_among(wanted, self._damaged_numbers)] = -1
        return ids

    def list_untaken_rows(self) -> LossArray:
        """Return the losses of the rows that no operation wrote: none was taken."""
        untaken = self._intact[~self._taken]
        kinds = np.full(len(untaken), CODES[LossKind.UNEXPECTED], np.uint8)
        return make_losses_of_rows(kinds, untaken, self.table)


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


def _number_items(session: Ints | int, seq: Ints, part: Ints) -> Ints:
    """Return one number for session, seq and part of each item."""
    numbers: Ints = session << 40 | seq.astype(np.int64) << _PART_BITS | part
    return numbers


def _number_records(records: Records) -> Ints:
    session, seq = records["session"].astype(np.int64), records["seq"]
    return _number_items(session, seq, records["part"].astype(np.int64))
