"""Each operation inserts an auto-increment id and nothing else.

A row is recognised by its id alone.  An id stands for one insert as long as the server
hands out no id twice, which holds while nothing writes between the cut and the reading.
The content of a row cannot be checked.

Acks and survivors are read as streams; only one byte for each id stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from dbcheck.rows.acks import SESSION_MAX, AckArray, Ints
from dbcheck.rows.loss import (
    CODES,
    LossArray,
    Losses,
    LossKind,
    make_losses_of_acks,
    make_losses_without_key,
)
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.reconcile import (
    Observed,
    Reconciliation,
    SurvivorStream,
    find_kinds_of_missing,
    require_claimed,
)
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.summary import AckStream, AckSummary
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import CLASSIC, TableSpec

Flags = npt.NDArray[np.bool_]

_ACKED, _ACKED_AGAIN, _FOUND, _FOUND_AGAIN = 1, 2, 4, 8
_AGAIN = _ACKED_AGAIN | _FOUND_AGAIN
_MARKS_PER_PART = 1 << 22
_ID_BYTES = 8


def reconcile_ids(seen: Observed, table: TableSpec) -> Reconciliation:
    """Return the fate of each acked id and of each id that was found in *table*."""
    acks, survivors = seen.acks, seen.survivors[table.name]
    before, claim = seen.before[table.name], seen.claim
    summary = seen.summarize_acks()
    per_session, confirmed = summary.counts, summary.total
    require_claimed(per_session, claim)
    marks = _Marks(acks, summary, survivors, before.row_id_max)
    kept = marks.count_kept()
    unacked_copies = marks.list_unacked_copies()
    losses = _find_losses(seen, table, marks, confirmed - kept, unacked_copies)
    old_copies = int(np.count_nonzero(unacked_copies <= before.row_id_max))
    earlier, surplus = marks.count_found()
    if claim is not None:
        legal = sum(claim.sent.values()) - confirmed
        in_flight = sum(claim.sent.values()) - sum(claim.acked.values())
    else:
        in_flight = max(1, int(np.count_nonzero(per_session)))
        legal = seen.window_acks + in_flight
    # Nothing shows whether another run wrote ids, or which.
    foreign = max(0, surplus - legal)
    recovered = min(surplus, in_flight)
    rows_before = sum(before.rows_by_epoch.values())
    return Reconciliation(
        confirmed=confirmed,
        kept=kept,
        recovered=recovered,
        unconfirmed=surplus - recovered - foreign,
        # More ids than were counted before: some were being committed meanwhile.
        foreign=foreign + max(0, earlier - rows_before),
        earlier=earlier,
        earlier_lost={0: rows_before - earlier} if earlier < rows_before else {},
        losses=losses,
        earlier_damaged={LossKind.DUPLICATE: old_copies} if old_copies else {},
    )


class _Ids:
    """Maps each id to the index of its mark in an array.

    Consecutive ids have consecutive indexes.  Where the gaps between ids would take
    more memory than the ids themselves, as with a large auto_increment_increment, the
    ids are stored in order and searched.
    """

    def __init__(
        self, acks: AckStream, summary: AckSummary, survivors: SurvivorStream
    ) -> None:
        """Map every id that was acked or found.  summary: of *acks*."""
        count, low, high = summary.total, summary.first_id, summary.last_id
        for records in survivors():
            ids = records["row_id"]
            if ids.size:
                least, most = int(ids.min()), int(ids.max())
                low = min(low, least) if count else least
                high = max(high, most) if count else most
                count += ids.size
        self._low = low
        self._ids: Ints | None = None
        self.places = high - low + 1
        if self.places > _ID_BYTES * count:
            self._ids = _find_distinct_ids(_list_all_ids(acks, survivors), count)
            self.places = len(self._ids)

    def find_places(self, ids: Ints) -> Ints:
        """Return the places of ids that were acked or found."""
        if self._ids is None:
            return ids - self._low
        return np.searchsorted(self._ids, ids)

    def find_place_after(self, row_id: int) -> int:
        """Return the place from which on the ids are larger than *row_id*."""
        if self._ids is None:
            return min(max(0, row_id - self._low + 1), self.places)
        return int(np.searchsorted(self._ids, row_id, side="right"))

    def ids_at(self, places: Ints) -> Ints:
        """Return the ids of *places*."""
        return places + self._low if self._ids is None else self._ids[places]


def _list_all_ids(acks: AckStream, survivors: SurvivorStream) -> Iterator[Ints]:
    for batch in chain(acks(), survivors()):
        yield batch["row_id"].astype(np.int64)


def _find_distinct_ids(parts: Iterable[Ints], count: int) -> Ints:
    """Return each id in *parts*, which have *count* ids, once and in order."""
    ids, place = np.empty(count, np.int64), 0
    for part in parts:
        ids[place : place + part.size] = part
        place += part.size
    ids.sort()
    return ids[np.r_[True, ids[1:] != ids[:-1]]]


class _Marks:
    """One byte for each id: was it acked or found, and twice?

    Rows with an id up to *row_id_max* were there before the run.
    """

    def __init__(
        self,
        acks: AckStream,
        summary: AckSummary,
        survivors: SurvivorStream,
        row_id_max: int,
    ) -> None:
        self._ids = _Ids(acks, summary, survivors)
        self._first_of_run = self._ids.find_place_after(row_id_max)
        self._marks = np.zeros(self._ids.places, np.uint8)
        for batch in acks():
            self._add(batch["row_id"], _ACKED, _ACKED_AGAIN)
        for records in survivors():
            self._add(records["row_id"], _FOUND, _FOUND_AGAIN)

    def _add(self, ids: Ints, once: int, again: int) -> None:
        places = self._ids.find_places(ids)
        twice = places[self._marks[places] & once > 0]
        ordered = np.sort(places)
        self._marks[places] |= once
        self._marks[twice] |= again
        self._marks[ordered[1:][ordered[1:] == ordered[:-1]]] |= again

    def flag_gone(self, ids: Ints) -> Flags:
        """Return a flag for each acked id: True if no row of the run has it."""
        places = self._ids.find_places(ids)
        gone: Flags = (self._marks[places] & _FOUND == 0) | (
            places < self._first_of_run
        )
        return gone

    def flag_bad(self, ids: Ints) -> Flags:
        """Return a flag for each acked id: True if gone, or if acked or found twice."""
        again: Flags = self._marks[self._ids.find_places(ids)] & _AGAIN > 0
        return again | self.flag_gone(ids)

    def count_kept(self) -> int:
        """Count the acks that flag_bad() does not flag: each has its own id."""
        kept = 0
        for at, marks in self._split_marks():
            own = marks[max(0, self._first_of_run - at) :]
            kept += int(np.count_nonzero(own == _ACKED | _FOUND))
        return kept

    def count_found(self) -> tuple[int, int]:
        """Count the found ids from before the run, and those of the run never acked."""
        earlier = surplus = 0
        for at, marks in self._split_marks():
            found = marks & _FOUND > 0
            fresh = max(0, self._first_of_run - at)
            earlier += int(found[:fresh].sum())
            surplus += int((found[fresh:] & (marks[fresh:] & _ACKED == 0)).sum())
        return earlier, surplus

    def list_unacked_copies(self) -> Ints:
        """Return the ids that were found twice and never acked."""
        wanted = _FOUND_AGAIN | _ACKED
        parts = [
            at + np.flatnonzero(marks & wanted == _FOUND_AGAIN)
            for at, marks in self._split_marks()
        ]
        return self._ids.ids_at(np.concatenate([np.empty(0, np.int64), *parts]))

    def _split_marks(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Yield all marks in parts, each with the place of its first mark."""
        for at in range(0, len(self._marks), _MARKS_PER_PART):
            yield at, self._marks[at : at + _MARKS_PER_PART]


