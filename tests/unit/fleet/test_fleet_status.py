"""The status of a campaign of a fleet, as its cycles show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.fleet.coordinator import Coordinator, make_rig
from dbcheck.inventory.entry import Entry
from dbcheck.model.verdict import ControlFacts, ControlOutcome, CycleVerdict
from dbcheck.report.fleet import State
from tests.kit.samples import PLAN

ENTRY = Entry("db1", "postgresql://u@db1/d")
PASS, FAIL = CycleVerdict.PASS, CycleVerdict.FAIL
OPEN = CycleVerdict.INCONCLUSIVE
BY_NO_CUT = "ended: FAIL by a control or a loss without a power cut"
CONTROL = ControlFacts("run-0", ControlOutcome.FAILED, "it lost a hole")


def cycle(number: int, verdict: CycleVerdict, **values: Any) -> Cycle:
    return Cycle(number, f"run-{number}", "steady", 1.0, verdict, "", "", **values)


@pytest.mark.parametrize(
    ("cycles", "failed", "line"),
    [
        pytest.param([cycle(1, PASS), cycle(2, PASS)], False, "ended", id="passed"),
        pytest.param(
            [cycle(1, PASS)], False, "ended: too few cuts count, 1 of 2", id="too few"
        ),
        pytest.param(
            [cycle(1, OPEN)],
            False,
            "ended: no cut counts, so nothing is shown",
            id="none",
        ),
        pytest.param([cycle(1, FAIL)], True, "ended: FAIL", id="a cut that lost"),
        pytest.param([cycle(1, FAIL, uncut=True)], True, BY_NO_CUT, id="no power cut"),
        pytest.param([cycle(0, FAIL, control=CONTROL)], True, BY_NO_CUT, id="control"),
    ],
)
def test_a_campaign_that_ends_says_what_its_cuts_are_worth(
    cycles: list[Cycle], failed: bool, line: str, tmp_path: Path
) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", replace(PLAN, cuts=2))
    rig = make_rig("1", ENTRY, folder, "up")
    for one in cycles:
        folder.add(one)
    assert len(list(rig.new_results())) == len(cycles)
    assert rig.describe_status().failed is failed
    assert make_rig("1", ENTRY, folder, "up").describe_status().failed is failed
    said: list[str] = []
    view = SimpleNamespace(line=lambda _, text: said.append(text))
    keeps = cast(Any, SimpleNamespace(_view=view, _permit_requests={}))
    Coordinator._end(keeps, rig, State.ENDED, "")
    assert said == [line]
