"""Prepared transactions that are not what they must be: each fault has its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import NotPrepared
from dbcheck.cycle.recovery.in_doubt import (
    Refusal,
    decide_remaining_transactions,
    find_fates,
)
from dbcheck.ports.engine import Engine
from dbcheck.rows.operation import TwoPhase
from dbcheck.rows.plans.twophase import PART
from dbcheck.rows.prepared import LeftFate, LeftOver, Name, Undecided
from dbcheck.rows.survivors import DIFFERENT
from tests.kit.bare_engine import BareEngine
from tests.kit.cycles import EPOCH, record, records_of
from tests.kit.samples import FACTS
from tests.kit.twophase import PLAN, Model

COUNT = 10  # operations; the fourth and the eighth are rolled back
ROLLED_BACK = 4
Named = tuple[str, int]


def lost_while_prepared(model: Model) -> Named:
    del model.left[1, COUNT]
    return "prepared", COUNT


def lost_after_its_commit(model: Model) -> Named:
    del model.item[1, 3]
    return "prepared", 3


def committed_and_still_prepared(model: Model) -> Named:
    del model.item[1, 3]
    model.left[1, 3] = LeftFate.KEPT
    return "prepared", 3


def rolled_back_and_still_prepared(model: Model) -> Named:
    model.left[1, ROLLED_BACK] = LeftFate.KEPT
    return "prepared", ROLLED_BACK


def rolled_back_and_there(model: Model) -> Named:
    model.item[1, ROLLED_BACK] = 0
    return "resurrected", ROLLED_BACK


def committed_by_nobody(model: Model) -> Named:
    del model.left[1, COUNT]
    model.item[1, COUNT] = 0
    return "unexpected", COUNT


def cannot_be_committed(model: Model) -> Named:
    model.left[1, COUNT] = LeftFate.REFUSED
    return "prepared", COUNT


def without_its_row(model: Model) -> Named:
    model.left[1, COUNT] = LeftFate.ABSENT
    return "prepared", COUNT


def with_another_row(model: Model) -> Named:
    model.left[1, COUNT] = LeftFate.DIFFERENT
    return "corrupt", COUNT


def there_after_its_rollback(model: Model) -> Named:
    model.left[1, COUNT] = LeftFate.PRESENT
    return "resurrected", COUNT


def damaged(model: Model) -> Named:
    model.item[1, 3] = DIFFERENT
    return "corrupt", 3


def of_no_operation(model: Model) -> Named:
    model.left[1, COUNT + 7] = LeftFate.KEPT
    return "unexpected", COUNT + 7


def of_no_session(model: Model) -> Named:
    model.left[9, 1] = LeftFate.KEPT
    return "unexpected", 1


def gone_after_it_was_listed(model: Model) -> Named:
    model.left[1, COUNT] = LeftFate.GONE
    return "prepared", COUNT


def committed_before_its_decision(model: Model) -> Named:
    model.item[1, COUNT] = 0
    return "prepared", COUNT


def there_and_cannot_be_committed(model: Model) -> Named:
    model.item[1, COUNT], model.left[1, COUNT] = 0, LeftFate.REFUSED
    return "prepared", COUNT


def there_and_perhaps_decided_by_an_earlier_reading(model: Model) -> Named:
    model.item[1, COUNT] = 0
    model.perhaps_earlier.add((1, COUNT))
    return "prepared", COUNT


FAULTS = [
    committed_before_its_decision,
    there_and_cannot_be_committed,
    there_and_perhaps_decided_by_an_earlier_reading,
    gone_after_it_was_listed,
    lost_while_prepared,
    lost_after_its_commit,
    committed_and_still_prepared,
    rolled_back_and_still_prepared,
    rolled_back_and_there,
    committed_by_nobody,
    cannot_be_committed,
    without_its_row,
    with_another_row,
    there_after_its_rollback,
    damaged,
    of_no_operation,
    of_no_session,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_named(fault: Callable[[Model], Named]) -> None:
    model = Model()
    model.run(1, COUNT)
    assert not model.judged({1: COUNT}).counts
    expected = fault(model)
    found = model.judged({1: COUNT})
    assert [(x.kind.value, x.seq) for x in found.losses] == [expected]
    assert [loss.table for loss in found.losses] == ["item"]
    assert found.kept == COUNT - (expected[0] != "unexpected")


def test_one_that_nobody_decided_is_no_loss() -> None:
    model = Model()
    model.run(1, COUNT)
    model.left[1, COUNT] = LeftFate.UNDECIDED
    assert not model.judged({1: COUNT}).counts


UNDECIDED: Mapping[Callable[[Model], Named], Undecided] = {
    lost_while_prepared: Undecided(rolled_back=1),
    committed_by_nobody: Undecided(committed=1),
    gone_after_it_was_listed: Undecided(gone=1),
    there_and_perhaps_decided_by_an_earlier_reading: Undecided(gone=1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_load_had_decided_is_nobody_elses_doing(
    fault: Callable[[Model], Named],
) -> None:
    model = Model()
    model.run(1, COUNT)
    fault(model)
    found = model.judged({1: COUNT})
    assert found.undecided == UNDECIDED.get(fault, Undecided())


def test_one_that_was_to_be_rolled_back_and_is_there_was_perhaps_committed() -> None:
    """The client had sent the operation that decides it, which left no row."""
    model = Model()
    model.run(1, 2 * ROLLED_BACK)
    del model.left[1, 2 * ROLLED_BACK]
    model.item[1, 2 * ROLLED_BACK] = 0
    acked = {1: 2 * ROLLED_BACK}
    found = model.judged(acked, {1: 2 * ROLLED_BACK + 1})
    assert [loss.kind.value for loss in found.losses] == ["resurrected"]
    assert found.undecided == Undecided(committed=1)
    torn = Model()
    torn.run(1, COUNT)
    torn.item[1, COUNT + 1] = 0
    assert torn.judged({1: COUNT}, {1: COUNT + 2}).undecided == Undecided()


def test_one_that_is_listed_and_was_then_committed_and_is_gone_counts_once() -> None:
    model = Model()
    model.run(1, COUNT)
    model.item[1, COUNT], model.left[1, COUNT] = 0, LeftFate.GONE
    found = model.judged({1: COUNT})
    assert found.counts == {"prepared": 1}
    assert found.undecided == Undecided(gone=1)


@pytest.mark.parametrize("is_listed", [True, False], ids=["prepared", "committed"])
def test_an_effect_whose_operation_left_no_row_before_it_is_torn(
    is_listed: bool,
) -> None:
    model = Model()
    model.run(1, COUNT)
    if is_listed:
        model.left[1, COUNT + 1] = LeftFate.KEPT
        del model.left[1, COUNT]
        model.item[1, COUNT] = 0
    else:
        del model.left[1, COUNT]
        model.item[1, COUNT + 1] = 0
        model.item[1, COUNT] = 0
    found = model.judged({1: COUNT}, {1: COUNT + 2})
    assert [(x.kind.value, x.seq) for x in found.losses] == [("torn", COUNT + 1)]


def test_a_row_of_the_ledger_that_is_gone_alone_is_missing() -> None:
    model = Model()
    model.run(1, COUNT)
    del model.ledger[1, 3]
    found = model.judged({1: COUNT})
    assert [(x.kind.value, x.seq) for x in found.losses] == [("missing-hole", 3)]


def test_a_second_row_and_one_of_another_part_are_losses() -> None:
    model = Model()
    model.run(1, COUNT)
    more = (
        record(1, 3, part=PART, row_id=10**7),
        record(1, 5, part=PART + 1, row_id=10**7 + 1),
    )
    found = model.judged({1: COUNT}, more=more)
    assert sorted((x.kind.value, x.row_id) for x in found.losses) == [
        ("duplicate", 10**7),
        ("unexpected", 10**7 + 1),
    ]


def test_an_operation_decides_the_one_before_and_prepares_its_own() -> None:
    first, second, fifth = (PLAN.operation(3, seq).statements for seq in (1, 2, 5))
    assert [one.name for one in first] == [
        "insert_ledger",
        TwoPhase.BEGIN.value,
        "insert_item",
        TwoPhase.PREPARE.value,
    ]
    assert second[0] == TwoPhase.COMMIT.of(f"dbcheck-{EPOCH}-3-1")
    assert fifth[0] == TwoPhase.ROLLBACK.of(f"dbcheck-{EPOCH}-3-4")
    assert fifth[-1] == TwoPhase.PREPARE.of(f"dbcheck-{EPOCH}-3-5")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dbcheck-77-3-12", Name(77, 3, 12)),
        ("dbcheck-77-3", None),
        ("other-77-3-12", None),
        ("dbcheck-77-3-12'", None),
        ("dbcheck-77-3--1", None),
    ],
)
def test_the_name_of_a_transaction(text: str, name: Name | None) -> None:
    assert Name.read(text) == name


def test_what_became_of_each_transaction_that_was_listed() -> None:
    names = [Name(EPOCH, 1, seq) for seq in (1, 2, 3, 4, 5, 6, 8)]
    refused = {5: Refusal("no"), 6: Refusal("none", gone=True)}
    decided = {name: refused.get(name.seq) for name in names}
    rows = [
        record(1, 1, part=PART),
        record(1, 2, part=PART, content=DIFFERENT),
        record(1, 8, part=PART),
        record(1, 3, part=PART + 1),
        record(2, 3, part=PART),
    ]
    assert find_fates(decided, [records_of(rows)]) == (
        LeftOver(1, 1, LeftFate.KEPT),
        LeftOver(1, 2, LeftFate.DIFFERENT),
        LeftOver(1, 3, LeftFate.ABSENT),
        LeftOver(1, 4, LeftFate.KEPT),
        LeftOver(1, 5, LeftFate.REFUSED, "no"),
        LeftOver(1, 6, LeftFate.GONE, "none"),
        LeftOver(1, 8, LeftFate.PRESENT),
    )


class _Deciding(BareEngine):
    """A server's prepared transactions; one is decided by another client."""

    def __init__(self, left: set[Name], taken: Name) -> None:
        self._left, self._taken = left, taken
        self.decided: list[tuple[str, bool]] = []

    def require_two_phase(self) -> None:
        raise AssertionError("only the preflight asks that")

    def prepared(self, server: object) -> tuple[str, ...]:
        return tuple(map(str, self._left))

    def decide(self, name: str, *, commit: bool, server: object) -> None:
        self.decided.append((name, commit))
        self._left -= {self._taken}
        if name == str(self._taken):
            raise NotPrepared("none", id=ErrorId.STATEMENT_FAILED)