def _find_losses(
    seen: Observed, table: TableSpec, marks: _Marks, bad_acks: int, unacked_copies: Ints
) -> Losses:
    """Return the acked ids that are gone, and those that were acked or found twice.

    bad_acks: how many acks are bad, see _Marks.flag_bad().  unacked_copies: ids that
    were found twice and never acked.
    """
    kinds = np.full(len(unacked_copies), CODES[LossKind.DUPLICATE], np.uint8)
    parts: Iterable[LossArray] = [make_losses_without_key(kinds, unacked_copies, table)]
    if bad_acks:
        parts = chain(parts, _list_acked_losses(seen.acks, marks, table))
    return Losses.gathered(len(unacked_copies) + bad_acks, parts)


def _list_acked_losses(
    acks: AckStream, marks: _Marks, table: TableSpec
) -> Iterator[LossArray]:
    last_present = _find_last_present(acks, marks)
    for batch in acks():
        batch = batch[marks.flag_bad(batch["row_id"])]
        is_gone = marks.flag_gone(batch["row_id"])
        kinds = np.full(len(batch), CODES[LossKind.DUPLICATE], np.uint8)
        kinds[is_gone] = find_kinds_of_missing(batch[is_gone], last_present)
        yield make_losses_of_acks(kinds, batch, table)


def _find_last_present(acks: AckStream, marks: _Marks) -> Ints:
    """Return, by session, the last seq whose row is present."""
    last = np.zeros(SESSION_MAX + 1, np.int64)
    for batch in acks():
        there: AckArray = batch[~marks.flag_gone(batch["row_id"])]
        np.maximum.at(last, there["session"], there["seq"])
    return last


INSERT_ID = StatementSpec(Verb.INSERT, CLASSIC, ())
_STATEMENTS = (Statement(INSERT_ID.name, ()),)


class ClassicPlan:
    """See rows.plans.plan.Plan.

    An id names a row only as long as nothing writes after a crash, so no session is
    replaced.
    """

    tables: tuple[TableSpec, ...] = (CLASSIC,)
    statements: tuple[StatementSpec, ...] = (INSERT_ID,)
    replaces_sessions = False
    prepares_in: TableSpec | None = None
    housekeeping_tables: tuple[TableSpec, ...] = ()
    housekeeping_statements: tuple[StatementSpec, ...] = ()
    violations_statement = ""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        return Operation(session, seq, _STATEMENTS)

    def inspector(self, table: TableSpec) -> Inspector:
        """Return an inspector that takes every row: an id has no content."""
        return Inspector(self._schedule)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each id, acked or read; see Plan.judge."""
        return reconcile_ids(seen, CLASSIC)
