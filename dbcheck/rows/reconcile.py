"""Compares the acks that the witness holds with the rows that survived.

Acks and survivors are streamed twice at most and never held as objects: a byte
for each ack is all that is kept, since a session's acks have no gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged
from dbcheck.rows.acks import SESSION_MAX, AckArray, Ints
from dbcheck.rows.earlier import Earlier
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
from dbcheck.rows.survivors import DIFFERENT, RECORD, Flags, Records
from dbcheck.rows.table import CLASSIC, LEDGER, TABLES, TableFacts, TableSpec

AckStream = Callable[[], Iterable[AckArray]]
SurvivorStream = Callable[[], Iterable[Records]]


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

    survivors:   by the table's name, every row, read before anything wrote again.  A
                 side table that is not there has none.
    before:      by the table's name, what it held before the load.
    claim:       None if the client was lost before it could make one.  Rows beyond the
                 acks are then legal as far as *window_acks* and one operation in
                 flight for each session explain them.
    window_acks: most acks that could be unconfirmed at once.
    left_over:   the run's transactions that the server still listed as prepared.
    is_ddl_atomic: a CREATE, DROP, TRUNCATE or ALTER is part of its transaction.
    """

    acks: AckStream
    survivors: Mapping[str, SurvivorStream]
    before: Mapping[str, TableFacts]
    claim: Claim | None
    window_acks: int
    left_over: Sequence[LeftOver] = ()
    is_ddl_atomic: bool = False


_SEEN, _DIFFERENT, _TWICE = 1, 2, 4
_ROW_PER_COMMIT = [TABLES.index(table) for table in (LEDGER, CLASSIC)]
_PLACES_AT_ONCE = 1 << 22
_MODULUS = 2**64
# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
# OOPSLA 2014, 453-472.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


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
        found: LossArray = columns[self._are_of_commits(columns)]
        return found

    @property
    def counts_beside_commits(self) -> dict[str, int]:
        """Those of own_counts that are no loss of an acked commit."""
        columns = self.losses.columns
        beside = Losses(columns[~self._are_of_commits(columns)]).counts
        own = Counter(beside) - Counter(self.earlier_damaged)
        return dict(sorted((kind.value, rows) for kind, rows in own.items()))

    @staticmethod
    def _are_of_commits(columns: LossArray) -> Flags:
        """Flag the losses for which an acked commit is not intact.

        A row that no client wrote is none, even if it names such a commit, nor is the
        copy of a sound row, unless its table has one row for each commit.
        """
        found: Flags = columns["acked_us"] >= 0
        found &= columns["kind"] != CODES[LossKind.UNEXPECTED]
        is_copy = columns["kind"] == CODES[LossKind.DUPLICATE]
        found &= ~is_copy | np.isin(columns["table"], _ROW_PER_COMMIT)
        return found

    @property
    def all_gone(self) -> bool:
        """True if no row of this run survived, not even those from before the load."""
        some = self.kept or self.recovered or self.unconfirmed
        return not some and self.losses.counts.keys() <= MISSING

    @property
    def repeats(self) -> int:
        """The number of losses that repeat an operation's row, acked or not.

        Of the tables with a key, only the ledger takes one key under two ids.
        """
        columns = self.losses.columns
        twice = columns["kind"] == CODES[LossKind.DUPLICATE]
        twice &= (columns["table"] == TABLES.index(LEDGER)) & (columns["session"] >= 0)
        return int(np.count_nonzero(twice))

    @property
    def earlier_counts(self) -> dict[str, int]:
        """Losses among the rows of earlier cycles by kind; only kinds that occur.

        The order of those that are gone is not known, so they are holes.
        """
        found = Counter(self.earlier_damaged)
        if gone := sum(self.earlier_lost.values()):
            found[LossKind.MISSING_HOLE] += gone
        return dict(sorted((kind.value, rows) for kind, rows in found.items()))


