"""Each operation decides the transaction that the one before it prepared.

Then it leaves its row in the ledger, and prepares a transaction of its own.  So each
session has at most one prepared transaction at a time.  After recovery the server must
list it as prepared, unless it was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbcheck.rows.acks import Ints
from dbcheck.rows.effects import Effects, Markers, add_effects, split_by_epoch
from dbcheck.rows.loss import (
    CODES,
    Codes,
    LossArray,
    LossKind,
    make_losses_of_rows,
    make_unnamed_losses,
)
from dbcheck.rows.operation import Operation, Statement, StatementSpec, TwoPhase
from dbcheck.rows.plans.mixed import INSERT_ITEM
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.prepared import LeftFate, LeftOver, Name, Undecided, is_committed
from dbcheck.rows.reconcile import Observed, Reconciliation, reconcile
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import DIFFERENT, Flags, Inspector, Records, is_among
from dbcheck.rows.table import ITEM, LEDGER, TableSpec

PART = 1  # of the item that a prepared transaction inserts
_NO_LOSS = 255
_PREPARED, _TORN = CODES[LossKind.PREPARED], CODES[LossKind.TORN]
_RESURRECTED, _CORRUPT = CODES[LossKind.RESURRECTED], CODES[LossKind.CORRUPT]
_UNEXPECTED, _DUPLICATE = CODES[LossKind.UNEXPECTED], CODES[LossKind.DUPLICATE]


_KIND_OF_FATE = {
    LeftFate.REFUSED: _PREPARED,
    LeftFate.ABSENT: _PREPARED,
    LeftFate.DIFFERENT: _CORRUPT,
    LeftFate.PRESENT: _RESURRECTED,
    LeftFate.GONE: _PREPARED,
}


def judge_two_phase(
    seen: Observed, table: TableSpec, epoch: int, markers: Markers
) -> Effects:
    """Judge the transactions by *table* and the list of prepared transactions.

    table: read before any listed transaction was decided.
    """
    own, earlier = split_by_epoch(seen, table, epoch)
    rows = _Rows(table, own, markers)
    listed_by_session = _group_by_session(seen.left_over)
    losses, undecided = [rows.list_bad_rows()], Undecided()
    for session in markers.sessions():
        listed = listed_by_session.pop(session, {})
        lost, undecided_of_session = _judge_session(session, markers, rows, listed)
        losses.append(lost)
        undecided += undecided_of_session
    for session, listed in listed_by_session.items():
        losses.append(_find_foreign_transactions(session, listed, table))
    return Effects(np.concatenate(losses), earlier, undecided)


def _judge_session(
    session: int, markers: Markers, rows: _Rows, listed: Mapping[int, LeftOver]
) -> tuple[LossArray, Undecided]:
    """Return the losses among the transactions of one session, and those undecided."""
    top = int(markers.tops[session])
    seq = np.arange(1, top + 1, dtype=np.int64)
    row_ids, damaged = rows.of(session, top)
    is_listed = np.zeros(top, np.bool_)
    is_listed[[number - 1 for number in listed if number <= top]] = True
    kinds = _judge_transactions(session, seq, markers, row_ids > 0, is_listed)
    kinds[damaged] = _NO_LOSS  # a damaged row is a loss already
    # A transaction without its row in the ledger is half of an operation: no other
    # client decided that.
    is_open = (kinds != _NO_LOSS) & markers.perhaps_present(session, seq)
    is_open &= (seq == top) | ~markers.present(session, seq + 1)
    # A listed transaction was undecided, unless another client decided it afterwards.
    is_open &= ~is_listed | is_among(seq, _find_decided_by_others(listed))
    for number, left_over in listed.items():
        if number <= top and kinds[number - 1] == _NO_LOSS:
            kinds[number - 1] = _KIND_OF_FATE.get(left_over.fate, _NO_LOSS)
            is_open[number - 1] = left_over.fate is LeftFate.GONE
    is_gone = is_open & is_listed
    undecided = Undecided(
        rolled_back=int(np.count_nonzero(is_open & ~is_gone & (row_ids == 0))),
        committed=int(np.count_nonzero(is_open & ~is_gone & (row_ids > 0))),
        gone=int(np.count_nonzero(is_gone)),
    )
    places = np.flatnonzero(kinds != _NO_LOSS)
    losses_of_session = _make_losses(session, seq[places], kinds[places], rows.table)
    losses_of_session["row_id"] = np.where(row_ids[places] > 0, row_ids[places], -1)
    strangers = {
        number: left_over for number, left_over in listed.items() if number > top
    }
    losses = np.concatenate(
        [losses_of_session, _find_foreign_transactions(session, strangers, rows.table)]
    )
    return losses, undecided


def _find_decided_by_others(listed: Mapping[int, LeftOver]) -> Ints:
    """Return the seqs that another client decided, or may have, after the listing."""
    decided = [
        seq
        for seq, left_over in listed.items()
        if left_over.fate is LeftFate.GONE or left_over.perhaps_earlier
    ]
    return np.array(decided, np.int64)


def _judge_transactions(
    session: int, seq: Ints, markers: Markers, is_visible: Flags, is_listed: Flags
) -> Codes:
    """Return the kind of loss of each transaction of a session.

    is_visible: its row is in the table.  is_listed: the server lists it as prepared.
    An operation first decides the transaction of the one before, then leaves its row in
    the ledger, then prepares its own transaction.
    """
    top = seq.size
    was_acked = seq <= markers.acked[session]
    may_be_decided = seq < top
    decided = may_be_decided & markers.present(session, seq + 1)
    # Without a row in the ledger the whole operation may be lost.
    in_ledger = markers.perhaps_present(session, seq)
    commits = is_committed(seq)
    lost = in_ledger & (was_acked | decided) & ~is_visible & ~is_listed
    lost &= commits | ~may_be_decided
    conditions = (
        (is_visible & ~commits, _RESURRECTED),
        (is_listed & (decided | is_visible), _PREPARED),
        (lost, _PREPARED),
        (is_visible & ~may_be_decided, _UNEXPECTED),
        ((is_visible | is_listed) & ~was_acked & ~in_ledger, _TORN),
    )
    kinds = np.full(top, _NO_LOSS, np.uint8)
    for condition, kind in reversed(conditions):
        kinds[condition] = kind
    return kinds


class _Rows:
    """The rows of prepared transactions that are in the table."""

    def __init__(self, table: TableSpec, records: Records, markers: Markers) -> None:
        self.table = table
        of_operations = markers.own(records)
        of_operations = of_operations[of_operations["part"] == PART]
        is_known = is_among(records["row_id"], of_operations["row_id"])
        of_operations = of_operations[
            np.lexsort(
                (
                    of_operations["row_id"],
                    of_operations["seq"],
                    of_operations["session"],
                )
            )
        ]
        intact = of_operations["content"] != DIFFERENT
        self._damaged, of_operations = of_operations[~intact], of_operations[intact]
        is_repeated = np.zeros(len(of_operations), np.bool_)
        is_repeated[1:] = (of_operations["seq"][1:] == of_operations["seq"][:-1]) & (
            of_operations["session"][1:] == of_operations["session"][:-1]
        )
        self._single, self._repeated = (
            of_operations[~is_repeated],
            of_operations[is_repeated],
        )
        self._strange = records[~is_known]

    def list_bad_rows(self) -> LossArray:
        """Return the losses of all rows but the one intact row of each transaction."""
        return np.concatenate(
            [
                self._make_losses_of_kind(_CORRUPT, self._damaged),
                self._make_losses_of_kind(_DUPLICATE, self._repeated),
                self._make_losses_of_kind(_UNEXPECTED, self._strange),
            ]
        )

    def _make_losses_of_kind(self, kind: int, records: Records) -> LossArray:
        return make_losses_of_rows(
            np.full(len(records), kind, np.uint8), records, self.table
        )

    def of(self, session: int, top: int) -> tuple[Ints, Flags]:
        """Return the id of each transaction's row, 0 if none, and which are damaged."""
        ids, damaged = np.zeros(top, np.int64), np.zeros(top, np.bool_)
        own = self._single[
            slice(*np.searchsorted(self._single["session"], _select_session(session)))
        ]
        ids[own["seq"] - 1] = own["row_id"]
        damaged_rows = self._damaged[self._damaged["session"] == session]
        damaged[damaged_rows["seq"] - 1] = True
        return ids, damaged


