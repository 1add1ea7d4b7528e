"""Effects of operations beside the row that each inserted into the ledger.

Every operation inserts one such row, its marker, in its last transaction.  The marker
shows whether that was committed, and what the other tables must hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dbcheck.rows.acks import LOAD_SESSION_MAX, SESSION_MAX, Ints
from dbcheck.rows.earlier import Earlier
from dbcheck.rows.loss import (
    CODES,
    LossArray,
    Losses,
    LossKind,
    Trait,
    list_codes,
    number_operations,
)
from dbcheck.rows.prepared import Undecided
from dbcheck.rows.reconcile import Observed, Reconciliation
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import (
    DIFFERENT,
    RECORD,
    Flags,
    Records,
    find_distinct,
    is_among,
)
from dbcheck.rows.table import TableSpec

_INTACT, _NOT_INTACT = 1, 2


class Markers:
    """The rows of the ledger, by session and seq.

    acked: by session, how many operations are confirmed.
    tops:  by session, the last operation that may have left something: it is acked, or
           its row is there, or the client had sent it.
    """

    def __init__(self, seen: Observed, table: TableSpec, epoch: int) -> None:
        """Read the rows of *table* that *epoch* wrote."""
        self._epoch = epoch
        self.acked = seen.summarize_acks().counts
        self.tops = _find_last_operations(seen, table, epoch, self.acked)
        self._offsets = np.concatenate(([0], np.cumsum(self.tops)[:-1])) - 1
        self._marks = np.zeros(int(self.tops.sum()), np.uint8)
        for records in seen.survivors[table.name]():
            own = self.own(records)
            intact = own["content"] != DIFFERENT
            for mark, marked in ((_INTACT, own[intact]), (_NOT_INTACT, own[~intact])):
                places = self._offsets[marked["session"]] + marked["seq"]
                self._marks[places] |= mark

    def sessions(self) -> list[int]:
        """Return the sessions of the load, and the preflight's, that sent anything."""
        found: list[int] = np.flatnonzero(self.tops[: LOAD_SESSION_MAX + 1]).tolist()
        return found

    def own(self, records: Records) -> Records:
        """Return the rows of *records* that an operation can have written."""
        session, seq = records["session"], records["seq"]
        own: Flags = (records["epoch"] == self._epoch) & (seq >= 1)
        own &= (session >= 0) & (session <= SESSION_MAX)
        own[own] = seq[own] <= self.tops[session[own]]
        found: Records = records[own]
        return found

    def present(self, session: int, seq: Ints) -> Flags:
        """Flag operations whose row is there and intact; there is no operation 0."""
        return self._has_mark(session, seq, _INTACT)

    def perhaps_present(self, session: int, seq: Ints) -> Flags:
        """Flag operations whose row is there; if not intact, its key may be wrong."""
        return self._has_mark(session, seq, _INTACT | _NOT_INTACT)

    def _has_mark(self, session: int, seq: Ints, wanted: int) -> Flags:
        found: Flags = (seq >= 1) & (seq <= self.tops[session])
        places = self._offsets[session] + seq[found]
        found[found] = self._marks[places] & wanted > 0
        return found


def _find_last_operations(
    seen: Observed, table: TableSpec, epoch: int, acked: Ints
) -> Ints:
    """Return, by session, the last operation that the client can have sent.

    Without the client's record it is one more than could be unconfirmed.
    """
    if seen.claim is not None:
        tops = acked.copy()
        for session, sent in seen.claim.sent.items():
            tops[session] = max(sent, tops[session])
        return tops
    ran = acked > 0
    for records in seen.survivors[table.name]():
        own = records[(records["epoch"] == epoch) & (records["content"] != DIFFERENT)]
        session = own["session"]
        ran[session[(session >= 0) & (session <= SESSION_MAX)]] = True
    found: Ints = np.where(ran, acked + seen.window_acks + 1, 0)
    return found


