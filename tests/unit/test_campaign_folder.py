"""What a campaign keeps of its cycles."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck import stored
from dbcheck.campaign.folder import CampaignFolder, Cycle, Plan
from dbcheck.campaign.totals import ERROR_FILE
from dbcheck.cli import FAILED, INCONCLUSIVE
from dbcheck.cli.campaign_run import Child, _ended
from dbcheck.core.verdict import CycleVerdict
from dbcheck.errors import RunFormatError
from tests.kit.samples import PLAN


def test_cycles_come_in_their_order_however_many_there_are(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    kept = [(0, "a"), (0, "b"), (1, "c"), (9_999, "d"), (10_000, "e"), (100_000, "f")]
    for number, run in reversed(kept):
        folder.add(Cycle(number, run, "steady", 1.0, CycleVerdict.PASS, "", ""))
    assert [(cycle.number, cycle.run) for cycle in folder.cycles()] == kept


@pytest.mark.parametrize("status", [FAILED, 1, -signal.SIGKILL])
def test_a_process_that_ended_early_is_reported_with_its_last_error(
    tmp_path: Path, status: int
) -> None:
    """Why it ended is only in its log, as where another client runs the campaign."""
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    log = folder.path / "progress.log"
    log.write_text("dbcheck: an older error\n")
    process: Any = SimpleNamespace(returncode=status)
    child = Child(process, log, log.stat().st_size)
    ended = "SIGKILL" if status < 0 else f"exit status {status}"
    assert _ended(folder, child).error == f"{ended}: no output ({log})"
    for words, last in (
        (
            "dbcheck: another dbcheck uses it\n  Wait.\n",
            "another dbcheck uses it",
        ),
        ("cycle 1\n  Traceback\n\n", "Traceback"),
    ):
        log.write_text(f"dbcheck: an older error\n{words}")
        assert _ended(folder, child).error == f"{ended}: {last} ({log})"
    (folder.path / ERROR_FILE).write_text("no route")
    assert _ended(folder, child).error == "no route"


def test_a_process_that_came_to_an_end_shows_no_error(tmp_path: Path) -> None:
    plan = replace(PLAN, cycles_max=1)
    folder = CampaignFolder.create(tmp_path / "campaign", plan)
    folder.add(Cycle(1, "a", "steady", 1.0, CycleVerdict.INCONCLUSIVE, "", ""))
    process: Any = SimpleNamespace(returncode=INCONCLUSIVE)
    child = Child(process, folder.path / "progress.log", 0)
    assert _ended(folder, child).error == ""


@pytest.mark.parametrize(
    ("bound", "allowed"), [(0, 0), (99, 0), (100, 1), (500_001, 0)]
)
def test_a_plan_has_a_bound_that_cuts_can_show(bound: int, allowed: int) -> None:
    """A stored plan may be anybody's; to count the cuts for 1 ppm takes minutes."""
    content = stored.to_bytes(PLAN).replace(
        b'"bound_ppm": null', b'"bound_ppm": %d' % bound
    )
    values = json.loads(content)
    del values["format"], values["sha256"]
    changed = stored.to_bytes(values)
    if allowed:
        assert stored.from_bytes(changed, Plan, "it").bound_ppm == bound
    else:
        with pytest.raises(RunFormatError, match="bound"):
            stored.from_bytes(changed, Plan, "it")
