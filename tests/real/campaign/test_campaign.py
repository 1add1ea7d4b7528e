"""Campaigns in the lab: cut after cut, errors, and clients that do not live to tell."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, TargetChanged, UsageError
from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import ERROR_FILE, make_result
from dbcheck.cli.lab import describe_as_host
from dbcheck.cycle.host import end_canaries
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.result import to_values
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import Cut, PowerState
from dbcheck.model.moments import WITHOUT_TASKS, Activity, PlannedCut
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.ports.listener import Phase
from dbcheck.ports.power import PowerSwitch
from dbcheck.runs.folder import RunFolder
from tests.kit.labs import process_lab
from tests.kit.nodes import with_node
from tests.kit.refusals import refused
from tests.kit.rigs import Bench, Said, bench, plan, write_quick
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root
HONEST = LabSpec("postgresql")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Bench]:
    with bench(HONEST, tmp_path) as started:
        yield started


def counts(shown: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many cuts of a campaign count, and how many of them lost."""
    return shown["statistics"]["cuts"], shown["statistics"]["losses"]


def verdicts(folder: CampaignFolder) -> list[str]:
    return [cycle.verdict.value for cycle in folder.cycles()]


@pytest.mark.wide
def test_an_honest_drive_passes_in_each_activity(here: Bench, tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=4))
    shown = run_campaign(here.rig, folder)
    cycles = folder.cycles()
    assert verdicts(folder) == ["PASS"] * 4
    moments = [RunFolder.open(folder.runs / c.run).manifest().moment for c in cycles]
    drawn = [moment.activity for moment in moments if moment]
    assert set(drawn) == set(WITHOUT_TASKS)
    for cycle, activity in zip(cycles, drawn, strict=True):
        assert cycle.drawn == activity.value
        assert (cycle.activity == activity.value) is (not cycle.missed)
    assert {cycle.cut_class for cycle in cycles} == {"lab drive"}
    assert (shown.cuts, shown.losses) == (4, 0)
    assert "no loss in 4 cuts" in shown.sentence
    assert "the cut comes meanwhile" in here.said.text
    lines = (folder.path / "cycles.jsonl").read_text().splitlines()
    assert len(lines) == 4
    # Rows of all cycles are in the table, and were checked again in each.
    earlier = [cycle.confirmed or 0 for cycle in cycles]
    ((rows,),) = here.execute(f"select count(*) from {here.table}")
    assert all(earlier)
    assert rows >= sum(earlier)
    assert not list(folder.runs.glob("*/survivors-*.bin"))
    # It is over: nothing more is cut.
    assert run_campaign(here.rig, folder) == shown


def test_a_loss_ends_it_and_keeps_the_rows(tmp_path: Path) -> None:
    spec = replace(HONEST, drive=DriveSpec(personality="lying", destage_age_s=0.3))
    with bench(spec, tmp_path) as here:
        folder = CampaignFolder.create(tmp_path / "campaign", plan())
        assert run_campaign(here.rig, folder).losses == 1
        assert verdicts(folder) == ["FAIL"]
        assert list(folder.runs.glob("*/survivors-*.bin"))
        other = CampaignFolder.create(tmp_path / "other", plan(cuts=2, keep_going=True))
        assert run_campaign(here.rig, other).losses == 2


class Once(Said):
    """Runs one statement after a campaign's first cycle."""

    def __init__(self, here: Bench, statement: str, *values: object) -> None:
        super().__init__()
        self._here, self._statement, self._values = here, statement, values
        self._done = False

    def phase(self, phase: Phase, detail: str) -> None:
        super().phase(phase, detail)
        if phase is Phase.CAMPAIGN and not self._done:
            self._done = True
            self._here.execute(self._statement, *self._values)


def first_row(here: Bench) -> str:
    """Return the condition that only the first row of the table meets."""
    return f"id = (select min(id) from {here.table})"


@pytest.mark.wide
def test_a_row_that_stays_changed_is_one_loss(here: Bench, tmp_path: Path) -> None:
    chosen = plan(cuts=4, keep_going=True)
    folder = CampaignFolder.create(tmp_path / "campaign", chosen)
    change = f"update {here.table} set payload = %s where {first_row(here)}"
    spoiler = Once(here, change, b"spoilt")  # as a bad drive might
    shown = run_campaign(replace(here.rig, listener=spoiler), folder)
    assert verdicts(folder) == ["PASS", "FAIL", "PASS", "PASS"]
    assert (shown.losses, shown.cuts) == (1, 4)


