"""Reconciles a table of the classic shape, whose rows have an id and nothing else.

An id is all there is to recognise a row by.  It names one insert as long as the
server hands out no id twice, which holds while nothing writes between the cut
and the reading; a content cannot be checked at all.
"""

from __future__ import annotations

import numpy as np

from dbcheck.core.earlier import Before
from dbcheck.core.loss import CODES, Losses, LossKind, of_acks, without_key
from dbcheck.core.reconcile import (
    AckStream,
    Claim,
    Ints,
    Reconciliation,
    SurvivorStream,
    count_acks,
    missing_kinds,
    require_claimed,
)


def reconcile_ids(
    acks: AckStream,
    survivors: SurvivorStream,
    *,
    before: Before,
    claim: Claim | None,
    window_acks: int,
) -> Reconciliation:
    """Return the fate of each acked id and of each id that was found."""
    per_session = count_acks(acks)
    require_claimed(per_session, claim)
    found, copies = np.unique(_found_ids(survivors), return_counts=True)
    twice = found[copies > 1]
    fresh = found[found > before.row_id_max]
    acked = np.sort(_acked_ids(acks))
    losses = _losses(acks, acked, fresh, twice, per_session)
    surplus = np.setdiff1d(fresh, acked)
    if claim is not None:
        legal = sum(claim.sent.values()) - int(per_session.sum())
        in_flight = sum(claim.sent.values()) - sum(claim.acked.values())
    else:
        in_flight = max(1, int(np.count_nonzero(per_session)))
        legal = window_acks + in_flight
    # Nothing tells which ids are another run's, or whether there was one at all.
    strangers = max(0, int(surplus.size) - legal)
    recovered = min(int(surplus.size), in_flight)
    earlier = int(found.size - fresh.size)
    rows_before = sum(before.rows_by_epoch.values())
    return Reconciliation(
        confirmed=int(acked.size),
        kept=int(np.count_nonzero(~np.isin(acked, losses.columns["row_id"]))),
        recovered=recovered,
        unconfirmed=int(surplus.size) - recovered - strangers,
        # More than were counted before: they were being committed at that time.
        foreign=strangers + max(0, earlier - rows_before),
        earlier=earlier,
        earlier_lost={0: rows_before - earlier} if earlier < rows_before else {},
        losses=losses,
    )


def _found_ids(survivors: SurvivorStream) -> Ints:
    parts = [records["row_id"].astype(np.int64) for records in survivors()]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _acked_ids(acks: AckStream) -> Ints:
    parts = [batch["row_id"].astype(np.int64) for batch in acks()]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _losses(
    acks: AckStream, acked: Ints, fresh: Ints, twice: Ints, per_session: Ints
) -> Losses:
    """Return the acked ids that are gone, and those that were acked or found twice.

    twice: ids that stand in the table more than once.
    """
    again = np.union1d(twice, acked[1:][acked[1:] == acked[:-1]])
    unacked = np.setdiff1d(twice, acked)
    kinds = np.full(len(unacked), CODES[LossKind.DUPLICATE], np.uint8)
    losses = [without_key(kinds, unacked)]
    if again.size or not np.isin(acked, fresh).all():
        tail = _missing_after(acks, fresh, per_session)
        for batch in acks():
            gone = ~np.isin(batch["row_id"], fresh)
            kinds = np.full(len(batch), CODES[LossKind.DUPLICATE], np.uint8)
            kinds[gone] = missing_kinds(batch[gone], tail)
            bad = gone | np.isin(batch["row_id"], again)
            losses.append(of_acks(kinds[bad], batch[bad]))
    return Losses(np.concatenate(losses))


def _missing_after(acks: AckStream, fresh: Ints, per_session: Ints) -> Ints:
    """Return, by session, the last seq whose row is there."""
    last = np.zeros_like(per_session)
    for batch in acks():
        there = np.isin(batch["row_id"], fresh)
        np.maximum.at(last, batch["session"][there], batch["seq"][there])
    return last
