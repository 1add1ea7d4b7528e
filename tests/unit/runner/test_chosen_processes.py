"""Which commands choose the processes of a load, and for how many cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.folder import CampaignFolder
from dbcheck.config import workload_file
from dbcheck.inventory.entry import Entry
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.rows.workload import Workload
from dbcheck.runner import assemble
from dbcheck.runner.campaign_plan import Goal, make_plan
from dbcheck.runner.lab_cycles import adapt_workload_to_lab
from dbcheck.runner.matrix_cycles import RowResults, adapt_to_target
from dbcheck.runner.matrix_rows import read_matrix

CORES = 16
DB1 = Entry("db1", "postgresql://u@h/d", power=ExecConfig(("off",)), sessions=64)


@pytest.fixture(autouse=True)
def large_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "count_free_cores", lambda: CORES)


def chosen(entry: Entry, **given: Any) -> tuple[int | None, int | None]:
    workload = workload_file.load("insert").with_sessions(64)
    found = assemble.choose_processes(entry, workload, **given)
    return found.processes, found.cores


def planned(targets: int | None, entry: Entry = DB1) -> Workload:
    plan = make_plan(
        *(entry, 1, Goal(3)),
        keep_going=False,
        control=False,
        twice=False,
        targets=targets,
    )
    return plan.workload


def test_the_load_of_a_server_uses_the_cores() -> None:
    assert chosen(DB1) == (4, CORES)


def test_a_lab_s_server_needs_the_cores_itself() -> None:
    assert chosen(Entry("lab", "postgresql://u@h/d", power=LabConfig("lab"))) == (
        None,
        None,
    )
    of_lab = adapt_workload_to_lab(workload_file.load("insert"))
    assert (of_lab.processes, of_lab.cores) == (None, None)


def test_in_lockstep_the_witness_s_disk_sets_the_pace() -> None:
    assert chosen(DB1, lockstep=True) == (None, None)


@pytest.mark.parametrize(
    ("targets", "processes", "cores"), [(1, 4, 16), (4, 2, 4), (16, 1, 1), (40, 1, 1)]
)
def test_targets_that_are_loaded_at_once_share_the_cores(
    targets: int, processes: int, cores: int
) -> None:
    workload = planned(targets)
    assert (workload.processes, workload.cores) == (processes, cores)


def test_a_campaign_keeps_the_number_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(*(DB1, 1, Goal(3)), keep_going=False, control=True, twice=False)
    CampaignFolder.create(tmp_path / "campaign", plan)
    monkeypatch.setattr(assemble, "count_free_cores", lambda: 2)
    stored = CampaignFolder.open(tmp_path / "campaign").plan().workload
    assert (stored.processes, stored.cores) == (4, CORES)


def test_each_row_of_a_matrix_has_the_processes_that_its_sessions_need() -> None:
    vary = ["sessions=1,8,64", "processes=2"]
    rows = [
        *read_matrix(None, vary[:1], target=True, seed=1).rows,
        *read_matrix(None, vary, target=True, seed=1).rows,
    ]
    measured = [RowResults(row) for row in rows]
    adapt_to_target(measured, replace(DB1, price=7.0))
    loads = [one.row.workload for one in measured]
    assert [load.processes for load in loads] == [1, 2, 4, 1, 2, 2]
    assert [load.cores for load in loads] == [CORES] * 3 + [None] * 3
    assert {one.row.price for one in measured} == {7.0}


def test_the_inventory_s_number_wins_but_not_over_a_row_s() -> None:
    inventory = replace(DB1, processes=3)
    workload = planned(1, inventory)
    assert (workload.processes, workload.cores) == (3, None)
    rows = [
        *read_matrix(None, ["sessions=2,64"], target=True, seed=1).rows,
        *read_matrix(None, ["processes=5"], target=True, seed=1).rows,
    ]
    measured = [RowResults(row) for row in rows]
    adapt_to_target(measured, inventory)
    assert [one.row.workload.processes for one in measured] == [2, 3, 5]


def test_the_cores_of_other_machines_are_not_known() -> None:
    assert planned(None).processes is None
    assert planned(None).sessions == 64