def count_acks(stream: AckStream) -> Ints:
    """Return the number of acks of each session, by session number.

    Raise LogDamaged if a session's acks are not 1, 2, 3, ...: the client sends
    them in that order, so another order means that acks are lost or replayed.
    """
    last = np.zeros(SESSION_MAX + 1, np.int64)
    for batch in stream():
        order = np.argsort(batch["session"], kind="stable")
        session, seq = batch["session"][order], batch["seq"][order].astype(np.int64)
        first = np.r_[True, session[1:] != session[:-1]]
        expected = np.where(first, last[session] + 1, np.r_[0, seq[:-1] + 1])
        wrong = np.flatnonzero(seq != expected)
        if wrong.size:
            at = int(wrong[0])
            raise LogDamaged(
                f"the log has ack {seq[at]} of session {session[at]}"
                f" where ack {expected[at]} must stand",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )
        np.maximum.at(last, session, seq)
    return last


def require_claimed(counted: Ints, claim: Claim | None) -> None:
    """Raise LogDamaged if the log holds acks that the client never received."""
    if claim is None:
        return
    for session in np.flatnonzero(counted):
        received = claim.acked.get(int(session), 0)
        if counted[session] > received:
            raise LogDamaged(
                f"the log has {counted[session]} acks of session {session}, and the"
                f" client received {received}",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )


def reconcile(seen: Observed, table: TableSpec, epoch: int) -> Reconciliation:
    """Return the fate of each ack and of each survivor of *table*, which has keys.

    Raise LogDamaged if rows show that acks are gone from the log.
    """
    acks, survivors = seen.acks, seen.survivors[table.name]
    counted = count_acks(acks)
    require_claimed(counted, seen.claim)
    marks = _Marks(counted)
    earlier = Earlier(table, seen.before[table.name])
    surplus: list[Records] = []
    for records in survivors():
        own = records["epoch"] == epoch
        earlier.add(records[~own])
        surplus.append(marks.add(records[own]))
    beyond = np.concatenate([np.empty(0, RECORD), *surplus])
    surplus_of = _sort_surplus(beyond, marks.acked, seen, table)
    earlier.settle_undecided(survivors)
    if marks.weigh(acks) != marks.weight:
        marks.find_other_ids(acks, survivors, epoch)
    others = [*earlier.losses, surplus_of.losses]
    losses = Losses.gathered(
        sum(map(len, others)) + marks.total - marks.kept,
        chain(others, _list_acked_losses(acks, marks, table)),
    )
    return Reconciliation(
        confirmed=marks.total,
        kept=marks.kept,
        recovered=surplus_of.recovered,
        unconfirmed=surplus_of.unconfirmed,
        foreign=earlier.foreign,
        earlier=earlier.rows,
        earlier_lost=earlier.lost(),
        losses=losses,
        earlier_damaged=earlier.damaged,
        earlier_altered=earlier.altered,
        unacked_repeats=surplus_of.unacked_repeats,
    )


