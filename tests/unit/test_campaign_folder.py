"""What a campaign keeps of its cycles."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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


@pytest.mark.parametrize("status", [FAILED, 2, -signal.SIGKILL])
def test_a_process_that_ended_early_is_reported_with_its_last_line(
    tmp_path: Path, status: int
) -> None:
    """Why it ended is only in its log, as where another client runs the campaign."""
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    log = folder.path / "progress.log"
    log.write_text("cycle 1\nanother dbcheck is using it\n\n")
    child: Any = SimpleNamespace(returncode=status)
    ended = "SIGKILL" if status < 0 else f"exit status {status}"
    said = f"{ended}: another dbcheck is using it ({log})"
    assert _ended(folder, child)["error"] == said
    log.write_text("")
    assert "it wrote nothing" in _ended(folder, child)["error"]
    (folder.path / ERROR_FILE).write_text("no route")
    assert _ended(folder, child)["error"] == "no route"


def test_a_process_that_came_to_an_end_shows_no_error(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    child: Any = SimpleNamespace(returncode=INCONCLUSIVE)
    assert _ended(folder, child)["error"] == ""
