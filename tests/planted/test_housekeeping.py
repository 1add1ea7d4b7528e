"""Side tables that are not as the last task had left them: planted and found."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.config.files import read_sql
from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.rows.acks import HOUSEKEEPING_SESSION, Key
from dbcheck.rows.loss import LossKind
from dbcheck.rows.plans.housekeeping import HousekeepingPlan
from dbcheck.rows.table import SIDES
from dbcheck.rows.tasks import SIDE_BYTES, HousekeepingTasks, TaskKind
from dbcheck.rows.workload import Workload
from tests.kit.definition import checksum, payload
from tests.kit.innodb_index import delete_records
from tests.kit.rigs import ENGINES, SEED
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, PASS, engines
from tests.planted.site import Site, spoil

pytestmark = pytest.mark.planted

TORN, RESURRECTED = LossKind.TORN, LossKind.RESURRECTED
BLOCK_BYTES = 8192  # of PostgreSQL
TASKS = 25  # done by the time the server is killed: each table was dropped by then
Named = tuple[LossKind, int]


def windows() -> Workload:
    return replace(load("windows"), sessions=2, rate=300.0, cut_after_s=(0.5, 0.5))


def windows_of(kinds: tuple[TaskKind, ...]) -> Workload:
    return replace(windows(), housekeeping=kinds)


def tasks_of(outcome: Outcome) -> HousekeepingTasks:
    plan = outcome.manifest.plan()
    assert isinstance(plan, HousekeepingPlan)
    return plan.tasks


def cut_of(site: Site) -> Callable[[], None]:
    """Return what kills the server once enough tasks are done."""
    newest = f"(select epoch from {site.table} order by id desc limit 1)"
    query = f"select max(seq) from {site.table} where session = %s and epoch = {newest}"

    def cut() -> None:
        def are_done() -> bool:
            ((last,),) = site.execute(query, HOUSEKEEPING_SESSION)
            return bool((last or 0) >= TASKS)

        wait_until(are_done, "tasks are done")
        site.server.kill()

    return cut


class Planted:
    """Changes each side table, in a server that came back."""

    def __init__(self, site: Site, tasks: HousekeepingTasks) -> None:
        self._site, self._tasks = site, tasks
        self.expected: Counter[Named] = Counter()

    def plant(self) -> None:
        """Start the server and change what recovery brought back."""
        self._site.server.start()
        ((self._epoch, last),) = self._site.execute(
            f"select epoch, max(seq) from {self._site.table} where session = %s"
            " group by epoch order by max(id) desc limit 1",
            HOUSEKEEPING_SESSION,
        )
        state = self._tasks.state(int(last))
        for table in SIDES:
            if self._tasks.task(int(last) + 1).table == table:
                continue  # it may be under way, and have changed the table or not
            side, name = state.get(table.name), table.name
            if side is None:
                self._create(name)
                self.expected[RESURRECTED, self._dropped(name, int(last))] += 1
                continue
            if side.filled:
                self._delete_one(name, side.filled[0])
                self.expected[TORN, side.filled[0]] += 1
            gone = self._filled_before(name, int(last), side.filled)
            self._insert_one(name, gone)
            self.expected[RESURRECTED, gone] += 1

    def _dropped(self, name: str, last: int) -> int:
        return next(n for n in range(last, 0, -1) if self._is(n, name, TaskKind.DROP))

    def _filled_before(self, name: str, last: int, but: tuple[int, ...]) -> int:
        """Return a task whose rows were truncated or dropped since."""
        return next(
            n
            for n in range(last, 0, -1)
            if n not in but
            and (self._is(n, name, TaskKind.FILL) or self._is(n, name, TaskKind.CREATE))
        )

    def _is(self, number: int, name: str, kind: TaskKind) -> bool:
        task = self._tasks.task(number)
        return task.kind is kind and task.table is not None and task.table.name == name

    def _table(self, name: str) -> str:
        return self._site.table.replace("ledger", name)

    def _create(self, name: str) -> None:
        family = "postgresql" if self._site.name == "postgresql" else "mysql"
        self._site.execute(read_sql(family, f"create_{name}"))
        if family == "postgresql":
            self._site.execute(read_sql(family, f"mark_{name}"))

    def _delete_one(self, name: str, number: int) -> None:
        self._site.execute(
            f"delete from {self._table(name)} where seq = %s and part = 3", number
        )

    def _insert_one(self, name: str, number: int) -> None:
        key = Key(self._epoch, HOUSEKEEPING_SESSION, number)
        content = payload(SEED, key, 1, SIDE_BYTES)
        self._site.execute(
            f"insert into {self._table(name)}"
            " (epoch, session, seq, part, payload, checksum)"
            " values (%s, %s, %s, %s, %s, %s)",
            *key,
            1,
            content,
            checksum(key, 1, content),
        )


def found(outcome: Outcome) -> Counter[Named]:
    assert outcome.found is not None, outcome.judgement
    return Counter((loss.kind, loss.seq) for loss in outcome.found.losses)


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_tables_that_are_back_and_rows_that_are_gone_are_found(site: Site) -> None:
    """The ledger is whole in each of these; before them, two cycles without a fault.

    The second of those finds the side tables of the first, and drops them.
    """
    for _ in range(2):
        honest = site.cycle(cut_of(site), workload=windows())
        assert (honest.verdict, found(honest)) == (PASS, Counter()), honest.judgement
        assert honest.load is not None
        assert not honest.load.refusals
    planted = Planted(site, tasks_of(honest))
    broken = site.cycle(cut_of(site), planted.plant, workload=windows())
    assert found(broken) == planted.expected
    assert broken.verdict is FAIL
    site.rig.site.writer.engine.drop()


@pytest.mark.wide_with("mysql")
@engines("own_site", "postgresql", "mysql")
def test_an_index_that_a_task_created_and_the_cut_broke_is_found(site: Site) -> None:
    """A load of inserts has no such index; all rows are as they should be."""
    kinds = (TaskKind.CREATE, TaskKind.INDEX, TaskKind.CHECKPOINT)
    broken = site.cycle(
        cut_of(site), lambda: break_index(site), workload=windows_of(kinds)
    )
    assert broken.verdict is FAIL, broken.judgement
    assert found(broken) == Counter()
    assert broken.result.losses == {LossKind.INDEX_MISMATCH.value: 1}
    site.put_back()


def break_index(site: Site) -> None:
    site.server.start()
    wait_until(lambda: site.rig.site.writer.engine.ready() is None, "server is back")
    site.changed = True
    if site.name == "postgresql":
        spoil(site, "side1_index", lambda file: os.truncate(file, BLOCK_BYTES))
        return
    site.server.stop()
    assert delete_records(
        site.server.data / "dbcheck" / "side1.ibd", full=False, most=1
    )
    site.server.start()


@engines("own_site", "mariadb")
def test_a_dropped_table_whose_name_is_back_is_shown(site: Site) -> None:
    """MariaDB removes a table's definition file without a sync of its directory."""
    only_checkpoints = replace(windows(), housekeeping=(TaskKind.CHECKPOINT,))

    def restore() -> None:
        folder = site.server.data / "dbcheck"
        shutil.copyfile(folder / "ledger.frm", folder / "side1.frm")
        shutil.chown(folder / "side1.frm", *owner_of(folder / "ledger.frm"))
        site.server.start()

    outcome = site.cycle(restore=restore, workload=only_checkpoints)
    assert outcome.verdict is PASS, outcome.judgement
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.DROPPED_TABLES)
    assert item.status is Status.ABSENT
    assert "side1 cannot be opened: " in item.reason
    assert "doesn't exist in engine" in item.reason
    after = site.cycle(workload=windows())
    assert (after.verdict, found(after)) == (PASS, Counter()), after.judgement


def owner_of(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_uid, found.st_gid
