"""Indexes that lost rows, over a table that is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.result import to_values
from dbcheck.model.server import CheckOutcome
from dbcheck.rows.table import ITEM, LEDGER, REGISTER, TableSpec
from dbcheck.rows.workload import Workload
from tests.kit.innodb_index import delete_records, move_boundary
from tests.kit.refusals import refused
from tests.kit.rigs import ENGINES, quick
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

LOST = 3
KEYS = {REGISTER: "epoch, session, part", ITEM: "epoch, session, seq, part"}


def changed_between(
    site: Site, change: Callable[[], object], workload: Workload
) -> Outcome:
    """Run a cycle whose server starts, is stopped, and starts after a change."""

    def restore() -> None:
        site.changed = True
        site.server.start()
        wait_until(
            lambda: site.rig.site.writer.engine.ready() is None, "server is back"
        )
        change()
        site.server.start()

    return site.cycle(restore=restore, workload=workload)


def writing_to(table: TableSpec) -> Workload:
    name = "registers" if table == REGISTER else "batch"
    return replace(load(name), sessions=5, rate=250.0, cut_after_s=(0.5, 0.5))


def smaller_index(site: Site, table: TableSpec) -> None:
    """Put an index of fewer rows in the place of the whole one."""
    site.execute(
        f"create unique index fewer on dbcheck.{table.name} ({KEYS[table]})"
        f" where id > {LOST}; checkpoint"
    )
    index, fewer = path_of(site, table.key), path_of(site, "fewer").read_bytes()
    site.execute("drop index dbcheck.fewer")  # it would be somebody's
    site.server.stop()
    index.write_bytes(fewer)


def path_of(site: Site, name: str) -> Path:
    ((path,),) = site.execute(f"select pg_relation_filepath('dbcheck.{name}')")
    return site.server.data / str(path)


def deleted_entries(site: Site, table: TableSpec) -> None:
    site.server.stop()
    file = site.server.data / "dbcheck" / f"{table.name}.ibd"
    assert delete_records(file, full=site.name == "mariadb", most=LOST) == LOST


@pytest.mark.wide_with("mysql", "mariadb-item")
@pytest.mark.parametrize("table", KEYS, ids=lambda table: table.name)
@engines("own_site", *ENGINES)
def test_an_index_that_lost_rows_fails(site: Site, table: TableSpec) -> None:
    plant = smaller_index if site.name == "postgresql" else deleted_entries
    outcome = changed_between(site, lambda: plant(site, table), writing_to(table))
    assert outcome.verdict is FAIL, outcome.judgement
    assert outcome.found is not None
    assert outcome.found.kept == outcome.found.confirmed
    assert to_values(outcome.result)["losses"] == {"index-mismatch": LOST}
    (reason,) = outcome.judgement.reasons
    assert f"the index {table.key} of " in reason
    listed = (outcome.run.path / "losses.csv").read_text().splitlines()[1:]
    assert len(listed) == LOST
    assert all(line.startswith("index-mismatch,,,") for line in listed)
    check = site.rig.site.writer.engine.check_tables((LEDGER, table))
    assert check is not None
    assert check.outcome is CheckOutcome.INDEX, check
    with refused(ErrorId.TABLES_DAMAGED_BEFORE_LOAD, EngineError):
        site.cycle(workload=writing_to(table))


@engines("own_site", "mariadb", "mysql")
def test_a_row_that_no_search_finds_fails(site: Site) -> None:
    """Each row is on its leaf; the page above leads to another leaf for one."""

    def plant() -> None:
        site.server.stop()
        file = site.server.data / "dbcheck" / "ledger.ibd"
        move_boundary(file, full=site.name == "mariadb")

    outcome = changed_between(site, plant, replace(quick(), rate=800.0))
    assert outcome.verdict is FAIL, outcome.judgement
    assert to_values(outcome.result)["losses"] == {"index-mismatch": 1}
    (reason,) = outcome.judgement.reasons
    assert "the primary key of ledger does not find 1 rows" in reason


@engines("own_site", *ENGINES)
def test_tables_without_a_row_have_sound_indexes(site: Site) -> None:
    engine = site.rig.site.writer.engine
    engine.prepare(tuple(KEYS))
    assert not list(engine.survivors(tuple(KEYS)))
