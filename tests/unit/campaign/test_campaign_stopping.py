"""When a campaign stops, as more cycles would prove nothing."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, HostError
from dbcheck.campaign import campaign, stopping
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.totals import describe_progress
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.verdict import Judgement
from dbcheck.model.verdict import CycleVerdict, Verdict, describe_goal
from dbcheck.ports.listener import Phase
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import with_node
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.samples import PLAN

A, B = ItemId.WITNESS_AT_CUT.value, ItemId.HOST_DOWN.value
HERE = replace(PLAN, control=False, cuts=11, cycles_max=99)


def cycle(number: int, verdict: str, *doubts: str, error_id: str = "") -> Cycle:
    made = Cycle(number, "", "", 0.0, CycleVerdict(verdict), f"because of {number}", "")
    return replace(made, doubts=doubts, error_id=error_id)


@pytest.mark.parametrize(
    ("cycles", "stops"),
    [
        pytest.param([], False, id="none"),
        pytest.param([("INCONCLUSIVE", A)], False, id="one"),
        pytest.param([("INCONCLUSIVE", A)] * 2, True, id="the same twice"),
        pytest.param([("INCONCLUSIVE", A), ("INCONCLUSIVE", B)], False, id="another"),
        pytest.param([("INCONCLUSIVE", A), ("INCONCLUSIVE", B, A)], True, id="shared"),
        pytest.param(
            [("INCONCLUSIVE", A), ("PASS",), ("INCONCLUSIVE", A)], False, id="between"
        ),
        pytest.param([("INCONCLUSIVE", A), ("INCONCLUSIVE", B)] * 2, False, id="four"),
        pytest.param(
            [*[("INCONCLUSIVE", A), ("INCONCLUSIVE", B)] * 2, ("INCONCLUSIVE", A)],
            True,
            id="five",
        ),
        pytest.param([("INCONCLUSIVE", A)] * 2 + [("FAIL",)], False, id="a loss"),
    ],
)
def test_it_stops_after_two_cycles_with_one_reason(
    cycles: list[tuple[str, ...]], stops: bool
) -> None:
    made = [cycle(number, *given) for number, given in enumerate(cycles, 1)]
    with refused(ErrorId.CYCLES_PROVE_NOTHING) if stops else nullcontext():
        stopping.require_progress(made)


def test_an_error_is_the_same_by_its_id() -> None:
    same = [cycle(n, "ERROR", error_id="witness-lost") for n in (1, 2)]
    with refused(ErrorId.CYCLES_PROVE_NOTHING, naming="because of 2"):
        stopping.require_progress(same)
    stopping.require_progress([same[0], cycle(2, "ERROR", error_id="host-unreachable")])
    stopping.require_progress([same[0], cycle(2, "INCONCLUSIVE", A)])


def test_the_doubts_of_a_judgement_are_what_keeps_it_from_counting() -> None:
    items = (
        Item(ItemId.LOAD, Status.PRESENT, "", required=True),
        Item(ItemId.TIME_OFF, Status.ASSUMED, "", required=True),
        Item(ItemId.WITNESS_AT_CUT, Status.ABSENT, "", required=True),
        Item(ItemId.UNSAFE_SHUTDOWNS, Status.ABSENT, "", required=False),
        Item(ItemId.HOST_DOWN, Status.CONTRADICTED, "", required=False),
    )
    judged = Judgement(Verdict.INCONCLUSIVE, ("",), items)
    assert stopping.list_doubts(judged) == (A, B)
    assert not stopping.list_doubts(replace(judged, verdict=Verdict.FAIL))


def test_progress_says_what_is_counted_what_comes_and_the_bound() -> None:
    goal = describe_goal(HERE.cuts)
    assert goal.startswith("11 cuts; if none loses, at most 24% of such cuts lose")
    cycles = [cycle(n, "PASS") for n in range(1, 4)] + [cycle(4, "INCONCLUSIVE", A)]
    text = describe_progress(HERE, cycles)
    assert text.startswith("3 of 11 cuts counted, 8 to come; no loss in 3 cuts: ")
    assert "at most 64% of cuts lose" in text
    lost = describe_progress(HERE, [*cycles, cycle(5, "FAIL")])
    assert lost.startswith("4 of 11 cuts counted; 1 loss in 4 cuts")


REFUSED = EngineError("may not UPDATE", id=ErrorId.PRIVILEGE_MISSING, hint="GRANT ...")
AWAY = HostError("no route to host", id=ErrorId.HOST_UNREACHABLE)


class Cycles:
    """Plays cycles: each fails before its load, or passes."""

    def __init__(self, *results: DbcheckError | None) -> None:
        self.results, self.tried = list(results), 0

    def run(self, *_: Any) -> str:
        self.tried += 1
        if error := self.results.pop(0):
            raise error
        return "passed"


def play(
    folder: CampaignFolder, cycles: Cycles, monkeypatch: pytest.MonkeyPatch
) -> RecordingListener:
    """Run the campaign in *folder*; a server that was not cut answers."""
    view = RecordingListener()
    power: Any = SimpleNamespace(attended=False, kind=None)
    engine: Any = BareEngine(checkpoint=lambda: None, ready=lambda: None)
    rig = with_node(rig_of(view, engine=engine), power=power)

    def add_outcome(kept: CampaignFolder, _: str) -> None:
        kept.add(cycle(len(kept.cycles()) + 1, "PASS"))

    monkeypatch.setattr(campaign, "run_cycle", cycles.run)
    monkeypatch.setattr(campaign, "add_outcome", add_outcome)
    campaign.run_campaign(rig, folder)
    return view


@pytest.mark.parametrize("before", [(), (None,)], ids=["first", "later"])
def test_what_would_fail_again_is_tried_once(
    before: tuple[None, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is that of the preflight, with its hint, and nothing is waited for."""
    folder = CampaignFolder.create(tmp_path / "c", HERE)
    cycles = Cycles(*before, REFUSED)
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError) as caught:
        play(folder, cycles, monkeypatch)
    assert caught.value is REFUSED
    assert cycles.tried == len(before) + 1
    assert len(folder.cycles()) == len(before)


def test_what_may_pass_is_tried_again_and_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CampaignFolder.create(tmp_path / "c", replace(HERE, cuts=2))
    view = play(folder, Cycles(None, AWAY, None), monkeypatch)
    said = [text for phase, text in view.phases if phase is Phase.CYCLE]
    assert "2: ERROR, does not count: no route to host." in said
    (first,) = (text for text in said if text.startswith("1: to be cut "))
    assert re.search(r" after \d\.\d s of load$", first)  # "1: hold" is no sentence
    assert Phase.RESTORE not in [phase for phase, _ in view.phases]
    assert [one.verdict.value for one in folder.cycles()] == ["PASS", "ERROR", "PASS"]


def test_what_does_not_pass_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CampaignFolder.create(tmp_path / "c", HERE)
    cycles = Cycles(None, AWAY, AWAY, None)
    with refused(ErrorId.CYCLES_PROVE_NOTHING, naming="no route to host"):
        play(folder, cycles, monkeypatch)
    assert cycles.tried == 3
