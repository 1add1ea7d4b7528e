"""What a campaign keeps of its cycles."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dbcheck.campaign.folder import CampaignFolder, Cycle, Plan
from dbcheck.cli import FAILED, INCONCLUSIVE
from dbcheck.cli.campaign_run import ERROR_FILE, _ended
from tests.unit.test_runs import MANIFEST

PLAN = Plan("", "0", "db1", "", 1, MANIFEST.workload, 10**4, 10**5, None, False, True)


def test_cycles_come_in_their_order_however_many_there_are(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    kept = [(0, "a"), (0, "b"), (1, "c"), (9_999, "d"), (10_000, "e"), (100_000, "f")]
    for number, run in reversed(kept):
        folder.add(Cycle(number, run, "steady", 1.0, "PASS", "", ""))
    assert [(cycle.number, cycle.run) for cycle in folder.cycles()] == kept


def test_a_refused_process_is_reported_with_its_log(tmp_path: Path) -> None:
    """Another client runs the campaign; why this one was refused is in progress.log."""
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    child: Any = SimpleNamespace(returncode=FAILED)
    assert "progress.log" in _ended(folder, child)["error"]
    child.returncode = INCONCLUSIVE
    assert _ended(folder, child)["error"] == ""
    (folder.path / ERROR_FILE).write_text("no route")
    child.returncode = FAILED
    assert _ended(folder, child)["error"] == "no route"
