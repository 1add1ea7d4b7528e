"""Mixed operations whose rows are not what they must be: each fault has its name."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from dbcheck.rows import decks
from dbcheck.rows.acks import ACK_DTYPE, AckArray
from dbcheck.rows.mix import BATCH_ROWS, Action, Mix
from dbcheck.rows.reconcile import Observed, Reconciliation
from dbcheck.rows.survivors import DIFFERENT, RECORD, Records
from dbcheck.rows.table import TableFacts
from tests.kit.cycles import EPOCH, NOTHING_BEFORE, record
from tests.kit.mixed import EVERYTHING, Model, Name, plan_of, versions

COUNT = 60
Named = tuple[str, int]
Fault = Callable[[Model], Named]


def model_after(count: int = COUNT, mix: Mix = EVERYTHING) -> Model:
    model = Model(plan_of(mix))
    model.run(1, count)
    return model


def first(model: Model, action: Action) -> int:
    """Return the first operation of that kind whose successor decks are there, too."""
    dealt = decks.Decks(EVERYTHING, 5)
    return dealt.deck(1, 1).numbers(action)[0]


def put(model: Model, name: Name) -> None:
    model.tables["item"][name] = {"row_id": 10**6}


def rolled_back_insert(model: Model) -> Named:
    seq = first(model, Action.ROLLBACK)
    put(model, (1, seq, decks.ROLLED_BACK_PART))
    return "resurrected", seq


def rolled_back_update(model: Model) -> Named:
    seq = first(model, Action.ROLLBACK)
    target = model.plan.operation(1, seq).statements[1].values[-2:]
    old, part = (int(value) for value in target)
    del model.tables["item"][1, old, part]
    put(model, (1, seq, part))
    return "resurrected", seq


def rolled_back_to_savepoint(model: Model) -> Named:
    seq = first(model, Action.SAVEPOINT)
    put(model, (1, seq, decks.ROLLED_BACK_PART))
    return "resurrected", seq


def kept_of_savepoint(model: Model) -> Named:
    seq = first(model, Action.SAVEPOINT)
    del model.tables["item"][1, seq, 1]
    return "torn", seq


def deleted(model: Model) -> Named:
    seq = first(model, Action.DELETE)
    old, part = model.plan.operation(1, seq).statements[1].values[-2:]
    put(model, (1, int(old), int(part)))
    return "resurrected", seq


def updated(model: Model) -> Named:
    new, old = max(versions(model.plan, 1, COUNT).items())
    model.tables["item"][old] = model.tables["item"].pop(new)
    return "stale", new[1]


def both_versions(model: Model) -> Named:
    new, old = max(versions(model.plan, 1, COUNT).items())
    put(model, old)
    return "duplicate", new[1]


def batch_without_its_marker(model: Model) -> Named:
    seq = first(model, Action.BATCH)
    del model.tables["ledger"][1, seq, 0]
    return "torn", seq


def update_without_its_marker(model: Model) -> Named:
    new, _ = max(versions(model.plan, 1, COUNT).items())
    del model.tables["ledger"][1, new[1], 0]
    return "torn", new[1]


def delete_without_its_marker(model: Model) -> Named:
    seq = first(model, Action.DELETE)
    del model.tables["ledger"][1, seq, 0]
    return "torn", seq


def damaged(model: Model) -> Named:
    name = min(model.tables["item"])
    model.tables["item"][name]["content"] = DIFFERENT
    return "corrupt", name[1]


def of_no_operation(model: Model) -> Named:
    put(model, (1, COUNT + 500, 1))
    return "unexpected", COUNT + 500


def of_an_operation_without_items(model: Model) -> Named:
    seq = first(model, Action.INSERT)
    put(model, (1, seq, 1))
    return "unexpected", seq


FAULTS = [
    rolled_back_insert,
    rolled_back_update,
    rolled_back_to_savepoint,
    kept_of_savepoint,
    deleted,
    updated,
    both_versions,
    batch_without_its_marker,
    update_without_its_marker,
    delete_without_its_marker,
    damaged,
    of_no_operation,
    of_an_operation_without_items,
]


@pytest.mark.parametrize("plant", FAULTS)
def test_each_fault_has_its_name(plant: Fault) -> None:
    model = model_after()
    kind, seq = plant(model)
    found = model.judged({1: COUNT})
    assert set(named(found)) == {(kind, seq)}
    assert {loss.table for loss in found.losses} == {"item"}
    broken = kind not in ("unexpected", "duplicate")
    assert found.kept == COUNT - broken


def test_a_row_that_is_there_twice() -> None:
    model = model_after()
    name = min(model.tables["item"])
    found = model.judged({1: COUNT}, more={"item": [record(*name[:2], part=name[2])]})
    assert named(found) == [("duplicate", name[1])]


def test_an_item_that_no_delete_can_have_taken_is_of_its_batch() -> None:
    """The operation that would delete it was never sent."""
    dealt = decks.Decks(EVERYTHING, 5)
    deletes = dealt.deck(1, 1).numbers(Action.DELETE)
    batches = dealt.deck(1, 0).numbers(Action.BATCH)
    count = deletes[0] - 1
    model = model_after(count)
    later = model_after(deletes[0])
    (gone,) = {
        name
        for name in model.tables["item"].keys() - later.tables["item"].keys()
        if name[1] in batches
    }
    del model.tables["item"][gone]
    assert named(model.judged({1: count})) == [("torn", gone[1])]
    in_flight = model.judged({1: count}, {1: count + 1})
    assert named(in_flight) == [("torn", deletes[0])]


def test_a_damaged_row_of_the_ledger_explains_its_items() -> None:
    """Its key may be right or wrong."""
    model = model_after()
    seq = first(model, Action.BATCH)
    model.tables["ledger"][1, seq, 0]["content"] = DIFFERENT
    found = model.judged({1: COUNT})
    assert named(found) == [("corrupt", seq)]
    assert [loss.table for loss in found.losses] == ["ledger"]
    assert found.kept == COUNT - 1


def test_without_the_clients_record_what_came_last_is_legal() -> None:
    model = model_after(COUNT + 5)
    model.run(2, 3)  # of which no ack was confirmed
    assert not model.judged({1: COUNT}, claimed=False).counts


def test_rows_of_earlier_cycles_must_stay() -> None:
    before = TableFacts({3: 2}, 99, {3: 40 + 2 * 41})
    old = [record(1, s, epoch=3, part=s, row_id=39 + s, checksum=s) for s in (1, 2)]
    model = model_after()
    fine = model.judged({1: COUNT}, more={"item": old}, before=before)
    assert (fine.counts, fine.earlier) == ({}, 2)
    gone = model.judged({1: COUNT}, more={"item": old[:1]}, before=before)
    assert gone.earlier_lost == {3: 1}
    old[0] = (*old[0][:-1], DIFFERENT)
    altered = model.judged(
        {1: COUNT}, more={"item": old}, before=TableFacts({3: 2}, 99, {})
    )
    assert altered.earlier_altered == 1


@pytest.mark.parametrize("plant", [None, deleted, updated, rolled_back_update])
def test_decks_may_be_judged_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, plant: Fault | None
) -> None:
    mix = Mix(4, 3, 3, 3, 3, 2, 2, 2)  # no deck has as many registers as a session
    model = model_after(300, mix)
    monkeypatch.setattr(decks, "_DEALT_AT_ONCE", 1)
    assert not model.judged({1: 300}).counts
    if plant is not None:
        model = model_after()
        assert set(named(model.judged({1: COUNT}))) == set()
        fault = plant(model)
        assert set(named(model.judged({1: COUNT}))) == {fault}


def named(found: Reconciliation) -> list[Named]:
    return sorted((loss.kind.value, loss.seq) for loss in found.losses)


def test_of_an_intact_item_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six million items once took a gigabyte: key and id have 16 bytes, twice."""
    monkeypatch.setattr(decks, "_DEALT_AT_ONCE", 1 << 12)
    batches, at_once, parts = 1 << 15, 1 << 12, range(1, BATCH_ROWS + 1)
    plan = plan_of(Mix(batch=1))

    def acks() -> Iterator[AckArray]:
        for begin in range(0, batches, at_once):
            found = np.zeros(at_once, ACK_DTYPE)
            found["session"] = 1
            found["seq"] = found["row_id"] = np.arange(begin, begin + at_once) + 1
            yield found

    def rows(of: range) -> Iterator[Records]:
        for found in acks():
            records = np.zeros((len(found), len(of)), RECORD)
            records["epoch"], records["session"], records["part"] = EPOCH, 1, of
            records["seq"] = found["seq"][:, None]
            ids = (records["seq"] - 1) * len(of) + np.arange(1, len(of) + 1)
            records["row_id"] = ids
            yield records.ravel()

    survivors = {"ledger": partial(rows, range(1)), "item": partial(rows, parts)}
    before = dict.fromkeys(survivors, NOTHING_BEFORE)
    tracemalloc.start()
    try:
        found = plan.judge(Observed(acks, survivors, before, None, 0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.kept, found.counts) == (batches, {})
    assert peak < 64 * batches * BATCH_ROWS
