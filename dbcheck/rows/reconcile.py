"""Compares the acks that the witness holds with the rows that survived.

Acks and survivors are streamed and never held as objects: a byte for each ack is all
that is kept, since a session's acks have no gaps.  If nothing is lost, each is streamed
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged
from dbcheck.rows.acks import SESSION_MAX, AckArray, Ints
from dbcheck.rows.earlier import WEIGHT_MODULUS, Earlier
from dbcheck.rows.loss import (
    CODES,
    MISSING,
    Codes,
    Loss,
    LossArray,
    Losses,
    LossKind,
    make_losses_of_acks,
)
from dbcheck.rows.prepared import LeftOver, Undecided
from dbcheck.rows.summary import AckStream, AckSummary, weigh_each_id, weigh_ids
from dbcheck.rows.survivors import DIFFERENT, RECORD, Flags, Records
from dbcheck.rows.table import CLASSIC, LEDGER, TABLES, TableFacts, TableSpec

SurvivorStream = Callable[[], Iterable[Records]]
# Of acks or of rows: both name the operation, and have an id.
NamedStream = Callable[[], Iterable[AckArray | Records]]


@dataclass(frozen=True, slots=True)
class Claim:
    """The client's record of its sessions.

    sent, acked: session -> operations sent, acks received.
    """

    sent: Mapping[int, int]
    acked: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one run; each stream can be read again from its beginning.

    survivors:   name of a table -> all its rows, read before anything wrote again; a
                 side table that is absent has no entry.
    before:      name of a table -> what it held before the load.
    claim:       None if the client was lost before it wrote its record.  Rows beyond
                 the acks are then legal as far as *window_acks* and one operation in
                 flight for each session explain them.
    window_acks: most acks that could be unconfirmed at once.
    left_over:   the run's transactions that the server still listed as prepared.
    is_ddl_atomic: a CREATE, DROP, TRUNCATE or ALTER is part of its transaction.
    summary:     of the acks, None if they were not read yet.
    """

    acks: AckStream
    survivors: Mapping[str, SurvivorStream]
    before: Mapping[str, TableFacts]
    claim: Claim | None
    window_acks: int
    left_over: Sequence[LeftOver] = ()
    is_ddl_atomic: bool = False
    summary: AckSummary | None = None

    def summarize_acks(self) -> AckSummary:
        """Return the summary of the acks; read them if there is none yet.

        Raise LogDamaged if a session's acks have a gap.
        """
        return self.summary or AckSummary.of(self.acks)


