"""A server that lost rows in a stop without a power cut: what a campaign keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.campaign import campaign
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.evidence.verify import Shown, find_differences_in_campaign
from dbcheck.model.moments import Activity, PlannedCut
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.rows.table import LEDGER
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.cycles import record, records_of
from tests.kit.nodes import having
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.samples import PLAN
from tests.kit.stored_run import EARLIER, EPOCH, load_record, manifest, stored_run

FAIL = CycleVerdict.FAIL


def run_that_lost(folder: CampaignFolder, **at_the_cut: Any) -> RunFolder:
    """Store a run that lost nearly all of its rows; its load ended so."""
    run = stored_run(RunFolder.create(folder.runs, manifest()))
    run.write_load(having(load_record(), **at_the_cut))
    rows = [record(1, 1, epoch=EPOCH), record(0, 3, epoch=EARLIER)]
    kept = {LEDGER.name: run.write_survivors(LEDGER.name, [records_of(rows)])}
    run.write_after(replace(run.after(), survivors=kept))
    return run


@pytest.mark.parametrize(
    ("at_the_cut", "uncut"),
    [
        pytest.param({"cut": None}, True, id="no cut"),
        pytest.param({"cut": None, "cut_failed": "no answer"}, False, id="asked"),
        pytest.param({}, False, id="a cut"),
    ],
)
def test_a_cycle_is_stored_with_the_fact_that_no_power_was_cut(
    at_the_cut: dict[str, Any], uncut: bool, tmp_path: Path
) -> None:
    folder = CampaignFolder.create(tmp_path / "c", PLAN)
    run = run_that_lost(folder, **at_the_cut)
    outcome = judge_run(run, FrameLogReader())
    assert outcome.verdict is Verdict.FAIL
    campaign.add_outcome(folder, outcome)
    (cycle,) = folder.cycles()
    assert (cycle.verdict, cycle.uncut) == (FAIL, uncut)
    assert cycle.counts is not uncut
    assert not run.lacks_survivors(run.after())  # its rows are evidence


def test_verify_sees_a_cycle_that_is_said_to_be_without_a_cut(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "c", PLAN)
    run = run_that_lost(folder)
    outcome = judge_run(run, FrameLogReader())
    campaign.add_outcome(folder, outcome)
    shown = {run.path.name: Shown(run, outcome.result)}

    def differences() -> list[str]:
        found = find_differences_in_campaign(folder, shown, words=False)
        return [text for text in found if "without a power cut" in text]

    assert differences() == []
    (cycle,) = folder.cycles()
    folder.add(replace(cycle, uncut=True))
    assert differences() == [
        "cycle 1: without a power cut True, and its run shows False"
    ]


@pytest.mark.parametrize("uncut", [True, False])
def test_no_table_is_dropped_after_a_loss(
    uncut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CampaignFolder.create(tmp_path / "c", replace(PLAN, keep_going=True))
    lost = Cycle(1, "run-1", "steady", 1.0, FAIL, "lost", "", uncut=uncut)
    folder.add(lost)
    given: list[object] = []

    def run_cycle(*arguments: Any) -> None:
        given.append(arguments[-1])
        raise TargetChanged("enough", id=ErrorId.TARGET_CHANGED)

    monkeypatch.setattr(campaign, "run_cycle", run_cycle)
    drawn = PlannedCut(2, Activity.STEADY, 1.0, 0.0)
    monkeypatch.setattr(campaign, "_plan_next_cut", lambda *_: drawn)
    rig = rig_of(RecordingListener())
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="enough"):
        campaign._run_next_cycle(rig, folder, folder.plan(), is_first=False)
    assert given == [None]