class _Marks:
    """One byte for each ack: was its row seen, twice, with another content?

    weight: of the ids of the rows that were seen, each times a number that its
            place decides, modulo 2^64.  It equals that of the acked ids of the same
            places unless an id differs; so no id needs to be kept.
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
            int(np.count_nonzero(marks == _SEEN)) for _, marks in self._in_parts()
        )

    def add(self, records: Records) -> Records:
        """Mark the records of acked operations; return the others."""
        known = self._known(records)
        mine = records[known]
        places = self.places(mine)
        again = self._were_seen_before(places)
        added = _compute_weight(mine["row_id"][~again], places[~again])
        self.weight = (self.weight + added) % _MODULUS
        self.marks[places] |= _SEEN
        self.marks[places[mine["content"] == DIFFERENT]] |= _DIFFERENT
        self.marks[places[again]] |= _TWICE
        return records[~known]

    def _were_seen_before(self, places: Ints) -> npt.NDArray[np.bool_]:
        """Return a flag for each place: True if its row was seen, in this batch too."""
        seen: npt.NDArray[np.bool_] = self.marks[places] & _SEEN > 0
        ordered = np.sort(places)
        if (ordered[1:] == ordered[:-1]).any():
            _, firsts = np.unique(places, return_index=True)
            repeated = np.ones(len(places), np.bool_)
            repeated[firsts] = False
            seen |= repeated
        return seen

    def _in_parts(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Yield all marks, and the place of the first, so that copies stay small."""
        for at in range(0, self.total, _PLACES_AT_ONCE):
            yield at, self.marks[at : at + _PLACES_AT_ONCE]

    def _known(self, records: Records) -> npt.NDArray[np.bool_]:
        """Return a flag for each record: True if it is of an acked operation."""
        session, seq = records["session"], records["seq"]
        known: npt.NDArray[np.bool_] = (session >= 0) & (session <= SESSION_MAX)
        known &= (seq >= 1) & (records["part"] == 0)
        known[known] = seq[known] <= self.acked[session[known]]
        return known

    def places(self, named: Records) -> Ints:
        """Return the places of the marks of these acks, or of these rows."""
        found: Ints = self.offset[named["session"]] + named["seq"]
        return found

    def weigh(self, acks: AckStream) -> int:
        """Return the weight of the acked ids whose rows were seen."""
        total = 0
        for batch in acks():
            places = self.places(batch)
            seen = self.marks[places] & _SEEN > 0
            total += _compute_weight(batch["row_id"][seen], places[seen])
        return total % _MODULUS

    def find_other_ids(
        self, acks: AckStream, survivors: SurvivorStream, epoch: int
    ) -> None:
        """Mark as different the rows that have another id than the one acked.

        Ids take eight times the memory of marks; so all is read again for each part.
        """
        for begin, marks in self._in_parts():
            ids = np.zeros(len(marks), np.int64)
            for records in survivors():
                own = records[records["epoch"] == epoch]
                own = own[self._known(own)]
                at = self.places(own) - begin
                here = (at >= 0) & (at < len(marks))
                ids[at[here]] = own["row_id"][here]
            for batch in acks():
                at = self.places(batch) - begin
                here = (at >= 0) & (at < len(marks))
                at, acked = at[here], batch["row_id"][here]
                other = (ids[at] != acked) & (marks[at] == _SEEN)
                marks[at[other]] |= _DIFFERENT

    def find_last_seen(self) -> Ints:
        """Return, by session, the seq after which every acked row is missing."""
        ends = np.cumsum(self.acked)
        last = np.zeros_like(self.acked)
        for begin, marks in self._in_parts():
            seen = begin + np.flatnonzero(marks & _SEEN)
            session = np.searchsorted(ends, seen, side="right")
            np.maximum.at(last, session, seen - self.offset[session])
        return last


def _compute_weight(ids: Ints, places: Ints) -> int:
    """Weigh *ids*, each by a factor that its place draws.

    Factors that grew with the places would let neighbours make up for one another.
    """
    factors = (places.astype(np.uint64) + np.uint64(1)) * _GAMMA
    for bits, mixer in _MIXERS:
        factors ^= factors >> np.uint64(bits)
        factors *= mixer
    factors ^= factors >> np.uint64(31)
    return int((ids.astype(np.uint64) * factors).sum(dtype=np.uint64))


def _list_acked_losses(
    acks: AckStream, marks: _Marks, table: TableSpec
) -> Iterator[LossArray]:
    """Yield every acked row that is missing, different or there twice."""
    if marks.kept == marks.total:
        return
    tail = marks.find_last_seen()
    for batch in acks():
        mark = marks.marks[marks.places(batch)]
        bad = mark != _SEEN
        batch, mark = batch[bad], mark[bad]
        kinds = np.full(len(batch), CODES[LossKind.CORRUPT], np.uint8)
        kinds[mark & _TWICE > 0] = CODES[LossKind.DUPLICATE]
        gone = mark & _SEEN == 0
        kinds[gone] = find_kinds_of_missing(batch[gone], tail)
        yield make_losses_of_acks(kinds, batch, table)