def test_what_changes_between_two_cycles_ends_it(here: Bench, tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=2))
    thief = Once(here, f"delete from {here.table} where {first_row(here)}")
    rig = replace(here.rig, listener=thief)
    for _ in range(2):  # it stays so when the campaign is resumed
        with refused(
            ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming=("ledger", "at least 1")
        ):
            run_campaign(rig, folder)
    with bench(HONEST, tmp_path / "other") as other:
        led_there = with_node(rig, engine=other.rig.site.writer.engine)
        with refused(ErrorId.TARGET_CHANGED, TargetChanged):
            run_campaign(led_there, folder)
        assert not other.execute("select 1 from pg_namespace where nspname = 'dbcheck'")
    assert verdicts(folder) == ["PASS"]
    assert len(list(folder.runs.iterdir())) == 1
    shown = make_result(folder)
    assert (shown.verdict, shown.finished) == (Verdict.INCONCLUSIVE, False)


def test_cuts_under_two_configurations_are_not_counted_together(
    tmp_path: Path,
) -> None:
    name = "full_page_writes"
    with bench(process_lab("postgresql"), tmp_path) as here:
        folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=2))

        def switch(to: str) -> None:
            here.execute(f"alter system set {name} = {to}")
            here.execute("select pg_reload_conf()")
            wait_until(lambda: here.execute(f"show {name}") == [(to,)], "it is so")

        class Switching(Said):
            def phase(self, phase: Phase, detail: str) -> None:
                super().phase(phase, detail)
                if phase is Phase.CAMPAIGN:
                    switch("off")

        rig = replace(here.rig, listener=Switching())
        with refused(
            ErrorId.CONFIGURATION_CHANGED,
            TargetChanged,
            naming=f"{name} was on and is off",
        ) as caught:
            run_campaign(rig, folder)
        assert caught.value.id is ErrorId.CONFIGURATION_CHANGED
        assert counts(to_values(make_result(folder))) == (1, 0)
        assert make_result(folder).verdict is Verdict.INCONCLUSIVE
        switch("on")
        assert run_campaign(here.rig, folder).cuts == 2
        switch("off")
        other = CampaignFolder.create(tmp_path / "other", plan(cuts=2))
        assert run_campaign(here.rig, other).cuts == 2


def test_controls_come_first_and_once(here: Bench, tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=1, control=True))
    assert run_campaign(here.rig, folder).cuts == 1
    first, *_, last = folder.cycles()
    assert (first.number, last.number) == (0, 1)
    assert first.control is not None
    assert last.verdict is CycleVerdict.PASS
    assert len(folder.cycles()) == len(list(folder.runs.iterdir()))


class Clumsy:
    """A switch that fails the first time it is asked to *fail*."""

    attended = False

    def __init__(self, real: PowerSwitch, fail: str) -> None:
        self.real, self.kind, self.fail = real, real.kind, fail
        self.cut_class = real.cut_class

    def state(self) -> PowerState:
        return self.real.state()

    def cut(self) -> Cut:
        self._fail("cut")
        return self.real.cut()

    def restore(self) -> None:
        self._fail("restore")
        self.real.restore()

    def failure(self) -> str | None:
        return self.real.failure()

    def _fail(self, what: str) -> None:
        if self.fail == what:
            self.fail = ""
            raise PowerError(f"the {what} failed", id=ErrorId.POWER_COMMAND_FAILED)


@pytest.mark.wide
@pytest.mark.parametrize("what", ["cut", "restore"])
def test_a_switch_that_fails_once(here: Bench, tmp_path: Path, what: str) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=2))
    rig = with_node(here.rig, power=Clumsy(here.rig.site.writer.power, what))
    assert run_campaign(rig, folder).cuts == 2
    first = folder.cycles()[0]
    assert first.settled
    # A power that never went proves nothing; one that came back late still does.
    assert first.verdict.value == ("INCONCLUSIVE" if what == "cut" else "PASS")
    assert f"the {what} failed" in here.said.text


def test_a_client_that_ended_before_its_processes_began_holds_nothing_up(
    here: Bench, tmp_path: Path
) -> None:
    """Of the logs that the manifest announces there is only the first."""
    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=1))
    shared = replace(folder.plan().workload, processes=2)
    first = PlannedCut(1, Activity.STEADY, 1.0, 0.0)
    left = run_preflight(
        *(replace(here.rig, runs=folder.runs), shared),
        seed=folder.plan().seed + first.number,
        moment=first,
    )
    left.log.close()
    end_canaries(here.rig.site, left.canaries)
    assert run_campaign(here.rig, folder).cuts == 1
    assert verdicts(folder) == ["ERROR", "PASS"]