def _select_session(session: int) -> tuple[int, int]:
    return session, session + 1


def _group_by_session(left_overs: Sequence[LeftOver]) -> dict[int, dict[int, LeftOver]]:
    by_session: dict[int, dict[int, LeftOver]] = {}
    for left_over in left_overs:
        by_session.setdefault(left_over.session, {})[left_over.seq] = left_over
    return by_session


def _find_foreign_transactions(
    session: int, listed: Mapping[int, LeftOver], table: TableSpec
) -> LossArray:
    """Return the losses of transactions that no operation can have prepared."""
    seq = np.array(sorted(listed), np.int64)
    return _make_losses(session, seq, np.full(seq.size, _UNEXPECTED, np.uint8), table)


def _make_losses(session: int, seq: Ints, kinds: Codes, table: TableSpec) -> LossArray:
    losses = make_unnamed_losses(kinds, table)
    losses["session"], losses["seq"] = session, seq
    return losses


class TwoPhasePlan:
    """See rows.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = (LEDGER, ITEM)
    statements: tuple[StatementSpec, ...] = (INSERT, INSERT_ITEM)
    replaces_sessions = True
    prepares_in: TableSpec | None = ITEM
    housekeeping_tables: tuple[TableSpec, ...] = ()
    housekeeping_statements: tuple[StatementSpec, ...] = ()
    violations_statement = ""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        epoch, values = self._schedule.epoch, self._schedule.values
        name = str(Name(epoch, session, seq))
        statements = [
            Statement(INSERT.name, values(session, seq)),
            TwoPhase.BEGIN.of(name),
            Statement(INSERT_ITEM.name, values(session, seq, PART)),
            TwoPhase.PREPARE.of(name),
        ]
        if seq > 1:
            step = TwoPhase.COMMIT if is_committed(seq - 1) else TwoPhase.ROLLBACK
            statements.insert(0, step.of(str(Name(epoch, session, seq - 1))))
        return Operation(session, seq, tuple(statements))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return the judge of the content of each row of *table*."""
        if table == LEDGER:
            return Inspector(self._schedule)
        return Inspector(self._schedule, range(PART, PART + 1))

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        epoch = self._schedule.epoch
        inserted = reconcile(seen, LEDGER, epoch)
        markers = Markers(seen, LEDGER, epoch)
        effects = judge_two_phase(seen, ITEM, epoch, markers)
        return add_effects(inserted, [effects], seen.acks, markers)
