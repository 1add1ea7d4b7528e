"""Tests of the tasks of housekeeping, which their seed decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, combinations

import pytest

from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.survivors import DIFFERENT
from dbcheck.rows.tasks import (
    INSERTING,
    KINDS,
    HousekeepingTask,
    HousekeepingTasks,
    TaskKind,
    find_problem_of_kinds,
)
from tests.kit.cycles import record
from tests.kit.tasks import PLAN, TASKS, Model, named, rows_of

COUNT = 200
SOME = 60  # tasks after which faults are planted


def last(kind: TaskKind, upto: int = SOME) -> tuple[int, HousekeepingTask]:
    """Return the last task of that kind up to a number."""
    return next(
        (number, task)
        for number in range(upto, 0, -1)
        if (task := TASKS.task(number)).kind is kind
    )


def after_one(kind: TaskKind) -> tuple[int, str]:
    """Return the number of a task of that kind, and the name of its table."""
    number, task = last(kind)
    assert task.table is not None
    return number, task.table.name


def test_every_kind_comes_about_as_often_as_it_may() -> None:
    counted = Counter(TASKS.task(number).kind for number in range(1, COUNT + 1))
    assert set(counted) == set(KINDS)
    assert min(counted.values()) >= COUNT // 40


def test_the_tasks_of_a_seed_are_always_the_same() -> None:
    tasks = [TASKS.task(number) for number in range(1, COUNT + 1)]
    again = HousekeepingTasks(5, KINDS)
    assert [again.task(number) for number in range(COUNT, 0, -1)] == tasks[::-1]
    other = HousekeepingTasks(6, KINDS)
    assert [other.task(number) for number in range(1, COUNT + 1)] != tasks


def test_an_operation_is_the_change_the_rows_and_the_row_in_the_ledger() -> None:
    number, task = last(TaskKind.CREATE)
    operation = PLAN.operation(HOUSEKEEPING_SESSION, number)
    names = [statement.name for statement in operation.statements]
    assert task.table is not None
    side = task.table.name
    assert names == [f"create_{side}", *[f"batch_{side}"] * 2, "insert_ledger"]
    number, task = last(TaskKind.CHECKPOINT)
    operation = PLAN.operation(HOUSEKEEPING_SESSION, number)
    assert [one.name for one in operation.statements] == ["checkpoint", "insert_ledger"]
    assert [one.name for one in PLAN.operation(1, 1).statements] == ["insert_ledger"]


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        (KINDS, ""),
        ((TaskKind.CHECKPOINT, TaskKind.ROTATE), ""),
        ((TaskKind.DROP,), "without create there is no table for the others"),
        ((TaskKind.CREATE, TaskKind.CREATE), "a kind is named twice"),
    ],
)
def test_kinds_that_cannot_be_done(kinds: Sequence[TaskKind], why: str) -> None:
    assert find_problem_of_kinds(kinds) == why


def test_tasks_without_a_problem_never_come_to_an_end() -> None:
    some = chain.from_iterable(combinations(KINDS, n) for n in range(1, len(KINDS) + 1))
    for kinds in some:
        if not find_problem_of_kinds(kinds):
            assert HousekeepingTasks(1, kinds).task(40)


@pytest.mark.parametrize("kinds", [("create",), ("create", "fill", "index")])
def test_tasks_that_come_to_an_end_are_refused(kinds: tuple[str, ...]) -> None:
    why = find_problem_of_kinds([TaskKind(kind) for kind in kinds])
    assert why.startswith(
        "the housekeeping tasks come to an end without one of checkpoint, "
    )


def truncated_is_back() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.TRUNCATE)
    model = Model(number)
    filled = TASKS.state(number - 1)[name].filled
    model.tables[name] = [row for one in filled for row in rows_of(one)]
    return model, number, [("resurrected", one) for one in sorted(filled)]


def dropped_is_back() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.DROP)
    model = Model(number)
    model.tables[name] = []
    return model, number, [("resurrected", number)]


def created_is_gone() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.CREATE)
    model = Model(number)
    del model.tables[name]
    return model, number, [("torn", number)]


def created_is_empty() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.CREATE)
    model = Model(number)
    model.tables[name] = []
    return model, number, [("torn", number)]


def a_row_of_many_is_gone() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.FILL)
    model = Model(number)
    model.tables[name].pop()
    return model, number, [("torn", number)]


def a_row_is_damaged() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.FILL)
    model = Model(number)
    model.tables[name][-1] = record(
        HOUSEKEEPING_SESSION, number, part=1, content=DIFFERENT, row_id=7
    )
    return model, number, [("corrupt", number), ("torn", number)]


def a_row_is_there_twice() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.FILL)
    model = Model(number)
    model.tables[name].append(model.tables[name][-1])
    return model, number, [("duplicate", number)]


def a_row_of_no_task() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.FILL)
    model = Model(number)
    model.tables[name].append(record(HOUSEKEEPING_SESSION, 10**6, part=1, row_id=7))
    return model, number, [("unexpected", 10**6)]


def a_row_of_another_session() -> tuple[Model, int, list[tuple[str, int]]]:
    number, name = after_one(TaskKind.FILL)
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
        a_row_of_no_task,
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


def test_rows_without_those_of_their_task_in_the_ledger_are_torn() -> None:
    for kind in INSERTING:
        number, _ = last(kind)
        model = Model(number)
        model.left.remove(number)
        expected = [("torn", number)]
        for is_ddl_atomic in (True, False):
            found = model.judged(number - 1, number, is_ddl_atomic=is_ddl_atomic)
            assert named(found) == expected


def test_half_of_a_task_is_legal_where_each_statement_commits_alone() -> None:
    """And only as far as the next task was sent."""
    for kind in (TaskKind.CREATE, TaskKind.TRUNCATE, TaskKind.DROP):
        number, _ = last(kind)
        model = Model.within(number)
        assert not named(model.judged(number - 1, number, is_ddl_atomic=False))
        assert named(model.judged(number - 1, number - 1, is_ddl_atomic=False))
        assert named(model.judged(number - 1, number, is_ddl_atomic=True))


def test_a_task_that_is_gone_as_a_whole_is_missing_and_nothing_else() -> None:
    number, _ = last(TaskKind.FILL)
    found = Model(number - 1).judged(number)
    assert named(found) == [("missing-tail", number)]
    assert found.kept == number - 1
