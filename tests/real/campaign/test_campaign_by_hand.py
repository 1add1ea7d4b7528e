"""A campaign whose power a person cuts: at a terminal, and on two days."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result
from dbcheck.judge.results import CampaignResult
from dbcheck.lab.lab import Lab
from dbcheck.model.verdict import CycleVerdict, Verdict
from tests.kit.labs import process_lab
from tests.kit.people import CTRL_C, Person, command_of, write_inventory
from tests.kit.terminal import Terminal


class Cutter(Person):
    """A person with a campaign."""

    @property
    def campaign(self) -> Path:
        return self.folder / "campaign"

    def begin(self, *more: str) -> Terminal:
        words = ("db1", "--cuts", "2", "--folder", str(self.campaign), *more)
        return self.sit_down("campaign", *words)

    def resume(self) -> Terminal:
        return self.sit_down("campaign", "--resume", str(self.campaign))

    def result(self) -> CampaignResult:
        return make_result(CampaignFolder.open(self.campaign))


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Cutter]:
    with Lab.start(process_lab("postgresql"), tmp_path / "lab") as lab:
        yield Cutter(lab, tmp_path, tmp_path)


def verdicts(result: CampaignResult) -> list[CycleVerdict]:
    return [cycle.verdict for cycle in result.cycles]


def test_a_person_cuts_and_goes_on_another_day(person: Cutter) -> None:
    with person.begin() as at:
        at.until("2 cuts; if none loses, at most 78% of such cuts lose")
        person.go_to_plug(at)
        at.type(CTRL_C)  # before the plug was pulled
        at.until("--resume")
    result = person.result()
    assert (result.statistics.cuts, result.finished) == (0, False)
    with person.resume() as at:
        at.until("does not count")
        person.pull_plug(at)
        at.until("1 of 2 cuts counted, 1 to come", "one pass proves almost nothing")
        at.until("Enter")
        at.type(CTRL_C)  # between two cuts
        at.until("--resume")
    assert person.result().statistics.cuts == 1
    with person.resume() as at:
        person.pull_plug(at)
        at.until("2 of 2 cuts counted")
        at.until("PASS")
    result = person.result()
    assert (result.verdict, result.statistics.cuts) == (Verdict.PASS, 2)
    left, *counted = verdicts(result)
    assert left is CycleVerdict.INCONCLUSIVE
    assert counted == [CycleVerdict.PASS] * 2
    # A hand cut what its class says, and nothing was measured for it.
    assert result.cut_classes == ("AC",)


def test_enter_begins_the_load_of_each_cut(person: Cutter) -> None:
    with person.begin() as at:
        person.pull_plug(at)
        person.pull_plug(at)
        at.until("2 of 2 cuts counted")
    assert verdicts(person.result()) == [CycleVerdict.PASS] * 2


def test_a_control_that_was_not_cut_asks_for_no_second_cut(person: Cutter) -> None:
    """The network was down in place of the power."""
    with person.begin("--control") as at:
        person.go_to_plug(at)
        person.lab.freeze_server()
        at.until("then restore it")
        person.lab.thaw_server()
        at.until(ErrorId.CONTROL_LOST_NOTHING.value)
    (control,) = person.result().cycles
    assert control.number == 0


@pytest.mark.parametrize(
    ("words", "id"),
    [
        pytest.param(["db1"], ErrorId.TERMINAL_NEEDED, id="no terminal"),
        pytest.param(
            ["db1", "db2"], ErrorId.UNATTENDED_SWITCH_NEEDED, id="several at once"
        ),
        pytest.param(
            ["db1", "--dask", "local"], ErrorId.UNATTENDED_SWITCH_NEEDED, id="workers"
        ),
    ],
)
def test_what_one_person_cannot_do_is_refused_untouched(
    words: list[str], id: ErrorId, tmp_path: Path
) -> None:
    write_inventory(
        tmp_path,
        {"dbcheck_target": "postgresql://db/x", "dbcheck_witness": "ssh://w/l"},
    )
    before = set(tmp_path.iterdir())
    done = subprocess.run(
        (*command_of(tmp_path, "campaign", *words), "--cuts", "2"),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, f"[{id.value}]" in done.stderr) == (2, True), done.stderr
    assert set(tmp_path.iterdir()) == before
