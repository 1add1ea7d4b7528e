"""Order entry: the judge finds what is lost, and nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.loss import LossKind
from dbcheck.rows.plans.orderentry import (
    DISTRICT_PARTS,
    LINE_PARTS,
    WAREHOUSE_PART,
    OrderAction,
    Orders,
    draw_operation,
)
from tests.kit.orders import OrdersModel, plan_of

seeds = st.integers(0, 2**63 - 1)
BESIDE_THE_LEDGER = ("warehouse", "district", "orders", "neworder", "orderline")


@given(seeds, st.integers(1, 40), st.data())
def test_one_row_that_is_gone_is_always_noticed(
    seed: int, count: int, data: st.DataObject
) -> None:
    model = OrdersModel(plan_of(seed))
    model.run(1, count)
    places = [
        (table, name) for table in BESIDE_THE_LEDGER for name in model.tables[table]
    ]
    table, name = data.draw(st.sampled_from(sorted(places)))
    del model.tables[table][name]
    found = model.judged({1: count})
    assert [(x.kind, x.table) for x in found.losses] == [(LossKind.TORN, table)]


@given(seeds, st.integers(2, 40), st.data())
def test_a_row_that_was_overwritten_and_is_back_is_stale(
    seed: int, count: int, data: st.DataObject
) -> None:
    model, earlier = OrdersModel(plan_of(seed)), OrdersModel(plan_of(seed))
    model.run(1, count)
    earlier.run(1, data.draw(st.integers(1, count - 1)))
    table = data.draw(st.sampled_from(["warehouse", "district"]))
    rows, other = model.tables[table], earlier.tables[table]
    older = {name for name in other if name not in rows}
    if not older:
        return
    _, _, part = back = data.draw(st.sampled_from(sorted(older)))
    (newest,) = (name for name in rows if name[2] == part)
    rows[back] = rows.pop(newest)
    (loss,) = model.judged({1: count}).losses
    assert (loss.kind, loss.seq, loss.table) == (LossKind.STALE, newest[1], table)


@given(seeds, st.sampled_from(["orders", "neworder", "orderline"]))
def test_a_row_that_was_rolled_back_is_resurrected(seed: int, table: str) -> None:
    undone = next(
        (
            s
            for s in range(2, 400)
            if draw_operation(seed, 1, s).action is OrderAction.UNDONE
        ),
        0,
    )
    if not undone:
        return
    model = OrdersModel(plan_of(seed))
    model.run(1, undone)
    part = {"orders": 11, "neworder": 12, "orderline": LINE_PARTS.start}[table]
    model.tables[table][1, undone, part] = {"row_id": 10**6}
    (loss,) = model.judged({1: undone}).losses
    assert (loss.kind, loss.seq) == (LossKind.RESURRECTED, undone)
    assert loss.table == table


@given(seeds, st.integers(1, 40), st.integers(1, 3))
def test_an_order_beyond_all_that_was_sent_is_unexpected(
    seed: int, count: int, beyond: int
) -> None:
    """A terminal waits for its answer: one order at most may be there unanswered."""
    model = OrdersModel(plan_of(seed))
    model.run(1, count)
    model.tables["orders"][1, count + beyond, 11] = {"row_id": 10**6}
    (loss,) = model.judged({1: count}).losses
    assert (loss.kind, loss.seq) == (LossKind.UNEXPECTED, count + beyond)


@given(seeds, st.integers(0, 9), st.integers(1, 300))
def test_columns_are_what_is_drawn_one_by_one(
    seed: int, session: int, top: int
) -> None:
    draws = {seq: draw_operation(seed, session, seq) for seq in range(2, top + 1)}
    orders, kinds = Orders(seed), OrderAction
    kept = {s for s, d in draws.items() if d.action is kinds.ORDER}
    undone = {s for s, d in draws.items() if d.action is kinds.UNDONE}
    paid = {s for s, d in draws.items() if d.action is kinds.PAYMENT}
    for written in (orders.orders(session, top), orders.new_orders(session, top)):
        items = list(written)
        assert {s for i in items for s in i.inserted.tolist()} - {0} == kept
        assert {s for i in items for s in i.rolled_back.tolist()} - {0} == undone
    lines = [
        (seq, part)
        for items in orders.lines(session, top)
        for seq, part in zip(
            (items.inserted + items.rolled_back).tolist(),
            items.part.tolist(),
            strict=True,
        )
    ]
    assert sorted(lines) == sorted(
        (seq, part) for seq in kept | undone for part in LINE_PARTS[: draws[seq].lines]
    )
    to_warehouse = [*orders.warehouses(session, top)]
    assert {(p, s) for parts, seq in to_warehouse for p, s in _pairs(parts, seq)} == {
        (WAREHOUSE_PART, seq) for seq in paid | {1}
    }
    to_districts = [*orders.districts(session, top)]
    assert {(p, s) for parts, seq in to_districts for p, s in _pairs(parts, seq)} == {
        (d, 1) for d in DISTRICT_PARTS
    } | {(draws[seq].district, seq) for seq in kept | paid}


def _pairs(parts: np.ndarray, seq: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(parts.tolist(), seq.tolist(), strict=True))