@pytest.mark.wide
def test_cycles_that_prove_nothing_end_it(here: Bench, tmp_path: Path) -> None:
    """A switch that only pretends: the server is never gone."""

    class Dead(Clumsy):
        def cut(self) -> Cut:
            raise PowerError("no answer", id=ErrorId.POWER_COMMAND_FAILED)

    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=1, cycles_max=99))
    rig = with_node(here.rig, power=Dead(here.rig.site.writer.power, ""))
    with refused(ErrorId.CYCLES_PROVE_NOTHING, naming="2 cycles"):
        run_campaign(rig, folder)
    assert len(folder.cycles()) == 2
    first, _ = folder.cycles()
    assert f"1: INCONCLUSIVE, does not count: {first.reason}" in here.said.text
    # Another client looks for itself whether anything was mended.
    with refused(ErrorId.CYCLES_PROVE_NOTHING, naming="2 cycles"):
        run_campaign(rig, folder)
    assert len(folder.cycles()) == 4
    assert run_campaign(here.rig, folder).cuts == 1
    assert len(folder.cycles()) == 5


def test_what_fails_before_the_first_load_ends_it_as_it_ends_a_run(
    here: Bench, tmp_path: Path
) -> None:
    """Somebody else's table is in the way: both say it, and what to do, once."""
    here.execute("create schema dbcheck")
    here.execute(f"create table {here.table} (id int)")
    shell = Shell(tmp_path, {here.lab.name: describe_as_host(here.lab)})
    folder = tmp_path / "campaign"
    words = (here.lab.name, "--cuts", "2", "--folder", str(folder))
    ended = shell.run(*words, code=4)
    ran = shell.run(here.lab.name, verb="run", code=4)
    refusal = ran[ran.index("dbcheck: ") :]
    assert len(refusal.splitlines()) > 1  # with its hint
    assert ended.endswith(refusal)
    assert not CampaignFolder.open(folder).cycles()


def test_one_client_at_a_time(here: Bench, tmp_path: Path) -> None:
    host = describe_as_host(here.lab)
    made = plan(name=here.lab.name, target=host["dbcheck_target"])
    folder = CampaignFolder.create(tmp_path / "campaign", made)
    with folder.locked():
        shell = Shell(tmp_path, {here.lab.name: host})
        said = shell.run("--resume", str(folder.path), code=4)
    assert "another dbcheck is using" in said
    assert " ended " not in said
    assert not (folder.path / ERROR_FILE).exists()
    with refused(ErrorId.CAMPAIGN_EXISTS, UsageError):
        CampaignFolder.create(folder.path, plan())
    with refused(ErrorId.NOT_A_CAMPAIGN_FOLDER, UsageError):
        CampaignFolder.open(tmp_path / "none")


class Shell:
    """dbcheck campaign as people start it, with loads that are soon over."""

    def __init__(self, folder: Path, hosts: Mapping[str, Any]) -> None:
        self.inventory = folder / "inventory.yml"
        common = {"dbcheck_workload": str(write_quick(folder))}
        listed = {"all": {"hosts": hosts, "vars": common}}
        self.inventory.write_text(json.dumps(listed))

    def start(self, *words: str, verb: str = "campaign") -> subprocess.Popen[bytes]:
        """Start it; what it says on the way is in its stderr."""
        command = [sys.executable, "-m", "dbcheck", verb, *words]
        command += ["--inventory", str(self.inventory), "--json"]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1)

    def run(self, *words: str, code: int = 0, verb: str = "campaign") -> Any:
        """Run it to its end; return what it prints."""
        with self.start(*words, verb=verb) as child:
            out, err = child.communicate(timeout=280)
        assert child.returncode == code, err
        return json.loads(out) if out else err.decode()


