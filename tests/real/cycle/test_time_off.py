"""The time without power: whole, cut short, and outlived by a client."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.judge.item import ItemId, Status, meaning
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import PowerState
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.power.kinds.exec import ExecConfig, ExecSwitch
from dbcheck.runs.folder import RunFolder
from tests.kit.labs import process_lab
from tests.kit.nodes import at_the_cut, with_node
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Bench, bench, plan, quick
from tests.kit.waiting import wait_until
from tests.real.cycle.hold_client import programs

LONG_S = 5.0  # so that a client can be killed within


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Bench]:
    with bench(process_lab("postgresql"), tmp_path) as started:
        yield started


@pytest.fixture
def campaign(tmp_path: Path) -> CampaignFolder:
    return CampaignFolder.create(tmp_path / "campaign", plan(cuts=1))


def begun(
    here: Bench, campaign: CampaignFolder, off_s: float
) -> tuple[subprocess.Popen[bytes], RunFolder]:
    """Start a client; return it and its run once the load is over and stored."""
    words = (
        "-m",
        "tests.real.cycle.hold_client",
        here.lab.name,
        campaign.path,
        str(off_s),
    )
    client = subprocess.Popen((sys.executable, *words))
    loads = "*/load.json"
    wait_until(lambda: any(campaign.runs.glob(loads)), "the load is stored")
    (load,) = campaign.runs.glob(loads)
    return client, RunFolder.open(load.parent)


def settled(here: Bench, run: RunFolder) -> Outcome:
    """Judge a run whose power is back, as dbcheck reconcile does."""
    return reconcile_run(here.rig, run, run.manifest())


def require_doubt(outcome: Outcome, said: str) -> None:
    assert outcome.verdict is Verdict.INCONCLUSIVE
    (reason,) = outcome.judgement.reasons
    assert reason.startswith(f"{meaning(ItemId.TIME_OFF, Status.NOT_OBSERVABLE)}: ")
    assert said in reason
    assert "cut again" in reason


def test_a_whole_time_passes_and_is_kept(here: Bench, tmp_path: Path) -> None:
    rig = with_node(here.rig, power=programs(here.lab.name, 0.5, tmp_path))
    outcome = run_cycle(rig, quick(), SEED)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    names = {item.id.value: item.status for item in outcome.judgement.items}
    assert names["time without power"] is Status.ASSUMED  # by a program's word
    measured = outcome.run.restore()
    assert measured is not None
    assert (measured.off_s[ONLY_NODE] or 0) >= 0.5
    (outcome.run.path / "restore.json").unlink()
    again = judge_run(outcome.run, here.rig.reader)
    require_doubt(again, "not measured (0.5 s intended)")


@pytest.mark.wide
def test_a_time_cut_short_by_interrupts_is_no_pass(
    here: Bench, campaign: CampaignFolder
) -> None:
    client, run = begun(here, campaign, 900)
    with client:

        def ended() -> bool:
            client.send_signal(signal.SIGHUP)
            return client.poll() is not None

        wait_until(ended, "the client has ended")
    assert here.rig.site.writer.power.state() is PowerState.ON
    measured = run.restore()
    assert measured is not None
    off_s = measured.off_s[ONLY_NODE]
    assert off_s is not None
    assert off_s < 900
    require_doubt(settled(here, run), "the server answered again ")


@pytest.mark.wide
def test_a_client_killed_meanwhile_is_followed_by_a_whole_time(
    here: Bench, campaign: CampaignFolder
) -> None:
    client, run = begun(here, campaign, LONG_S)
    with client:
        client.kill()
    assert here.rig.site.writer.power.state() is PowerState.OFF
    power = programs(here.lab.name, LONG_S, campaign.path.parent)
    rig = with_node(here.rig, power=power)
    assert run_campaign(rig, campaign).cuts == 1
    (cycle,) = campaign.cycles()
    assert (cycle.run, cycle.verdict, cycle.settled) == (
        run.path.name,
        CycleVerdict.PASS,
        True,
    )
    measured = run.restore()
    assert measured is not None
    assert (measured.off_s[ONLY_NODE] or 0) >= LONG_S


@pytest.mark.wide
def test_power_that_somebody_gave_back_is_no_pass(
    here: Bench, campaign: CampaignFolder
) -> None:
    client, run = begun(here, campaign, 900)
    with client:
        client.kill()
    here.rig.site.writer.power.restore()
    assert run.restore() is None
    require_doubt(settled(here, run), "less than the 900 s intended")


def test_a_switch_that_cuts_and_then_fails_leaves_a_run_to_judge(here: Bench) -> None:
    cut = "import sys; from dbcheck.lab.switch import LabSwitch; "
    cut += f"LabSwitch({here.lab.name!r}).cut(); sys.exit('the outlet is on fire')"
    back = f"from dbcheck.lab.switch import LabSwitch; LabSwitch({here.lab.name!r})"
    power = ExecSwitch(
        ExecConfig(
            cut=(sys.executable, "-c", cut),
            restore=(sys.executable, "-c", f"{back}.restore()"),
        )
    )
    with refused(ErrorId.POWER_COMMAND_FAILED, PowerError, naming="with 1"):
        run_cycle(with_node(here.rig, power=power), quick(), SEED)
    (folder,) = here.rig.runs.iterdir()
    run = RunFolder.open(folder)
    load = run.load()
    assert load is not None
    assert at_the_cut(load).cut is None
    assert "on fire" in load.cut_failed
    # Stored, so that a later client does not expect the power to be off.
    assert run.restore() is not None
    outcome = settled(here, run)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    (item,) = (i for i in outcome.judgement.items if i.id.value == "load at the cut")
    assert item.status is Status.NOT_OBSERVABLE
    assert outcome.found is not None
    assert outcome.found.kept > 0


def test_power_that_does_not_come_back_is_told_beside_what_ended_the_cycle(
    here: Bench,
) -> None:
    stuck = ("sh", "-c", "echo stuck; exit 1")
    power = ExecSwitch(ExecConfig(cut=("false",), restore=stuck))
    with refused(ErrorId.POWER_COMMAND_FAILED, PowerError, naming=("cut", "with 1")):
        run_cycle(with_node(here.rig, power=power), quick(), SEED)
    told = "failed: the restore command exited with 1, output: stuck"
    assert told in here.said.text
    assert "after an error: the power is restored" in here.said.text
    assert "Ctrl-C again" not in here.said.text
