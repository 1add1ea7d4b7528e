from __future__ import annotations

import tracemalloc

import numpy as np

from dbcheck.core.acks import ACK_DTYPE
from dbcheck.core.loss import IdRange, Loss, Losses, LossKind
from dbcheck.core.observed import Observed
from dbcheck.core.reconcile import reconcile
from dbcheck.core.table import LEDGER
from tests.kit.cycles import NOTHING_BEFORE

TAIL, HOLE = LossKind.MISSING_TAIL, LossKind.MISSING_HOLE


def test_consecutive_ids_of_one_kind_are_one_range() -> None:
    losses = [
        Loss(TAIL, 1, n, row_id, 100 * row_id) for n, row_id in enumerate((7, 5, 6))
    ]
    losses += [Loss(TAIL, 1, 9, 9, 900), Loss(HOLE, 2, 1, 8, 800)]
    assert list(Losses.of(losses).ranges()) == [
        IdRange(HOLE, 8, 8, 800, 800),
        IdRange(TAIL, 5, 7, 500, 700),
        IdRange(TAIL, 9, 9, 900, 900),
    ]
    assert [span.rows for span in Losses.of(losses).ranges()] == [1, 3, 1]


def test_no_losses_are_no_ranges() -> None:
    assert list(Losses.of([]).ranges()) == []


def test_losses_are_listed_in_order_of_their_ids() -> None:
    losses = [
        Loss(HOLE, 1, 2, 9, 900),
        Loss(TAIL, 2, 1, 7, 700),
        Loss(TAIL, 1, 3, 8, 800),
    ]
    held = Losses.of(losses)
    assert list(held) == losses
    assert list(held.by_id()) == sorted(losses, key=lambda loss: loss.row_id)
    assert (held[-1], list(held[:2])) == (losses[-1], losses[:2])
    assert held.counts == {HOLE: 1, TAIL: 2}


def test_a_drive_that_loses_everything_is_judged_in_little_memory() -> None:
    """There may be ten million losses, so none may be kept as an object."""
    rows = 50_000
    acks = np.zeros(rows, ACK_DTYPE)
    acks["session"], acks["seq"] = 1, np.arange(1, rows + 1)
    acks["row_id"] = 2 * acks["seq"]  # each a range by itself
    tracemalloc.start()
    seen = Observed(
        lambda: np.array_split(acks, 20),
        {"ledger": lambda: ()},
        {"ledger": NOTHING_BEFORE},
        None,
        window_acks=1,
    )
    found = reconcile(seen, LEDGER, epoch=1)
    listed = sum(1 for _ in found.losses.by_id())
    ranges = sum(1 for _ in found.losses.ranges())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (listed, ranges, found.counts) == (rows, rows, {"missing-tail": rows})
    assert peak < 150 * rows