_READ, _DIFFERENT, _READ_TWICE = 1, 2, 4
_ROW_PER_COMMIT = [TABLES.index(table) for table in (LEDGER, CLASSIC)]
_MARKS_PER_PART = 1 << 22
# The ids of a block of marks are compared only if their weight shows that one differs.
_MARKS_PER_BLOCK = 1 << 12
_BLOCKS_PER_PART = 1 << 10  # whose ids are held at a time: 32 MiB


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The fate of every ack and of every survivor.

    confirmed:    acks that the witness holds.
    kept:         of these, present and intact.
    recovered:    present, sent, never acked: the reply was cut off; legal.
    unconfirmed:  present, perhaps acked, not confirmed by the witness; no claim.
    foreign:      rows of other runs, intact: they wrote at the same time; no claim.
    earlier:      rows of earlier cycles that are still there.
    earlier_lost: epoch -> rows of it that are gone, at least.
    losses:       every row that is missing, or not as it was sent.
    earlier_damaged: kind of loss -> how many of these are rows of earlier cycles.
    earlier_altered: rows of earlier runs with another content than was written, which
                  nothing shows to have been sound before the load; no claim.
    unacked_repeats: losses that are further rows, each with an id of its own, of
                  operations that were never acked: a proxy that sends such an operation
                  once more has the same effect.
    undecided:    losses of prepared transactions that another client may have decided.
    """

    confirmed: int
    kept: int
    recovered: int
    unconfirmed: int
    foreign: int
    earlier: int
    earlier_lost: Mapping[int, int]
    losses: Losses
    earlier_damaged: Mapping[LossKind, int] = field(default_factory=dict)
    earlier_altered: int = 0
    unacked_repeats: int = 0
    undecided: Undecided = Undecided()

    @property
    def counts(self) -> dict[str, int]:
        """Losses by kind, of this cycle and of earlier ones; only kinds that occur."""
        total = Counter(self.own_counts) + Counter(self.earlier_counts)
        return dict(sorted(total.items()))

    @property
    def own_counts(self) -> dict[str, int]:
        """Losses of this cycle by kind; only kinds that occur."""
        own = Counter(self.losses.counts) - Counter(self.earlier_damaged)
        return dict(sorted((kind.value, rows) for kind, rows in own.items()))

    @property
    def losses_of_commits(self) -> LossArray:
        """The losses for which an acked commit is not intact."""
        columns = self.losses.columns
        losses: LossArray = columns[self._are_of_commits(columns)]
        return losses

    @property
    def counts_beside_commits(self) -> dict[str, int]:
        """The losses of own_counts that are no loss of an acked commit."""
        columns = self.losses.columns
        beside = Losses(columns[~self._are_of_commits(columns)]).counts
        own = Counter(beside) - Counter(self.earlier_damaged)
        return dict(sorted((kind.value, rows) for kind, rows in own.items()))

    @staticmethod
    def _are_of_commits(columns: LossArray) -> Flags:
        """Flag the losses for which an acked commit is not intact.

        A commit stays intact beside a row that no client wrote, even if it bears the
        key of the commit, and beside a copy of its row, unless the table of the copy
        has one row for each commit.
        """
        is_of_commit: Flags = columns["acked_us"] >= 0
        is_of_commit &= columns["kind"] != CODES[LossKind.UNEXPECTED]
        is_copy = columns["kind"] == CODES[LossKind.DUPLICATE]
        is_of_commit &= ~is_copy | np.isin(columns["table"], _ROW_PER_COMMIT)
        return is_of_commit

    @property
    def all_gone(self) -> bool:
        """True if no row of this run survived, not even those from before the load."""
        present = self.kept or self.recovered or self.unconfirmed
        return not present and self.losses.counts.keys() <= MISSING

    @property
    def repeats(self) -> int:
        """The number of losses that repeat an operation's row, acked or not.

        Of the tables with a key, only the ledger takes one key under two ids.
        """
        columns = self.losses.columns
        is_repeat = columns["kind"] == CODES[LossKind.DUPLICATE]
        is_repeat &= (columns["table"] == TABLES.index(LEDGER)) & (
            columns["session"] >= 0
        )
        return int(np.count_nonzero(is_repeat))

    @property
    def earlier_counts(self) -> dict[str, int]:
        """Losses among the rows of earlier cycles by kind; only kinds that occur.

        The order of the rows that are gone is not known, so they count as holes.
        """
        counts = Counter(self.earlier_damaged)
        if gone := sum(self.earlier_lost.values()):
            counts[LossKind.MISSING_HOLE] += gone
        return dict(sorted((kind.value, rows) for kind, rows in counts.items()))


def require_claimed(counted: Ints, claim: Claim | None) -> None:
    """Raise LogDamaged if the log holds acks that the client never received."""
    if claim is None:
        return
    for session in np.flatnonzero(counted):
        received = claim.acked.get(int(session), 0)
        if counted[session] > received:
            raise LogDamaged(
                f"the witness log is damaged: it has {counted[session]} acks of session"
                f" {session}, and the client received {received}",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )


def reconcile(seen: Observed, table: TableSpec, epoch: int) -> Reconciliation:
    """Return the fate of each ack and of each survivor of *table*, which has keys.

    Raise LogDamaged if rows show that acks are gone from the log.
    """
    acks, survivors = seen.acks, seen.survivors[table.name]
    summary = seen.summarize_acks()
    require_claimed(summary.counts, seen.claim)
    marks = _Marks(summary.counts)
    earlier = Earlier(table, seen.before[table.name])
    parts_beyond_acks: list[Records] = []
    for records in survivors():
        is_own = records["epoch"] == epoch
        earlier.add(records[~is_own])
        parts_beyond_acks.append(marks.add(records[is_own]))
    beyond_acks = np.concatenate([np.empty(0, RECORD), *parts_beyond_acks])
    surplus = _sort_surplus(beyond_acks, marks.acked, seen, table)
    earlier.settle_undecided(survivors)
    if marks.weight != marks.weigh_acked_ids(acks, summary):
        marks.mark_other_ids(acks, survivors, epoch)
    losses_beside_acks = [*earlier.losses, surplus.losses]
    losses = Losses.gathered(
        sum(map(len, losses_beside_acks)) + marks.total - marks.kept,
        chain(losses_beside_acks, _list_acked_losses(acks, marks, table)),
    )
    return Reconciliation(
        confirmed=marks.total,
        kept=marks.kept,
        recovered=surplus.recovered,
        unconfirmed=surplus.unconfirmed,
        foreign=earlier.foreign,
        earlier=earlier.rows,
        earlier_lost=earlier.lost(),
        losses=losses,
        earlier_damaged=earlier.damaged,
        earlier_altered=earlier.altered,
        unacked_repeats=surplus.unacked_repeats,
    )


class _Marks:
    """One byte for each ack: was its row read, read twice, read with other content?

    The byte's place in the array is that of the session and seq.

    weight: of the ids of the rows that were read, see AckSummary.
    """

    def __init__(self, acked: Ints) -> None:
        self.acked = acked
        self.offset = np.concatenate(([0], np.cumsum(acked)[:-1])) - 1  # seq is 1-based
        self.total = int(acked.sum())
        self.marks = np.zeros(self.total, np.uint8)
        self.weight = 0

    @property
    def kept(self) -> int:
        """The number of acked rows that are present once and intact."""
        return sum(
            int(np.count_nonzero(part == _READ)) for _, part in self._split_marks()
        )

    def add(self, records: Records) -> Records:
        """Mark the records of acked operations; return the others."""
        is_acked = self._flag_acked(records)
        acked_records = records[is_acked]
        places = self.find_places(acked_records)
        is_repeated = self._flag_repeated(places)
        added = weigh_ids(acked_records[~is_repeated])
        self.weight = (self.weight + added) % WEIGHT_MODULUS
        self.marks[places] |= _READ
        self.marks[places[acked_records["content"] == DIFFERENT]] |= _DIFFERENT
        self.marks[places[is_repeated]] |= _READ_TWICE
        return records[~is_acked]

    def _flag_repeated(self, places: Ints) -> npt.NDArray[np.bool_]:
        """Return a flag for each of *places*: True if its row was read before.

        Before means in an earlier batch, or earlier in this one.
        """
        is_repeated: npt.NDArray[np.bool_] = self.marks[places] & _READ > 0
        ordered = np.sort(places)
        if (ordered[1:] == ordered[:-1]).any():
            _, firsts = np.unique(places, return_index=True)
            repeats_in_batch = np.ones(len(places), np.bool_)
            repeats_in_batch[firsts] = False
            is_repeated |= repeats_in_batch
        return is_repeated

    def _split_marks(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Yield all marks in parts, each with the place of its first mark."""
        for begin in range(0, self.total, _MARKS_PER_PART):
            yield begin, self.marks[begin : begin + _MARKS_PER_PART]

    def _flag_acked(self, records: Records) -> npt.NDArray[np.bool_]:
        """Return a flag for each record: True if it is of an acked operation."""
        session, seq = records["session"], records["seq"]
        is_acked: npt.NDArray[np.bool_] = (session >= 0) & (session <= SESSION_MAX)
        is_acked &= (seq >= 1) & (records["part"] == 0)
        is_acked[is_acked] = seq[is_acked] <= self.acked[session[is_acked]]
        return is_acked

    def find_places(self, named_records: Records) -> Ints:
        """Return the place of the mark of each of these acks, or rows."""
        places: Ints = self.offset[named_records["session"]] + named_records["seq"]
        return places

    def weigh_acked_ids(self, acks: AckStream, summary: AckSummary) -> int:
        """Return the weight of the acked ids whose rows were read.

        summary: of *acks*, which are read only if some rows are missing.
        """
        parts = self._split_marks()
        if all(bool((part & _READ).all()) for _, part in parts):
            return summary.weight
        weight = 0
        for batch in acks():
            weight += weigh_ids(batch[self.marks[self.find_places(batch)] & _READ > 0])
        return weight % WEIGHT_MODULUS

    def mark_other_ids(
        self, acks: AckStream, survivors: SurvivorStream, epoch: int
    ) -> None:
        """Mark as different the rows that have another id than the acked one.

        Ids take eight times the memory of the marks.  So only those of blocks of marks
        that weigh something else are held, and of some of these blocks at a time.
        """
        own = partial(self._stream_own, survivors, epoch)
        differs = self._weigh_blocks(own) != self._weigh_blocks(acks)
        blocks = np.flatnonzero(differs)
        for begin in range(0, len(blocks), _BLOCKS_PER_PART):
            self._compare_ids(blocks[begin : begin + _BLOCKS_PER_PART], own, acks)

    def _stream_own(self, survivors: SurvivorStream, epoch: int) -> Iterator[Records]:
        """Yield the rows of acked operations of *epoch*."""
        for records in survivors():
            own = records[records["epoch"] == epoch]
            yield own[self._flag_acked(own)]

    def _weigh_blocks(self, stream: NamedStream) -> npt.NDArray[np.uint64]:
        """Return the weight of each block's ids, those of damaged rows left out."""
        blocks = -(-self.total // _MARKS_PER_BLOCK)
        weights = np.zeros(blocks, np.uint64)
        for named in stream():
            places = self.find_places(named)
            is_intact = self.marks[places] == _READ
            block = places[is_intact] // _MARKS_PER_BLOCK
            np.add.at(weights, block, weigh_each_id(named[is_intact]))
        return weights

    def _compare_ids(self, blocks: Ints, own: NamedStream, acks: AckStream) -> None:
        """Mark the rows of *blocks* of marks that have another id than the acked one.

        own: the rows of acked operations.
        """
        ids = np.zeros(len(blocks) * _MARKS_PER_BLOCK, np.int64)
        begins = np.full(-(-self.total // _MARKS_PER_BLOCK), -1)
        begins[blocks] = np.arange(len(blocks)) * _MARKS_PER_BLOCK
        for records in own():
            places = self.find_places(records)
            begin = begins[places // _MARKS_PER_BLOCK]
            is_held = begin >= 0
            at = begin[is_held] + places[is_held] % _MARKS_PER_BLOCK
            ids[at] = records["row_id"][is_held]
        for batch in acks():
            places = self.find_places(batch)
            begin = begins[places // _MARKS_PER_BLOCK]
            is_held = (begin >= 0) & (self.marks[places] == _READ)
            places, acked = places[is_held], batch["row_id"][is_held]
            differs = ids[begin[is_held] + places % _MARKS_PER_BLOCK] != acked
            self.marks[places[differs]] |= _DIFFERENT

    def find_last_seen(self) -> Ints:
        """Return, by session, the seq after which every acked row is missing."""
        last_seen = np.zeros_like(self.acked)
        for session in np.flatnonzero(self.acked).tolist():
            first = int(self.offset[session]) + 1
            end = first + int(self.acked[session])
            last_seen[session] = self._find_last_read(first, end) - first + 1
        return last_seen

    def _find_last_read(self, first: int, end: int) -> int:
        """Return the last place before *end* whose row was read, first - 1 if none."""
        while end > first:
            begin = max(first, end - _MARKS_PER_BLOCK)
            read = np.flatnonzero(self.marks[begin:end] & _READ)
            if read.size:
                return begin + int(read[-1])
            end = begin
        return first - 1


def _list_acked_losses(
    acks: AckStream, marks: _Marks, table: TableSpec
) -> Iterator[LossArray]:
    """Yield the loss of every acked row that is missing, different or there twice."""
    if marks.kept == marks.total:
        return
    last_seen = marks.find_last_seen()
    for batch in acks():
        marks_of_batch = marks.marks[marks.find_places(batch)]
        is_loss = marks_of_batch != _READ
        batch, marks_of_batch = batch[is_loss], marks_of_batch[is_loss]
        kinds = np.full(len(batch), CODES[LossKind.CORRUPT], np.uint8)
        kinds[marks_of_batch & _READ_TWICE > 0] = CODES[LossKind.DUPLICATE]
        is_gone = marks_of_batch & _READ == 0
        kinds[is_gone] = find_kinds_of_missing(batch[is_gone], last_seen)
        yield make_losses_of_acks(kinds, batch, table)


def find_kinds_of_missing(gone: AckArray, last_seen: Ints) -> Codes:
    """Return the kind of loss of each ack whose row is *gone*.

    last_seen: by session, the seq after which every acked row is missing.
    """
    kinds = np.full(len(gone), CODES[LossKind.MISSING_HOLE], np.uint8)
    kinds[gone["seq"] > last_seen[gone["session"]]] = CODES[LossKind.MISSING_TAIL]
    return kinds


class _Surplus(NamedTuple):
    """Rows beyond the acks, by their fate; see Reconciliation.

    losses: of the rows beyond the acks alone.
    """

    recovered: int
    unconfirmed: int
    unacked_repeats: int
    losses: LossArray


def _sort_surplus(
    beyond_acks: Records, acked: Ints, seen: Observed, table: TableSpec
) -> _Surplus:
    """Sort the rows beyond the acks by their fate.

    A row whose content is what the schedule computes for its key was sent by the
    run: no one else has the seed.  It is legal as far as the client can have sent
    it before the cut.  Raise LogDamaged if a row shows that the log lost acks.
    """
    claim = seen.claim
    recovered = unconfirmed = unacked_repeats = 0
    losses: list[Loss] = []
    ids_by_operation: dict[tuple[int, int], set[int]] = {}
    highest_seq = _find_highest_seq(beyond_acks)
    for row in beyond_acks:
        session, seq, row_id = int(row["session"]), int(row["seq"]), int(row["row_id"])
        is_intact = row["content"] != DIFFERENT and row["part"] == 0
        if not is_intact or not _may_be_sent(session, seq, claim):
            kind = LossKind.UNEXPECTED
        elif (session, seq) in ids_by_operation:
            kind = LossKind.DUPLICATE
            ids = ids_by_operation[session, seq]
            # An operation that is sent once more gets a new id; a row that is there
            # twice under one id is the server's own doing.
            unacked_repeats += row_id not in ids and not _was_acked(session, seq, claim)
            ids.add(row_id)
        else:
            ids_by_operation[session, seq] = {row_id}
            seq_in_flight = (
                claim.acked.get(session, 0) + 1 if claim else highest_seq[session]
            )
            recovered += seq == seq_in_flight
            unconfirmed += seq != seq_in_flight
            continue
        losses.append(Loss(kind, session, seq, row_id, -1, table.name))
    if claim is None:
        _require_in_window(ids_by_operation, acked, seen.window_acks)
    columns = Losses.of(losses).columns
    return _Surplus(recovered, unconfirmed, unacked_repeats, columns)


def _was_acked(session: int, seq: int, claim: Claim | None) -> bool:
    """Return True if the client got an ack; the witness does not hold it."""
    return claim is not None and seq <= claim.acked.get(session, 0)


def _find_highest_seq(records: Records) -> dict[int, int]:
    highest_seq: dict[int, int] = {}
    for row in records:
        session, seq = int(row["session"]), int(row["seq"])
        highest_seq[session] = max(seq, highest_seq.get(session, 0))
    return highest_seq


def _may_be_sent(session: int, seq: int, claim: Claim | None) -> bool:
    if not 0 <= session <= SESSION_MAX or seq < 1:
        return False
    return claim is None or seq <= claim.sent.get(session, 0)


def _require_in_window(
    operations: Iterable[tuple[int, int]], acked: Ints, window_acks: int
) -> None:
    """Raise LogDamaged if rows were sent after more acks than can be unconfirmed.

    A session sends an operation after the ack of its operation before, and no server
    can make an intact row by itself; so the log was longer and has lost acks.

    operations: session and seq of each intact row beyond the acks.
    """
    lacking_acks: dict[int, int] = {}
    for session, seq in operations:
        lacking = seq - 1 - int(acked[session])
        lacking_acks[session] = max(lacking, lacking_acks.get(session, 0))
    if (acks := sum(lacking_acks.values())) > window_acks:
        raise LogDamaged(
            "the witness log is damaged: intact rows were found that were sent after"
            f" {acks} acks that it lacks, and never more than {window_acks} were"
            " unconfirmed",
            id=ErrorId.WITNESS_LOG_DAMAGED,
        )