_MISSING, _NOT_KEPT = list_codes(Trait.MISSING), list_codes(Trait.NOT_KEPT)


@dataclass(frozen=True, slots=True)
class Effects:
    """Findings in one table that operations write to beside the ledger.

    losses:  of this run; when each was acked is not filled in yet.
    earlier: the rows of earlier runs.
    undecided: how many of the losses are of transactions that the load had not decided,
             see rows.prepared.
    """

    losses: LossArray
    earlier: Earlier
    undecided: Undecided = Undecided()


def split_by_epoch(
    seen: Observed, table: TableSpec, epoch: int
) -> tuple[Records, Earlier]:
    """Return the rows of *table* that are of *epoch*, and the others."""
    earlier = Earlier(table, seen.before[table.name])
    own = stream_own(seen, table, epoch, earlier)
    return np.concatenate([np.empty(0, RECORD), *own]), earlier


def stream_own(
    seen: Observed, table: TableSpec, epoch: int, earlier: Earlier
) -> Iterator[Records]:
    """Yield the rows of *table* that are of *epoch*.

    The others are added to *earlier*, which is settled at the end.
    """
    read = seen.survivors[table.name]
    for records in read():
        is_own = records["epoch"] == epoch
        earlier.add(records[~is_own])
        yield records[is_own]
    earlier.settle_undecided(read)


def add_effects(
    inserted: Reconciliation,
    effects: Sequence[Effects],
    acks: AckStream,
    markers: Markers,
) -> Reconciliation:
    """Return *inserted*, the fate of the rows of the ledger, with that of *effects*.

    A row of the ledger that is missing although its operation left something elsewhere
    is torn, and not missing.
    """
    found = np.concatenate([effect.losses for effect in effects])
    torn = number_operations(found[found["kind"] == CODES[LossKind.TORN]])
    columns = inserted.losses.columns
    is_torn = is_among(columns["kind"], _MISSING) & is_among(
        number_operations(columns), torn
    )
    missing = columns[~is_torn]
    _date_losses(found, acks)
    broken = found[is_among(found["kind"], _NOT_KEPT) & (found["seq"] >= 1)]
    broken = broken[broken["seq"] <= markers.acked[broken["session"]]]
    counted_operations = number_operations(columns[columns["acked_us"] >= 0])
    broken_operations = find_distinct(number_operations(broken))
    kept_less = int(np.count_nonzero(~is_among(broken_operations, counted_operations)))
    earlier = [effect.earlier for effect in effects]
    parts = [*(part for table in earlier for part in table.losses), missing, found]
    return replace(
        inserted,
        kept=inserted.kept - kept_less,
        foreign=inserted.foreign + sum(table.foreign for table in earlier),
        earlier=inserted.earlier + sum(table.rows for table in earlier),
        earlier_lost=dict(
            sum(
                (Counter(table.lost()) for table in earlier),
                Counter(inserted.earlier_lost),
            )
        ),
        losses=Losses.gathered(sum(map(len, parts)), parts),
        earlier_damaged=sum(
            (table.damaged for table in earlier), Counter(inserted.earlier_damaged)
        ),
        earlier_altered=inserted.earlier_altered
        + sum(table.altered for table in earlier),
        undecided=sum((effect.undecided for effect in effects), inserted.undecided),
    )


def _date_losses(losses: LossArray, acks: AckStream) -> None:
    """Fill in when the operations of *losses* were acked."""
    if not len(losses):
        return
    lost_operations = number_operations(losses)
    wanted = find_distinct(lost_operations)
    acked_us = np.full(wanted.size, -1, np.int64)
    for batch in acks():
        batch_operations = number_operations(batch)
        places = np.searchsorted(wanted, batch_operations).clip(max=wanted.size - 1)
        own = wanted[places] == batch_operations
        acked_us[places[own]] = batch["acked_us"][own]
    losses["acked_us"] = acked_us[np.searchsorted(wanted, lost_operations)]
