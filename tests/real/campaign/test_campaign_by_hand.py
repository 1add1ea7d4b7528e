"""A campaign whose power a person cuts: at a terminal, and on two days."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result
from dbcheck.cli.lab import describe_as_host
from dbcheck.judge.results import CampaignResult
from dbcheck.lab.lab import Lab
from dbcheck.model.verdict import CycleVerdict, Verdict
from tests.kit.labs import process_lab
from tests.kit.terminal import Terminal
from tests.kit.users import QUICK

# The lab plays another host, and its power is off for a second.
PROGRAM = (
    "from dbcheck.cycle.preflight import before_load;"
    "from dbcheck.cli import main;"
    "before_load.require_independent = lambda *_: 'the test says so';"
    "main()"
)
CTRL_C, ENTER = "\x03", "\n"


def write_inventory(folder: Path, host: Mapping[str, Any]) -> None:
    """Write an inventory with two hosts that a person cuts."""
    (folder / "quick.toml").write_text(QUICK.format(0.6, 1.0))
    by_hand = {
        "dbcheck_power": "manual",
        "dbcheck_power_off_s": 1,
        "dbcheck_workload": str(folder / "quick.toml"),
    }
    hosts = {name: {**host, **by_hand} for name in ("db1", "db2")}
    other = {"dbcheck_target": "postgresql://db2/x", "dbcheck_witness": "ssh://w2/l"}
    hosts["db2"] |= other
    (folder / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))


def command_of(folder: Path, *words: str) -> tuple[str, ...]:
    inventory = ("--inventory", str(folder / "inventory.yml"))
    return (sys.executable, "-c", PROGRAM, "campaign", *words, *inventory)


class Person:
    """Somebody with a lab as their server, who pulls its plug when asked to."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.campaign = folder / "campaign"
        host = describe_as_host(lab)
        for name in ("dbcheck_power_lab", "dbcheck_power_scope"):
            del host[name]
        write_inventory(folder, host)

    def sit_down(self, *words: str) -> Terminal:
        """Start the campaign at a terminal."""
        command = command_of(self.folder, *words)
        return Terminal(*command, environment=os.environ, folder=self.folder)

    def begin(self, *more: str) -> Terminal:
        words = ("db1", "--cuts", "2", "--folder", str(self.campaign), *more)
        return self.sit_down(*words)

    def resume(self) -> Terminal:
        return self.sit_down("--resume", str(self.campaign))

    def pull_plug(self, at: Terminal) -> None:
        """Wait until asked, cut the power, and restore it when asked."""
        at.until("NOW")
        self.lab.freeze_server()  # to its clients, what a power cut is: silence
        at.until("then restore it")
        switch = self.lab.switch()
        switch.cut()
        switch.restore()

    def result(self) -> CampaignResult:
        return make_result(CampaignFolder.open(self.campaign))


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with Lab.start(process_lab("postgresql"), tmp_path / "lab") as lab:
        yield Person(lab, tmp_path)


def verdicts(result: CampaignResult) -> list[CycleVerdict]:
    return [cycle.verdict for cycle in result.cycles]


def test_a_person_cuts_and_goes_on_another_day(person: Person) -> None:
    with person.begin() as at:
        at.until("2 cuts; if none loses, at most 78% of cuts lose")
        at.until("NOW")
        at.type(CTRL_C)  # before the plug was pulled
        at.until("--resume")
    result = person.result()
    assert (result.statistics.cuts, result.finished) == (0, False)
    with person.resume() as at:
        at.until("does not count")
        person.pull_plug(at)
        at.until("1 of 2 cuts counted, 1 to come", "at most 95% of cuts lose")
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


def test_enter_begins_the_load_of_the_next_cut(person: Person) -> None:
    with person.begin() as at:
        person.pull_plug(at)
        at.until("Enter")
        at.type(ENTER)
        person.pull_plug(at)
        at.until("2 of 2 cuts counted")
    assert verdicts(person.result()) == [CycleVerdict.PASS] * 2


def test_a_control_that_was_not_cut_asks_for_no_second_cut(person: Person) -> None:
    """The network was down in place of the power."""
    with person.begin("--control") as at:
        at.until("NOW")
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
        (*command_of(tmp_path, *words), "--cuts", "2"),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, f"[{id.value}]" in done.stderr) == (2, True), done.stderr
    assert set(tmp_path.iterdir()) == before
