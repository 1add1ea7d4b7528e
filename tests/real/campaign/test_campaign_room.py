"""A campaign that has filled half of its room drops the rows that it has judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.cycle import run_cycle
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.rows.plans.registry import tables_of
from dbcheck.runs.folder import RunFolder
from tests.kit.refusals import refused
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, plan, quick

pytestmark = [pytest.mark.root, pytest.mark.wide]
DROPPED = "rows of earlier cycles, all judged, are dropped to make room"


@pytest.fixture(params=FAMILIES)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench(LabSpec(request.param), tmp_path) as started:
        yield started


def campaign(here: Bench, folder: Path, cuts: int) -> CampaignFolder:
    chosen = plan(here.engine, cuts=cuts, workload=quick("mixed"))
    return CampaignFolder.create(folder, chosen)


def rows_before(folder: CampaignFolder) -> list[int]:
    """Return how many rows stood in the tables before the load of each run."""
    found = [RunFolder.open(folder.runs / c.run).manifest() for c in folder.cycles()]
    return [
        sum(sum(t.rows_by_epoch.values()) for t in m.tables.values()) for m in found
    ]


def test_room_is_made_of_rows_that_were_judged(here: Bench, tmp_path: Path) -> None:
    first = campaign(here, tmp_path / "first", cuts=2)
    assert run_campaign(here.rig, first).cuts == 2
    before = rows_before(first)
    assert before[0] == 0 < before[1], "there was room"
    known = first.known()
    assert known.free_bytes is not None and known.tables
    assert DROPPED not in here.said.text

    # As if the tables had been there, and a hundred times as much room, before the
    # first cycle.
    short = replace(known.without_setup(), free_bytes=100 * known.free_bytes)
    second = campaign(here, tmp_path / "second", cuts=2)
    second.write_known(short)
    assert run_campaign(here.rig, second).cuts == 2
    assert rows_before(second) == [0, 0]
    assert here.said.text.count(DROPPED) == 2

    # A client that was lost once the tables were dropped left nothing to be missed.
    lost = campaign(here, tmp_path / "lost", cuts=1)
    lost.write_known(second.known().without_rows())
    here.rig.site.writer.engine.discard(tables_of(quick("mixed")))
    assert run_campaign(here.rig, lost).cuts == 1

    # Rows that no cycle has judged stay, and those of before with them.
    other = run_cycle(here.rig, quick("mixed"), SEED)
    assert other.verdict is Verdict.PASS, other.judgement
    third = campaign(here, tmp_path / "third", cuts=1)
    third.write_known(lost.known())
    assert run_campaign(here.rig, third).cuts == 1
    assert rows_before(third)[0] > other.manifest.tables["ledger"].row_id_max
    assert here.said.text.count(DROPPED) == 2

    # Rows that are gone are missed all the same.
    fourth = campaign(here, tmp_path / "fourth", cuts=1)
    fourth.write_known(third.known())
    here.execute(f"delete from {here.table} where seq = 1")
    with refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged):
        run_campaign(here.rig, fourth)
