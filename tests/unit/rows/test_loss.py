from __future__ import annotations

import tracemalloc

import numpy as np

from dbcheck.rows.acks import ACK_DTYPE
from dbcheck.rows.loss import IdRange, Loss, Losses, LossKind
from dbcheck.rows.reconcile import Observed, reconcile
from dbcheck.rows.table import LEDGER, REGISTER, TABLES
from tests.kit.cycles import NOTHING_BEFORE

TAIL, HOLE = LossKind.MISSING_TAIL, LossKind.MISSING_HOLE


def test_consecutive_ids_of_one_kind_are_one_range() -> None:
    losses = [
        Loss(TAIL, 1, n, row_id, 100 * row_id, LEDGER.name)
        for n, row_id in enumerate((7, 5, 6))
    ]
    losses += [
        Loss(TAIL, 1, 9, 9, 900, LEDGER.name),
        Loss(HOLE, 2, 1, 8, 800, LEDGER.name),
    ]
    assert list(Losses.of(losses).ranges()) == [
        IdRange(HOLE, LEDGER.name, 8, 8, 800, 800),
        IdRange(TAIL, LEDGER.name, 5, 7, 500, 700),
        IdRange(TAIL, LEDGER.name, 9, 9, 900, 900),
    ]
    assert [span.rows for span in Losses.of(losses).ranges()] == [1, 3, 1]


def test_ids_of_two_tables_are_different_things() -> None:
    in_ledger = [Loss(TAIL, 1, n, n, 10 * n, LEDGER.name) for n in (1, 3)]
    in_register = [Loss(TAIL, 1, 9, n, 90, REGISTER.name) for n in (1, 2)]
    held = Losses.of([*in_register, *in_ledger])
    assert list(held.by_id()) == [*in_ledger, *in_register]
    assert list(held.ranges()) == [
        IdRange(TAIL, "ledger", 1, 1, 10, 10),
        IdRange(TAIL, "ledger", 3, 3, 30, 30),
        IdRange(TAIL, "register", 1, 2, 90, 90),
    ]


def test_every_table_that_a_loss_can_be_in_has_a_code() -> None:
    """The code is one byte: see LOSS."""
    losses = [Loss(TAIL, 1, 1, 1, 1, table.name) for table in TABLES]
    assert [loss.table for loss in Losses.of(losses)] == [t.name for t in TABLES]


def test_no_losses_are_no_ranges() -> None:
    assert list(Losses.of([]).ranges()) == []


def test_losses_are_listed_in_order_of_their_ids() -> None:
    losses = [
        Loss(HOLE, 1, 2, 9, 900, LEDGER.name),
        Loss(TAIL, 2, 1, 7, 700, LEDGER.name),
        Loss(TAIL, 1, 3, 8, 800, LEDGER.name),
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
