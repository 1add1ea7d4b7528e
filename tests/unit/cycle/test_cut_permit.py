"""When a target of a fleet may be without power, and what is stored before rows go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, TargetChanged
from dbcheck.campaign import campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.cycle import wait_for_turn
from dbcheck.cycle.preflight.earlier_cycles import Known
from dbcheck.cycle.rig import CutPermit, Rig
from dbcheck.model.verdict import CycleVerdict
from dbcheck.runs.folder import RunFolder
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import with_node
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST, PLAN

OF_CAMPAIGN = replace(MANIFEST, control=True, seed=PLAN.seed)
EMPTY = Known({"system_identifier": "1"}, "", {})


class Counted(CutPermit):
    """Remembers what was said of permit, and of what is stored."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def take(self) -> None:
        self.said.append("take")

    def give_back(self) -> None:
        self.said.append("give_back")


@pytest.fixture
def permit() -> Counted:
    return Counted()


@pytest.fixture
def rig(permit: Counted) -> Rig:
    power: Any = SimpleNamespace(attended=False)
    engine: Any = BareEngine(checkpoint=lambda: None, target=MANIFEST.writer.target)
    made = with_node(rig_of(RecordingListener(), engine=engine), power=power)
    return replace(made, permit=permit, store=lambda: permit.said.append("store"))


def test_a_preflight_that_fails_ends_the_turn(rig: Rig, permit: Counted) -> None:
    with pytest.raises(KeyboardInterrupt), wait_for_turn(rig):
        raise KeyboardInterrupt
    assert permit.said == ["take", "give_back"]
    permit.said.clear()
    with wait_for_turn(rig):  # the cycle, which cuts, ends it
        pass
    assert permit.said == ["take"]


def test_a_run_that_another_client_left_is_settled_in_a_turn(
    rig: Rig, permit: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target may be without power until then."""
    folder = CampaignFolder.create(tmp_path / "c", replace(PLAN, control=False))
    RunFolder.create(folder.runs, OF_CAMPAIGN)
    monkeypatch.setattr(
        campaign, "_may_have_begun", lambda *_: permit.said.append("settles")
    )
    assert campaign._settle_all(rig, folder)
    assert permit.said == ["take", "settles", "give_back"]
    permit.said.clear()
    assert not campaign._settle_all(rig, folder)
    assert permit.said == []


def test_a_target_that_cannot_be_settled_keeps_its_turn(
    rig: Rig, permit: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CampaignFolder.create(tmp_path / "c", PLAN)
    RunFolder.create(folder.runs, OF_CAMPAIGN)

    def fail(*_: object) -> bool:
        raise TargetChanged("no answer", id=ErrorId.TARGET_CHANGED)

    monkeypatch.setattr(campaign, "_may_have_begun", fail)
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="no answer"):
        campaign._settle_all(rig, folder)
    assert permit.said == ["take"]


def test_what_is_known_is_stored_before_rows_are_dropped(
    rig: Rig, permit: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client elsewhere would miss rows that a lost worker has dropped."""
    folder = CampaignFolder.create(tmp_path / "c", replace(PLAN, control=False))

    def run_cycle(*given: Any) -> Any:
        given[-1](EMPTY)
        assert permit.said == ["store"]
        assert folder.known() == EMPTY
        raise TargetChanged("enough", id=ErrorId.TARGET_CHANGED)

    monkeypatch.setattr(campaign, "run_cycle", run_cycle)
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="enough"):
        campaign.run_campaign(rig, folder)
    assert permit.said == ["store"]


def test_a_failure_before_the_load_ends_only_what_it_begins(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a cycle was made, it may pass, as of a network; what to do is kept."""
    folder = CampaignFolder.create(tmp_path / "c", replace(PLAN, control=False))

    def run_cycle(*_: object) -> None:
        raise EngineError(
            "may not create", id=ErrorId.CONNECTION_FAILED, hint="Run: grant create;"
        )

    monkeypatch.setattr(campaign, "run_cycle", run_cycle)
    monkeypatch.setattr(campaign, "await_answer", lambda _: None)
    with refused(ErrorId.CONNECTION_FAILED, EngineError, naming="may not create"):
        campaign.run_campaign(rig, folder)
    assert not folder.cycles()
    campaign._run_next_cycle(rig, folder, folder.plan(), is_first=False)
    (cycle,) = folder.cycles()
    assert cycle.verdict is CycleVerdict.ERROR
    assert "Run: grant create;" in cycle.reason