def test_what_an_earlier_reading_may_have_decided_is_judged_by_its_row() -> None:
    names = [Name(EPOCH, 1, seq) for seq in (1, 2, 3, 4, 5, 8)]
    ours, changed, gone, rolled_back, still, back = names
    other = Name(EPOCH, 1, 9)
    engine = _Deciding({still, other}, other)
    decided = decide_remaining_transactions(cast(Engine, engine), EPOCH, names, FACTS)
    assert engine.decided == [(str(still), True)], "no other is prepared"
    rows = [
        record(1, ours.seq, part=PART),
        record(1, changed.seq, part=PART, content=DIFFERENT),
        record(1, still.seq, part=PART),
        record(1, back.seq, part=PART),
    ]
    found = find_fates(decided, [records_of(rows)])
    perhaps = {one.seq for one in found if one.perhaps_earlier}
    assert perhaps == {ours.seq, changed.seq}
    assert {one.seq: one.fate for one in found} == {
        ours.seq: LeftFate.KEPT,
        changed.seq: LeftFate.DIFFERENT,
        gone.seq: LeftFate.GONE,
        rolled_back.seq: LeftFate.KEPT,
        still.seq: LeftFate.KEPT,
        back.seq: LeftFate.GONE,
    }


def test_a_decision_that_came_through_while_its_connection_broke_is_ours() -> None:
    """It is still listed, and then the server has it no more."""
    late = Name(EPOCH, 1, 1)
    decided = decide_remaining_transactions(
        cast(Engine, _Deciding({late}, late)), EPOCH, [late], FACTS
    )
    (one,) = find_fates(decided, [records_of([record(1, 1, part=PART)])])
    assert one == LeftOver(1, 1, LeftFate.KEPT, perhaps_earlier=True)
