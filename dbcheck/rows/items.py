"""Items, compared with the ledger's rows of the operations that wrote them.

An item is inserted by one operation, may be updated or deleted by another one, and
bears the key of the operation that wrote it last.  Which of them took place is shown by
their rows in the ledger; so the item must be there in one version, or not.
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
    """Some items of a session, in columns: the operations that wrote to each.

    part:        of the operation that inserted it, 1..255.
    inserted, updated, deleted: seq; 0 where none was to do that.
    rolled_back: seq of an operation that rolled back what it wrote there.
    """

    part: Ints
    inserted: Ints
    updated: Ints
    deleted: Ints
    rolled_back: Ints

    @classmethod
    def inserts(cls, part: Ints, seq: Ints) -> Self:
        """Return items that an operation inserts, and none writes to again."""
        none = np.zeros_like(seq)
        return cls(part, seq, none, none, none)

    @classmethod
    def undone(cls, part: Ints, seq: Ints) -> Self:
        """Return items whose insert their operation rolls back."""
        none = np.zeros_like(seq)
        return cls(part, none, none, none, seq)


# Yields the items of a session as far as its operation of that number, or further.
Written = Callable[[int, int], Iterable[Items]]


def judge_items(
    seen: Observed, table: TableSpec, epoch: int, markers: Markers, written: Written
) -> Effects:
    """Judge the operations that wrote items to *table*, by its rows.

    table:   read in one transaction with the rows of *markers*.
    written: yields the items of a session, of its first so many operations at least.
    """
    own, earlier = split_by_epoch(seen, table, epoch)
    rows = _Rows(table, own)
    losses = [rows.damaged(markers), rows.list_repeated_rows()]
    for session in markers.sessions():
        for items in written(session, int(markers.tops[session])):
            losses.append(_find_losses(items, session, markers, rows))
    losses.append(rows.left())
    return Effects(np.concatenate(losses), earlier)


class _Rows:
    """The items that were read, each found by the operation that wrote it last."""

    def __init__(self, table: TableSpec, records: Records) -> None:
        self.table = table
        named: Flags = (records["session"] >= 0) & (records["session"] <= SESSION_MAX)
        named &= (records["seq"] >= 1) & (records["seq"] <= SEQ_MAX)
        named &= (records["part"] >= 1) & (records["part"] < 1 << _PART_BITS)
        self._damaged = records[(records["content"] == DIFFERENT) | ~named]
        intact = records[(records["content"] != DIFFERENT) & named]
        order = np.argsort(_number_records(intact), kind="stable")
        self._intact = intact[order]
        self._named = _number_records(self._intact)
        self._taken = np.zeros(self._named.size, np.bool_)
        self._names_damaged = _number_records(self._damaged)

    def damaged(self, markers: Markers) -> LossArray:
        """Return the losses of the rows that do not have the content that was sent."""
        known = is_among(self._damaged["row_id"], markers.own(self._damaged)["row_id"])
        kinds = np.where(
            known, CODES[LossKind.CORRUPT], CODES[LossKind.UNEXPECTED]
        ).astype(np.uint8)
        return make_losses_of_rows(kinds, self._damaged, self.table)

    def list_repeated_rows(self) -> LossArray:
        """Return the losses of rows that another one before them equals."""
        again = np.zeros(self._named.size, np.bool_)
        again[1:] = self._named[1:] == self._named[:-1]
        self._taken |= again
        rows = self._intact[again]
        return make_losses_of_rows(
            np.full(len(rows), _DUPLICATE, np.uint8), rows, self.table
        )

    def ids(self, session: int, seq: Ints, part: Ints) -> Ints:
        """Return the ids of these items, 0 where there is none; take them.

        Where a row that is not intact seems to be it, -1: that row is a loss already.
        """
        wanted = _number_items(session, seq, part)
        found = np.zeros(wanted.size, np.int64)
        if self._named.size:
            places = np.searchsorted(self._named, wanted).clip(max=self._named.size - 1)
            there = (self._named[places] == wanted) & (seq > 0)
            self._taken[places[there]] = True
            found[there] = self._intact["row_id"][places[there]]
        found[(found == 0) & (seq > 0) & is_among(wanted, self._names_damaged)] = -1
        return found

    def left(self) -> LossArray:
        """Return the losses of the rows that no operation wrote."""
        rows = self._intact[~self._taken]
        kinds = np.full(len(rows), CODES[LossKind.UNEXPECTED], np.uint8)
        return make_losses_of_rows(kinds, rows, self.table)


@dataclass(frozen=True, slots=True)
class _Found:
    """The ids of the rows that were found of some items; see _Rows.ids().

    old, new, undone: as inserted, as updated, and as an operation that was rolled back
                      had written it.
    """

    old: Ints
    new: Ints
    undone: Ints

    def pick_any_id(self) -> Ints:
        """Return the id of one row of each, -1 of none."""
        found = np.maximum(np.maximum(self.old, self.new), self.undone)
        return np.where(found > 0, found, -1)


def _find_losses(
    items: Items, session: int, markers: Markers, rows: _Rows
) -> LossArray:
    """Return the losses among them."""
    found = _Found(
        rows.ids(session, items.inserted, items.part),
        rows.ids(session, items.updated, items.part),
        rows.ids(session, items.rolled_back, items.part),
    )
    ops = (items.inserted, items.updated, items.deleted)
    top = int(markers.tops[session])
    shown = [markers.present(session, op) for op in ops]
    kinds, seq = _judge_items(items, found, shown, top)
    lost = np.flatnonzero(kinds != _NO_LOSS)
    if lost.size:  # unless the rows of the ledger that are not intact explain it
        shown = [markers.perhaps(session, op) for op in ops]
        otherwise, _ = _judge_items(items, found, shown, top)
        lost = lost[otherwise[lost] != _NO_LOSS]
    losses = make_unnamed_losses(kinds[lost], rows.table)
    losses["session"], losses["seq"] = session, seq[lost]
    losses["row_id"] = found.pick_any_id()[lost]
    return losses


def _judge_items(
    items: Items, found: _Found, took_place: list[Flags], top: int
) -> tuple[Codes, Ints]:
    """Return the kind of loss of each item, and its operation.

    took_place: whether the insert, the update and the delete did.
    top: the last operation of the session that can have been sent.
    """
    inserted, updated, deleted = took_place
    old, new, rolled_back = found.old != 0, found.new != 0, found.undone != 0
    lasts = inserted & ~deleted
    # An operation is torn if its row is in the ledger and its item is not, or the
    # other way round.  A deleted item whose delete has no row in the ledger, and
    # can have been sent, is that operation's.
    sent = (items.deleted > 0) & (items.deleted <= top)
    half_deleted = np.where(sent, items.deleted, items.inserted)
    conditions = [
        (rolled_back, _RESURRECTED, items.rolled_back),
        (deleted & (old | new), _RESURRECTED, items.deleted),
        (~inserted & (old | new), _TORN, items.inserted),
        (old & new, _DUPLICATE, items.updated),
        (lasts & updated & old, _STALE, items.updated),
        (lasts & ~updated & new, _TORN, items.updated),
        (lasts & ~old & ~new, _TORN, half_deleted),
    ]
    kinds = np.full(items.part.size, _NO_LOSS, np.uint8)
    seq = np.zeros(items.part.size, np.int64)
    for condition, kind, operation in reversed(conditions):
        kinds[condition], seq[condition] = kind, operation[condition]
    return kinds, seq


def _number_items(session: Ints | int, seq: Ints, part: Ints) -> Ints:
    """Return a number for each item, by the operation that wrote it last."""
    names: Ints = session << 40 | seq.astype(np.int64) << _PART_BITS | part
    return names


def _number_records(records: Records) -> Ints:
    session, seq = records["session"].astype(np.int64), records["seq"]
    return _number_items(session, seq, records["part"].astype(np.int64))
