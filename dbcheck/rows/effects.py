"""What operations did beside the row that each of them inserted into the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dbcheck.rows.distinct import distinct, is_among
from dbcheck.rows.earlier import Earlier
from dbcheck.rows.leftover import Undecided
from dbcheck.rows.loss import (
    CODES,
    MISSING,
    LossArray,
    Losses,
    LossKind,
    operations_of,
)
from dbcheck.rows.markers import Markers
from dbcheck.rows.observed import AckStream, Observed
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import TableSpec

_MISSING = np.array(sorted(CODES[kind] for kind in MISSING))
# Of these, an operation that was acked is not kept.
_BROKEN = np.array(
    [
        CODES[kind]
        for kind in (
            LossKind.STALE,
            LossKind.TORN,
            LossKind.CORRUPT,
            LossKind.RESURRECTED,
            LossKind.PREPARED,
        )
    ]
)


@dataclass(frozen=True, slots=True)
class Effects:
    """What was found in one table that operations write to beside the ledger.

    losses:  of this run; when each was acked is not filled in yet.
    earlier: the rows of earlier runs.
    undecided: of the losses; see there.
    """

    losses: LossArray
    earlier: Earlier
    undecided: Undecided = Undecided()


def sorted_out(seen: Observed, table: TableSpec, epoch: int) -> tuple[Records, Earlier]:
    """Return the rows of *table* that are of *epoch*, and the others."""
    read = seen.survivors[table.name]
    earlier = Earlier(table, seen.before[table.name])
    own: list[Records] = []
    for records in read():
        mine = records["epoch"] == epoch
        earlier.add(records[~mine])
        own.append(records[mine])
    earlier.look_again(read)
    return np.concatenate([np.empty(0, RECORD), *own]), earlier


def with_effects(
    inserted: Reconciliation,
    effects: Sequence[Effects],
    acks: AckStream,
    markers: Markers,
) -> Reconciliation:
    """Return *inserted*, the fate of the rows of the ledger, with that of *effects*.

    A row of the ledger that is missing although its operation left something elsewhere
    is torn, and not missing.
    """
    found = np.concatenate([each.losses for each in effects])
    torn = operations_of(found[found["kind"] == CODES[LossKind.TORN]])
    columns = inserted.losses.columns
    is_torn = is_among(columns["kind"], _MISSING) & is_among(
        operations_of(columns), torn
    )
    missing = columns[~is_torn]
    _date(found, acks)
    broken = found[is_among(found["kind"], _BROKEN) & (found["seq"] >= 1)]
    broken = broken[broken["seq"] <= markers.acked[broken["session"]]]
    known = operations_of(columns[columns["acked_us"] >= 0])
    names = distinct(operations_of(broken))
    kept_less = int(np.count_nonzero(~is_among(names, known)))
    earlier = [each.earlier for each in effects]
    parts = [*(part for each in earlier for part in each.losses), missing, found]
    return replace(
        inserted,
        kept=inserted.kept - kept_less,
        foreign=inserted.foreign + sum(each.foreign for each in earlier),
        earlier=inserted.earlier + sum(each.rows for each in earlier),
        earlier_lost=dict(
            sum(
                (Counter(each.lost()) for each in earlier),
                Counter(inserted.earlier_lost),
            )
        ),
        losses=Losses.gathered(sum(map(len, parts)), parts),
        earlier_damaged=sum(
            (each.damaged for each in earlier), Counter(inserted.earlier_damaged)
        ),
        earlier_altered=inserted.earlier_altered
        + sum(each.altered for each in earlier),
        undecided=sum((each.undecided for each in effects), inserted.undecided),
    )


def _date(losses: LossArray, acks: AckStream) -> None:
    """Fill in when the operations of *losses* were acked."""
    if not len(losses):
        return
    names = operations_of(losses)
    wanted = distinct(names)
    acked_us = np.full(wanted.size, -1, np.int64)
    for batch in acks():
        given = operations_of(batch)
        places = np.searchsorted(wanted, given).clip(max=wanted.size - 1)
        own = wanted[places] == given
        acked_us[places[own]] = batch["acked_us"][own]
    losses["acked_us"] = acked_us[np.searchsorted(wanted, names)]
