"""Chores: which come, what they leave, and what is found if it is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, combinations

import pytest

from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.chores import (
    INSERTING,
    KINDS,
    Chore,
    ChoreKind,
    Chores,
    find_problem_of_kinds,
)
from dbcheck.rows.survivors import DIFFERENT
from tests.kit.chores import CHORES, PLAN, Model, named, rows_of
from tests.kit.cycles import record

COUNT = 200
SOME = 60  # chores after which faults are planted


def last(kind: ChoreKind, upto: int = SOME) -> tuple[int, Chore]:
    """Return the last chore of that kind up to a number."""
    return next(
        (number, chore)
        for number in range(upto, 0, -1)
        if (chore := CHORES.chore(number)).kind is kind
    )


def after_one(kind: ChoreKind) -> tuple[int, str]:
    """Return the number of a chore of that kind, and the name of its table."""
    number, chore = last(kind)
    assert chore.table is not None
    return number, chore.table.name


def test_every_kind_comes_about_as_often_as_it_may() -> None:
    counted = Counter(CHORES.chore(number).kind for number in range(1, COUNT + 1))
    assert set(counted) == set(KINDS)
    assert min(counted.values()) >= COUNT // 40


def test_the_chores_of_a_seed_are_always_the_same() -> None:
    chores = [CHORES.chore(number) for number in range(1, COUNT + 1)]
    again = Chores(5, KINDS)
    assert [again.chore(number) for number in range(COUNT, 0, -1)] == chores[::-1]
    other = Chores(6, KINDS)
    assert [other.chore(number) for number in range(1, COUNT + 1)] != chores


def test_an_operation_is_the_change_the_rows_and_the_row_in_the_ledger() -> None:
    number, chore = last(ChoreKind.CREATE)
    operation = PLAN.operation(HOUSEKEEPING_SESSION, number)
    names = [statement.name for statement in operation.statements]
    assert chore.table is not None
    side = chore.table.name
    assert names == [f"create_{side}", *[f"batch_{side}"] * 2, "insert_ledger"]
    number, chore = last(ChoreKind.CHECKPOINT)
    operation = PLAN.operation(HOUSEKEEPING_SESSION, number)
    assert [one.name for one in operation.statements] == ["checkpoint", "insert_ledger"]
    assert [one.name for one in PLAN.operation(1, 1).statements] == ["insert_ledger"]


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        (KINDS, ""),
        ((ChoreKind.CHECKPOINT, ChoreKind.ROTATE), ""),
        ((ChoreKind.DROP,), "without create there is no table for the others"),
        ((ChoreKind.CREATE, ChoreKind.CREATE), "a kind is named twice"),
    ],
)
def test_kinds_that_cannot_be_done(kinds: Sequence[ChoreKind], why: str) -> None:
    assert find_problem_of_kinds(kinds) == why


def test_chores_without_a_problem_never_come_to_an_end() -> None:
    some = chain.from_iterable(combinations(KINDS, n) for n in range(1, len(KINDS) + 1))
    for kinds in some:
        if not find_problem_of_kinds(kinds):
            assert Chores(1, kinds).chore(40)


@pytest.mark.parametrize("kinds", [("create",), ("create", "fill", "index")])
def test_chores_that_come_to_an_end_are_refused(kinds: tuple[str, ...]) -> None:
    why = find_problem_of_kinds([ChoreKind(kind) for kind in kinds])
    assert why.startswith("the chores come to an end without one of checkpoint, ")


def truncated_is_back() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.TRUNCATE)
    model = Model(number)
    filled = CHORES.state(number - 1)[name].filled
    model.tables[name] = [row for one in filled for row in rows_of(one)]
    return model, number, [("resurrected", one) for one in sorted(filled)]


def dropped_is_back() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.DROP)
    model = Model(number)
    model.tables[name] = []
    return model, number, [("resurrected", number)]


def created_is_gone() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.CREATE)
    model = Model(number)
    del model.tables[name]
    return model, number, [("torn", number)]


def created_is_empty() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.CREATE)
    model = Model(number)
    model.tables[name] = []
    return model, number, [("torn", number)]


def a_row_of_many_is_gone() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.FILL)
    model = Model(number)
    model.tables[name].pop()
    return model, number, [("torn", number)]


def a_row_is_damaged() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.FILL)
    model = Model(number)
    model.tables[name][-1] = record(
        HOUSEKEEPING_SESSION, number, part=1, content=DIFFERENT, row_id=7
    )
    return model, number, [("corrupt", number), ("torn", number)]


def a_row_is_there_twice() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.FILL)
    model = Model(number)
    model.tables[name].append(model.tables[name][-1])
    return model, number, [("duplicate", number)]


def a_row_of_no_chore() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.FILL)
    model = Model(number)
    model.tables[name].append(record(HOUSEKEEPING_SESSION, 10**6, part=1, row_id=7))
    return model, number, [("unexpected", 10**6)]


def a_row_of_another_session() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(ChoreKind.FILL)
    model = Model(number)
    model.tables[name].append(record(3, 1, part=1, row_id=7))
    return model, number, [("unexpected", 1)]


@pytest.mark.parametrize(
    "fault",
    [
        truncated_is_back,
        dropped_is_back,
        created_is_gone,
        created_is_empty,
        a_row_of_many_is_gone,
        a_row_is_damaged,
        a_row_is_there_twice,
        a_row_of_no_chore,
        a_row_of_another_session,
    ],
)
@pytest.mark.parametrize("is_ddl_atomic", [True, False], ids=["atomic", "alone"])
def test_each_fault_is_found_and_named(
    fault: Callable[[], tuple[Model, int, list[tuple[str, int]]]], is_ddl_atomic: bool
) -> None:
    model, count, expected = fault()
    assert not named(Model(count).judged(count, is_ddl_atomic=is_ddl_atomic))
    found = model.judged(count, is_ddl_atomic=is_ddl_atomic)
    assert named(found) == expected
    wrong = [x for x in found.losses if "missing" not in x.kind.value]
    assert all(loss.table.startswith("side") for loss in wrong)


def test_rows_without_those_of_their_chore_in_the_ledger_are_torn() -> None:
    for kind in INSERTING:
        number, _ = last(kind)
        model = Model(number)
        model.left.remove(number)
        expected = [("torn", number)]
        for is_ddl_atomic in (True, False):
            found = model.judged(number - 1, number, is_ddl_atomic=is_ddl_atomic)
            assert named(found) == expected


def test_half_of_a_chore_is_legal_where_each_statement_commits_alone() -> None:
    """And only as far as the next chore was sent."""
    for kind in (ChoreKind.CREATE, ChoreKind.TRUNCATE, ChoreKind.DROP):
        number, _ = last(kind)
        model = Model.within(number)
        assert not named(model.judged(number - 1, number, is_ddl_atomic=False))
        assert named(model.judged(number - 1, number - 1, is_ddl_atomic=False))
        assert named(model.judged(number - 1, number, is_ddl_atomic=True))


def test_a_chore_that_is_gone_as_a_whole_is_missing_and_nothing_else() -> None:
    number, _ = last(ChoreKind.FILL)
    found = Model(number - 1).judged(number)
    assert named(found) == [("missing-tail", number)]
    assert found.kept == number - 1
