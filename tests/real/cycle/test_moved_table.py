"""A table that is moved, rewritten or converted while the load runs claims nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from tests.kit.lab_access import server_pid
from tests.kit.labs import host_of, process_lab
from tests.kit.nodes import with_node
from tests.kit.rigs import Bench, bench, cut_beside, quick
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root


def status(outcome: Outcome, name: ItemId) -> Status:
    (found,) = [item for item in outcome.judgement.items if item.id is name]
    return found.status


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Give a folder that no cut reaches."""
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    yield folder
    shutil.rmtree(folder)


def await_rows(here: Bench) -> None:
    rows = f"select count(*) from {here.table}"
    wait_until(lambda: bool(here.execute(rows)[0][0] > 100), "rows are there")


def test_a_table_that_moved_to_a_folder_that_is_not_cut_claims_no_depth(
    elsewhere: Path, tmp_path: Path
) -> None:
    def act() -> None:
        server = os.stat(f"/proc/{server_pid(here.lab)}")
        os.chown(elsewhere, server.st_uid, server.st_gid)
        await_rows(here)
        here.execute(f"create tablespace elsewhere location '{elsewhere}'")
        here.execute(f"alter table {here.table} set tablespace elsewhere")

    with bench(LabSpec("postgresql"), tmp_path) as lab, host_of(lab.lab) as host:
        here = replace(lab, rig=with_node(lab.rig, host=host))
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome, ItemId.PLACES) is Status.CONTRADICTED
    assert status(outcome, ItemId.SAME_TABLE) is Status.ABSENT
    assert outcome.result.depth is not None and outcome.result.depth.depth is None


def test_a_table_that_was_rewritten_takes_the_pass_away(tmp_path: Path) -> None:
    def act() -> None:
        await_rows(here)
        here.execute(f"alter table {here.table} force")

    with bench(LabSpec("mariadb"), tmp_path) as here:
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome, ItemId.SAME_TABLE) is Status.ABSENT


@pytest.mark.parametrize(
    ("engine", "workload", "table", "options"),
    [
        ("mariadb", "insert", "ledger", "engine=Aria transactional=1"),
        ("mariadb", "mixed", "register", "engine=Aria transactional=0"),
        ("mariadb", "order-entry", "orderline", "engine=MyISAM"),
        ("mysql", "insert", "ledger", "engine=MyISAM"),
        pytest.param(
            *("myrocks", "insert", "ledger", "engine=InnoDB"), marks=pytest.mark.wide
        ),
    ],
)
def test_a_table_of_another_storage_engine_is_not_read(
    engine: str, workload: str, table: str, options: str, tmp_path: Path
) -> None:
    """A crash may take its commits by design, or leave it damaged."""
    skip_without_server(engine)

    def act() -> None:
        await_rows(here)
        here.execute(f"alter table {table} {options}")

    with bench(process_lab(engine), tmp_path) as here:
        outcome = cut_beside(here, act, quick(workload))
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome, ItemId.SAME_TABLE) is Status.CONTRADICTED
    (now,) = outcome.after.engines.values()
    assert f"engine={now}".lower() in options.lower()
    assert now in outcome.result.reasons[0]
    assert not outcome.result.losses and not outcome.result.diagnosis
    assert outcome.result.final


@pytest.mark.parametrize(
    ("engine", "statements"),
    [
        ("mariadb", ("alter table ledger partition by hash (id) partitions 2",)),
        ("mysql", ("alter table ledger partition by hash (id) partitions 2",)),
        (
            "postgresql",
            (
                "begin",
                "alter table dbcheck.ledger rename to other",
                "create view dbcheck.ledger as select * from dbcheck.other",
                "commit",
            ),
        ),
    ],
)
def test_a_table_whose_number_is_no_longer_shown_takes_the_pass_away(
    engine: str, statements: tuple[str, ...], tmp_path: Path
) -> None:
    def act() -> None:
        await_rows(here)
        here.execute("; ".join(statements))

    with bench(process_lab(engine), tmp_path) as here:
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome, ItemId.SAME_TABLE) is Status.CONTRADICTED