def kill_at(child: subprocess.Popen[bytes], title: bytes, number: int) -> None:
    """Send *number* once the client has said *title*, and wait for its end."""
    assert child.stderr is not None
    with child:
        for line in child.stderr:
            if line.strip().startswith(title):
                break
        else:
            pytest.fail(f"it ended without {title!r}")
        child.send_signal(number)
        child.communicate(timeout=60)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("end", "titles", "flags"),
    [
        (signal.SIGKILL, (b"preflight", b"load", b"cut", b"read survivors"), []),
        (signal.SIGINT, (b"load", b"restore"), []),
        (signal.SIGKILL, (b"load", b"cut", b"judge"), ["--control"]),
        (signal.SIGINT, (b"control", b"restore"), ["--control"]),
    ],
    ids=["SIGKILL", "SIGINT", "SIGKILL in a control", "SIGINT in a control"],
)
def test_it_goes_on_wherever_its_client_ended(
    here: Bench,
    tmp_path: Path,
    end: signal.Signals,
    titles: tuple[bytes, ...],
    flags: list[str],
) -> None:
    """Nothing is lost, no cut is counted twice, and the power comes back."""
    shell = Shell(tmp_path, {here.lab.name: describe_as_host(here.lab)})
    folder = str(tmp_path / "campaign")
    words = [here.lab.name, "--cuts", "2", "--seed", "3", "--folder", folder, *flags]
    for title in titles:
        kill_at(shell.start(*words), title, end)
        words = ["--resume", folder]
    ((shown),) = shell.run(*words)["targets"]
    cycles = shown["cycles"]
    assert (shown["verdict"], counts(shown)) == ("PASS", (2, 0))
    assert {cycle["verdict"] for cycle in cycles} <= {"PASS", "INCONCLUSIVE", "ERROR"}
    assert any(cycle["settled"] for cycle in cycles)
    runs = [cycle["run"] for cycle in cycles if cycle["run"]]
    assert len(set(runs)) == len(runs)
    assert set(runs) == {path.name for path in Path(folder, "runs").iterdir()}
    assert here.rig.site.writer.power.state() is PowerState.ON
    over = shell.run("--resume", folder)["targets"][0]
    assert over["cycles"] == cycles


@pytest.mark.wide
def test_one_failing_rig_does_not_disturb_the_others(
    here: Bench, tmp_path: Path
) -> None:
    known = describe_as_host(here.lab)
    broken = {
        **known,
        "dbcheck_target": "postgresql://dbcheck@127.0.0.1/none",
        "dbcheck_witness": known["dbcheck_witness"] + "/broken",
        "dbcheck_power_lab": "none",
    }
    priced = {"dbcheck_price": 100}
    shell = Shell(tmp_path, {here.lab.name: known | priced, "broken": broken | priced})
    folder = tmp_path / "both"
    words = [here.lab.name, "broken", "--cuts", "1", "--folder", str(folder)]
    good, bad = shell.run(*words, code=4)["targets"]
    assert (good["name"], good["verdict"], good["error"]) == (here.lab.name, "PASS", "")
    assert (bad["verdict"], counts(bad)) == ("INCONCLUSIVE", (0, 0))
    price = "price_per_durable_commit_per_s"
    assert good[price] == pytest.approx(100 / good["commits_per_s"])
    assert (bad["price"], bad[price]) == (100, None)
    assert "none" in bad["error"]
    assert (good["error_id"], bad["error_id"]) == ("", "lab-not-running")
    assert bad["error"] in (folder / "broken" / "progress.log").read_text()


def test_another_target_or_switch_is_not_cut_by_an_old_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = plan(name="db", target="postgresql://u@db1/x")
    folder = str(CampaignFolder.create(tmp_path / "campaign", made).path)
    host = {
        "dbcheck_target": made.target,
        "dbcheck_witness": "ssh://w/l",
        "dbcheck_power": "exec",
        "dbcheck_power_cut": ["pdu", "cut", "7"],
    }
    shell = Shell(tmp_path, {"db": host})
    assert "No earlier cut of db by this switch" in shell.run(
        "--resume", folder, code=2
    )
    shell = Shell(tmp_path, {"db": {**host, "dbcheck_target": "postgresql://u@db2/x"}})
    said = shell.run("--resume", folder, "--yes", code=2)
    assert "is a campaign on postgresql://u@db1/x" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param([], "no target is named", id="nothing"),
        pytest.param(["by-hand"], "either --cuts or --until", id="no goal"),
        pytest.param(
            ["by-hand", "--cuts", "1", "--until", "0.1"], "either", id="two goals"
        ),
        pytest.param(["x", "x", "--cuts", "1"], "twice", id="one twice"),
        pytest.param(["x", "--cuts", "1"], "x", id="not in the inventory"),
        pytest.param(["by-hand", "--cuts", "1"], "terminal-needed", id="manual"),
        pytest.param(["--resume", "none"], "holds no campaign", id="none there"),
        pytest.param(["x", "--resume", "none"], "that it was started with", id="both"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, words: list[str], said: str
) -> None:
    host = {"dbcheck_target": "postgresql://db1/x", "dbcheck_witness": "ssh://w/l"}
    shell = Shell(tmp_path, {"by-hand": host})
    before = set(Path().iterdir())
    assert said in shell.run(*words, code=2)
    assert set(Path().iterdir()) == before
