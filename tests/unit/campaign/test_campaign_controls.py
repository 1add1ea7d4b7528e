"""Which control decides, and when there are to be more of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign import campaign
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.judge import control as judge_control
from dbcheck.judge.item import Status
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import ControlFacts, ControlOutcome, CycleVerdict, Verdict
from dbcheck.runs.folder import RunFolder
from tests.kit.cases import case
from tests.kit.nodes import with_node
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.samples import PLAN

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
OUTCOMES = {
    PASS: ControlOutcome.LOST,
    FAIL: ControlOutcome.FAILED,
    INCONCLUSIVE: ControlOutcome.UNFAIR,
}


def control(run: str, verdict: Verdict, *, gone: bool = False) -> Cycle:
    facts = ControlFacts(run, OUTCOMES[verdict], "as it was")
    made = Cycle(0, run, "", 0.0, CycleVerdict(verdict.value), "", "", gone=gone)
    return replace(made, settled=True, control=facts)


@pytest.mark.parametrize("first", [PASS, INCONCLUSIVE])
def test_the_control_that_lost_decides_whatever_the_clock_said(first: Verdict) -> None:
    second = {PASS: INCONCLUSIVE, INCONCLUSIVE: PASS}[first]
    cycles = [control("a", first), control("b", second)]
    item = judge_control.judge_control_item(
        case(controls=tuple(campaign._list_controls(cycles)))
    )
    assert item is not None
    assert item.status is Status.PRESENT


@pytest.mark.parametrize(
    ("cycles", "more"),
    [
        pytest.param([], True, id="none yet"),
        pytest.param([control("a", INCONCLUSIVE)], True, id="none that lost"),
        pytest.param([control("a", INCONCLUSIVE), control("b", PASS)], False, id="one"),
        pytest.param([control("a", FAIL)], False, id="a failure"),
        pytest.param([control("a", INCONCLUSIVE, gone=True)], False, id="no server"),
    ],
)
def test_controls_run_until_one_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cycles: list[Cycle], more: bool
) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    for cycle in cycles:
        folder.add(cycle)
    asked: list[tuple[object, ...]] = []

    def run_controls(*arguments: object, **more: object) -> list[object]:
        asked.append(arguments)
        return []

    monkeypatch.setattr(campaign, "run_controls", run_controls)
    power: Any = SimpleNamespace(attended=False)
    rig = with_node(rig_of(RecordingListener()), power=power)
    # These show nothing, so no cycle could pass: none is run.
    ends = refused(ErrorId.CONTROL_LOST_NOTHING) if more else nullcontext()
    with ends:
        campaign._run_controls(rig, folder, PLAN, campaign.go_on_at_once)
    assert bool(asked) == more


@pytest.mark.parametrize(
    ("verdict", "is_rebuilt"), [(PASS, True), (INCONCLUSIVE, True), (FAIL, False)]
)
def test_a_cluster_is_rebuilt_after_a_control_that_did_not_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, is_rebuilt: bool
) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    folder.add(control("a", verdict))
    folder.write_known(replace(folder.known(), run="a"))
    rebuilt: list[object] = []

    def rebuild_cluster(rig: object, last: object, **_: object) -> object:
        rebuilt.append(last)
        return rig

    monkeypatch.setattr(RunFolder, "open", lambda path: path)
    monkeypatch.setattr(campaign, "rebuild_cluster", rebuild_cluster)
    rig: Any = SimpleNamespace(site=SimpleNamespace(promise=Promise.WRITER_GONE))
    assert campaign._make_whole(rig, folder) is rig
    assert bool(rebuilt) is is_rebuilt