def find_kinds_of_missing(gone: AckArray, tail: Ints) -> Codes:
    """Return the kind of loss of each ack whose row is *gone*.

    tail: by session, the seq after which every acked row is missing.
    """
    kinds = np.full(len(gone), CODES[LossKind.MISSING_HOLE], np.uint8)
    kinds[gone["seq"] > tail[gone["session"]]] = CODES[LossKind.MISSING_TAIL]
    return kinds


class _Surplus(NamedTuple):
    """Kinds of rows beyond the acks; see Reconciliation.  losses: of these alone."""

    recovered: int
    unconfirmed: int
    unacked_repeats: int
    losses: LossArray


def _sort_surplus(
    beyond: Records, acked: Ints, seen: Observed, table: TableSpec
) -> _Surplus:
    """Sort the rows beyond the acks by their kind.

    A row whose content is what the schedule computes for its key was sent by the
    run: no one else has the seed.  It is legal as far as the client can have sent
    it before the cut.  Raise LogDamaged if one shows that acks are gone from the log.
    """
    claim = seen.claim
    recovered = unconfirmed = repeats = 0
    unexpected: list[Loss] = []
    taken: dict[tuple[int, int], set[int]] = {}
    top = _find_highest_seq(beyond)
    for row in beyond:
        session, seq, row_id = int(row["session"]), int(row["seq"]), int(row["row_id"])
        legal = row["content"] != DIFFERENT and row["part"] == 0
        if not legal or not _may_be_sent(session, seq, claim):
            kind = LossKind.UNEXPECTED
        elif (session, seq) in taken:
            kind = LossKind.DUPLICATE
            ids = taken[session, seq]
            # One id twice is the server's own doing.
            repeats += row_id not in ids and not _was_acked(session, seq, claim)
            ids.add(row_id)
        else:
            taken[session, seq] = {row_id}
            last = claim.acked.get(session, 0) + 1 if claim else top[session]
            recovered += seq == last
            unconfirmed += seq != last
            continue
        unexpected.append(Loss(kind, session, seq, row_id, -1, table.name))
    if claim is None:
        _require_in_window(taken, acked, seen.window_acks)
    losses = Losses.of(unexpected).columns
    return _Surplus(recovered, unconfirmed, repeats, losses)


def _was_acked(session: int, seq: int, claim: Claim | None) -> bool:
    """Return True if the client got an ack, which the witness then does not hold."""
    return claim is not None and seq <= claim.acked.get(session, 0)


def _find_highest_seq(records: Records) -> dict[int, int]:
    top: dict[int, int] = {}
    for row in records:
        session, seq = int(row["session"]), int(row["seq"])
        top[session] = max(seq, top.get(session, 0))
    return top


def _may_be_sent(session: int, seq: int, claim: Claim | None) -> bool:
    if not 0 <= session <= SESSION_MAX or seq < 1:
        return False
    return claim is None or seq <= claim.sent.get(session, 0)


def _require_in_window(
    taken: Iterable[tuple[int, int]], acked: Ints, window_acks: int
) -> None:
    """Raise LogDamaged if rows were sent after more acks than can be unconfirmed.

    A session sends an operation after the ack of the one before, and no server can make
    such a row by itself: it is the log that is shorter than it was.

    taken: session and seq of each intact row beyond the acks.
    """
    lacking: dict[int, int] = {}
    for session, seq in taken:
        before = seq - 1 - int(acked[session])
        lacking[session] = max(before, lacking.get(session, 0))
    if (acks := sum(lacking.values())) > window_acks:
        raise LogDamaged(
            f"intact rows were found that were sent after {acks} acks that the log"
            f" lacks, and never more than {window_acks} were unconfirmed",
            id=ErrorId.WITNESS_LOG_DAMAGED,
        )
