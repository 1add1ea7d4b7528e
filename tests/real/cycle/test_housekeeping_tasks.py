"""Every task on a real server, and what it leaves."""

from __future__ import annotations

import contextlib

import pytest

from dbcheck.load.sessions import commit
from dbcheck.ports.engine import Engine
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.plans.housekeeping import HousekeepingPlan
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER, SIDES, TableSpec
from dbcheck.rows.tasks import KINDS, TaskKind

SCHEDULE = Schedule(3, 4, (100,))
COUNT = 60


def rows_of(engine: Engine, table: TableSpec) -> dict[int, int]:
    """Return how many rows of each task a table has; all must be intact."""
    plan = HousekeepingPlan(InsertPlan(SCHEDULE), SCHEDULE, KINDS)
    counted: dict[int, int] = {}
    for _, batch in engine.survivors((table,)):
        records, different = plan.inspector(table).inspect(batch)
        assert not different.size
        for seq in records["seq"].tolist():
            counted[seq] = counted.get(seq, 0) + 1
    return counted


@pytest.mark.wide_with("mysql")
def test_tasks_leave_what_their_state_says(engine: Engine) -> None:
    """All kinds that the server has; MySQL's lab keeps a binary log, MariaDB's none."""
    lacking = engine.lacking(KINDS)
    of_myrocks = {TaskKind.REWRITE} if "rocksdb" in engine.target else set()
    assert set(lacking) <= {TaskKind.VACUUM, TaskKind.ROTATE} | of_myrocks
    kinds = [kind for kind in KINDS if kind not in lacking]
    plan = HousekeepingPlan(InsertPlan(SCHEDULE), SCHEDULE, kinds)
    engine.prepare((LEDGER,))
    done = {plan.tasks.task(number).kind for number in range(1, COUNT + 1)}
    assert done == set(kinds)
    session = engine.open_session(plan.housekeeping_statements)
    with contextlib.closing(session):
        for number in range(1, COUNT + 1):
            assert commit(session, plan.operation(HOUSEKEEPING_SESSION, number))
            there = engine.present(SIDES)
            state = plan.tasks.state(number)
            assert {table.name for table in there} == set(state)
            for table in there:
                found = rows_of(engine, table)
                assert set(found) == set(state[table.name].filled)
    engine.discard(SIDES)
    assert not engine.present(SIDES)


@pytest.mark.parametrize("table", SIDES, ids=lambda table: table.name)
def test_side_tables_are_dropped_with_the_others(
    engine: Engine, table: TableSpec
) -> None:
    engine.prepare((LEDGER, table))
    assert f"dbcheck.{table.name}" in engine.drop()
