"""The steps of a go-live check: which are done, kept, repeated, and where it stops."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    HostError,
    PowerError,
    RunFormatError,
    RunWriteError,
    TargetChanged,
    UsageError,
)
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.totals import make_result
from dbcheck.inventory.entry import Entry
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.cut import PowerState
from dbcheck.model.golive import GoLiveResult, StepId, StepResult, StepStatus
from dbcheck.model.verdict import ControlFacts, ControlOutcome, CycleVerdict, Verdict
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.runner import assemble, campaign_run, golive
from dbcheck.runner.golive import PAGE, GoLive, Guide, require_same_target
from dbcheck.runner.golive_folder import GoLiveFolder, GoLivePlan, StepRecord
from dbcheck.runner.golive_records import describe_paper
from dbcheck.runner.golive_setup import (
    find_changes,
    list_shown_facts,
    list_wiring,
    read_setup,
)
from dbcheck.runner.golive_steps import Check, Found, run_cuts
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from tests.kit.refusals import refused
from tests.kit.rigs import plan as campaign_plan
from tests.kit.samples import MANIFEST

ENTRY = Entry(
    name="db1",
    target="postgresql://u@db1/x",
    witness="ssh://w/~/x",
    power=ExecConfig(cut=("pdu", "off")),
    inventory="/etc/inventory.yml",
)
SETUP = {
    "identity system_identifier": "7",
    "server": "PostgreSQL 15.18",
    "setting fsync": "on",
    "host": "db1",
    "kernel": "6.1.0",
    "drives of data": "model A",
}
FIRST_CYCLE = Cycle(1, "", "steady", 1.0, CycleVerdict.PASS, "it is there", "")
CONTROL = Cycle(
    *(0, "c", "steady", 1.0, CycleVerdict.INCONCLUSIVE, "a control", ""),
    control=ControlFacts("c", ControlOutcome.LOST, "it lost rows"),
)
NO_LOSS = Found("no loss")
CUTS = 3


@dataclass
class Desk:
    """A check whose steps are played, and what was done of it.

    found:  what a step finds; a step that is not named finds nothing wrong.
    during: called in the midst of a step, before its result.
    """

    folder: GoLiveFolder
    entry: Entry = ENTRY
    setup: dict[str, str] = field(default_factory=lambda: dict(SETUP))
    found: dict[StepId, Found] = field(default_factory=dict)
    during: dict[StepId, Callable[[], None]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    kept: list[StepId] = field(default_factory=list)
    repeated: list[StepId] = field(default_factory=list)
    ended: list[StepResult] = field(default_factory=list)
    agrees: bool | None = True
    cuts: int = CUTS
    control: bool = True
    may_cut: list[bool] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    state: PowerState = PowerState.OFF

    @property
    def switch(self) -> SimpleNamespace:
        """The switch, which shows when it restores the power."""
        return SimpleNamespace(
            state=lambda: self.state, restore=lambda: self.done.append("on")
        )

    def run(self) -> GoLiveResult:
        """Run it as a new client."""
        for each in (self.done, self.kept, self.repeated, self.ended):
            each.clear()
        guide = Guide(
            begin=lambda step: None,
            end=self.ended.append,
            keep=lambda result: self.kept.append(result.step),
            repeat=lambda step, changes: self.repeated.append(step),
            agree=lambda check: self.agrees,
        )
        return GoLive(self.check, guide).run()

    @property
    def check(self) -> Check:
        return Check(
            entry=self.entry,
            folder=self.folder,
            plan=self.folder.plan(),
            yes=False,
            i_know=False,
            accept_new_key=False,
            as_json=True,
            show=self.said.append,
            resume="dbcheck golive --resume x",
        )

    def read_setup(self, entry: Entry) -> dict[str, str]:
        if "setup" not in self.done:  # it is read after each cut, too
            self.done.append("setup")
        return {**list_wiring(entry), **self.setup}

    def play(self, step: StepId) -> Found:
        self.done.append(step.value)
        if act := self.during.get(step):
            act()
        return self.found.get(step, Found("all is well"))

    def write_papers(self, check: Check, folder: str) -> Found:
        found = self.play(StepId.PAPERS)
        file = check.folder.path / f"{folder}.html"
        file.write_text("a report")
        return replace(found, papers=(describe_paper(file, "the report"),))

    def cut(self, check: Check, step: StepId, name: str, *, is_resumed: bool) -> Found:
        path, cuts = check.folder.path / name, self.cuts
        if step is StepId.FIRST_CUT:
            cuts = 1
        if not is_resumed:
            made = campaign_plan(cuts=cuts, target=ENTRY.target)
            CampaignFolder.create(path, made)
        self.done.append(f"{name}{' again' if is_resumed else ''}")
        if act := self.during.get(step):
            act()
        folder, found = CampaignFolder.open(path), self.found.get(step, NO_LOSS)
        if step is StepId.FIRST_CUT and self.control:
            folder.add(CONTROL)
        verdict = CycleVerdict(found.verdict.value)
        for number in range(1, cuts + 1):
            folder.add(replace(FIRST_CYCLE, number=number, verdict=verdict))
        return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    plan = GoLivePlan(
        created="2026-01-02T03:04:05+00:00",
        dbcheck="0",
        name="db1",
        target=ENTRY.target,
        inventory=ENTRY.inventory,
        cuts=CUTS,
        bound_ppm=None,
        control=True,
        seed=7,
    )
    desk = Desk(GoLiveFolder.create(tmp_path / "check", plan))
    steps = {step: lambda check, step=step: desk.play(step) for step in StepId}
    monkeypatch.setattr(golive, "STEPS", steps)
    monkeypatch.setattr(golive, "read_setup", lambda entry: desk.read_setup(entry))
    monkeypatch.setattr(golive, "run_cuts", desk.cut)
    monkeypatch.setattr(golive, "write_papers", desk.write_papers)
    monkeypatch.setattr(
        campaign_run, "require_fit", lambda entry, yes, i_know: desk.may_cut.append(yes)
    )
    monkeypatch.setattr(golive, "_await_server", lambda entry: None)
    monkeypatch.setattr(assemble, "make_scoped_switch", lambda entry, show: desk.switch)
    return desk


ALL = [
    *("setup", "witness", "audit", "flushes", "power"),
    *("first-cut", "campaign", "papers"),
]


def test_all_steps_are_done_once_and_in_their_order(desk: Desk) -> None:
    result = desk.run()
    assert (desk.done, desk.kept) == (ALL, [])
    assert result.verdict is Verdict.PASS
    assert result.next_step is None
    assert "Sign-off" in (desk.folder.path / PAGE).read_text("utf-8")
    again = desk.run()
    assert (desk.done, desk.kept) == (["setup"], list(StepId))
    assert again == result


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE])
@pytest.mark.parametrize("step", [StepId.AUDIT, StepId.FLUSHES])
def test_it_stops_where_something_is_wrong_and_goes_on_from_there(
    desk: Desk, step: StepId, verdict: Verdict
) -> None:
    desk.found[step] = Found("fsync is off", verdict=verdict, fix="Set it to on.")
    result = desk.run()
    before = ALL[: ALL.index(step.value) + 1]
    assert (desk.done, result.verdict) == (before, verdict)
    assert result.next_step is not None
    assert (result.next_step.step, result.next_step.fix) == (step, "Set it to on.")
    page = (desk.folder.path / PAGE).read_text("utf-8")
    assert "Set it to on." in page
    assert "Not to be signed" in page

    del desk.found[step]
    assert desk.run().verdict is Verdict.PASS
    assert desk.done == ["setup", *ALL[ALL.index(step.value) :]]


def test_an_error_is_stored_with_its_fix(desk: Desk) -> None:
    def fail() -> None:
        raise HostError("no answer", id=ErrorId.HOST_UNREACHABLE, hint="Look there.")

    desk.during[StepId.FLUSHES] = fail
    with refused(ErrorId.HOST_UNREACHABLE, HostError):
        desk.run()
    stopped = golive.make_golive_result(desk.check).next_step
    assert stopped is not None
    assert (stopped.step, stopped.status) == (StepId.FLUSHES, StepStatus.STOPPED)
    assert (stopped.error_id, stopped.fix) == ("host-unreachable", "Look there.")
    assert "no answer" in (desk.folder.path / PAGE).read_text("utf-8")


def test_a_step_that_is_left_out_is_over(desk: Desk) -> None:
    text = "flushes were not counted"
    desk.found[StepId.FLUSHES] = Found(text, to_accept=(text,), left_out=True)
    result = desk.run()
    assert result.verdict is Verdict.PASS
    assert result.to_accept == (text,)
    assert text in (desk.folder.path / PAGE).read_text("utf-8")
    desk.run()
    assert desk.done == ["setup"]


OF_THE_SERVER = ["audit", "flushes", "first-cut-2", "campaign-2", "papers"]


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ({"server": "PostgreSQL 15.19"}, OF_THE_SERVER),
        ({"setting fsync": "off"}, OF_THE_SERVER),
        ({"kernel": "6.12.0"}, OF_THE_SERVER),
        (
            {"drives of data": "model B"},
            [*OF_THE_SERVER[:2], "power", *OF_THE_SERVER[2:]],
        ),
        ({"something new": "x"}, []),
        ({"identity server_version_num": "150019"}, []),
    ],
    ids=["version", "setting", "kernel", "drive", "not known before", "no data"],
)
def test_a_step_is_repeated_once_what_it_depends_on_changed(
    desk: Desk, changed: dict[str, str], again: list[str]
) -> None:
    desk.run()
    desk.setup |= changed
    assert desk.run().verdict is Verdict.PASS
    assert desk.done == ["setup", *again]
    desk.run()
    assert desk.done == ["setup"]


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (
            {"witness": "ssh://other/~/x"},
            ["witness", "first-cut-2", "campaign-2", "papers"],
        ),
        (
            {"power": ExecConfig(cut=("pdu", "off", "7"))},
            ["power", "first-cut-2", "campaign-2", "papers"],
        ),
    ],
    ids=["witness", "switch"],
)
def test_what_the_inventory_says_counts_too(
    desk: Desk, changed: dict[str, object], again: list[str]
) -> None:
    desk.run()
    desk.entry = replace(ENTRY, **changed)  # type: ignore[arg-type]
    desk.run()
    assert desk.done == ["setup", *again]


def test_other_data_are_another_server(desk: Desk) -> None:
    desk.run()
    desk.setup["identity system_identifier"] = "8"
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="system_identifier"):
        desk.run()
    assert desk.done == ["setup"]


def leave(desk: Desk, folder: str) -> Callable[[], None]:
    """Return a function that leaves a campaign in the midst of a cut."""

    def left() -> None:
        runs = CampaignFolder.open(desk.folder.path / folder).runs
        RunFolder.create(runs, MANIFEST)
        raise KeyboardInterrupt

    return left


@pytest.mark.parametrize(
    ("kernel", "again"),
    [
        (SETUP["kernel"], ["campaign", "papers"]),
        ("6.12.0", ["audit", "flushes", "first-cut-2", "campaign", "papers"]),
    ],
    ids=["same", "changed meanwhile"],
)
def test_a_campaign_in_the_midst_of_a_cut_is_continued_before_anything_is_asked(
    desk: Desk, kernel: str, again: list[str]
) -> None:
    """Its server may be without power."""
    desk.during[StepId.FIRST_CUT] = leave(desk, "first-cut")
    with pytest.raises(KeyboardInterrupt):
        desk.run()
    runs = CampaignFolder.open(desk.folder.path / "first-cut").runs

    def settle() -> None:
        for path in runs.iterdir():
            (path / "manifest.json").unlink(missing_ok=True)

    desk.during[StepId.FIRST_CUT] = settle
    desk.setup["kernel"] = kernel
    assert desk.run().verdict is Verdict.PASS
    assert desk.done == ["first-cut again", "setup", *again]


def test_a_power_test_that_was_left_has_its_power_restored_first(desk: Desk) -> None:
    def leave_off() -> None:
        raise KeyboardInterrupt

    desk.during[StepId.POWER] = leave_off
    with pytest.raises(KeyboardInterrupt):
        desk.run()
    del desk.during[StepId.POWER]
    desk.run()
    assert desk.done[:3] == ["on", "setup", "power"]


def leave_power_test(desk: Desk, error: BaseException) -> None:
    """Have a client end in the power test."""

    def end() -> None:
        raise error

    desk.during[StepId.POWER] = end
    with pytest.raises(type(error)):
        desk.run()
    del desk.during[StepId.POWER]


def test_a_power_test_restores_no_other_host(desk: Desk) -> None:
    """Somebody may work at a host that is off."""
    leave_power_test(desk, KeyboardInterrupt())
    desk.entry = replace(ENTRY, power=ExecConfig(cut=("pdu", "off", "7")))
    desk.run()
    assert "on" not in desk.done
    assert "another switch" in desk.said[0]


def test_a_power_test_that_cut_nothing_has_nothing_to_restore(desk: Desk) -> None:
    refusal = UsageError("no consent", id=ErrorId.FIRST_CUT_NEEDS_CONSENT)
    leave_power_test(desk, refusal)
    desk.run()
    assert desk.done[:2] == ["setup", "power"]


def test_a_switch_without_a_state_is_named_after_a_power_test_that_was_left(
    desk: Desk,
) -> None:
    leave_power_test(desk, KeyboardInterrupt())
    desk.state = PowerState.UNKNOWN
    desk.run()
    assert "on" not in desk.done
    assert "dbcheck power restore db1 --inventory" in desk.said[0]


def test_a_loss_is_not_taken_back(desk: Desk) -> None:
    desk.found[StepId.FIRST_CUT] = Found("3 rows are lost", verdict=Verdict.FAIL)
    result = desk.run()
    assert (result.verdict, desk.done[-2:]) == (Verdict.FAIL, ["first-cut", "papers"])
    desk.found.clear()
    desk.setup["kernel"] = "6.12.0"
    assert desk.run() == result
    assert not desk.done


def test_cuts_that_do_not_count_are_made_anew(desk: Desk) -> None:
    desk.found[StepId.FIRST_CUT] = Found("no cut counts", verdict=Verdict.INCONCLUSIVE)
    assert desk.run().verdict is Verdict.INCONCLUSIVE
    folder = CampaignFolder.open(desk.folder.path / "first-cut")
    for number in range(1, folder.plan().cycles_max + 1):
        done = replace(FIRST_CYCLE, number=number, verdict=CycleVerdict.INCONCLUSIVE)
        folder.add(done)
    desk.found.clear()
    assert desk.run().verdict is Verdict.PASS
    assert desk.done == ["setup", "first-cut-2", "campaign", "papers"]


def test_nothing_is_cut_without_consent(desk: Desk) -> None:
    desk.agrees = False
    with refused(ErrorId.FIRST_CUT_NEEDS_CONSENT, UsageError):
        desk.run()
    assert desk.done == ALL[: ALL.index("power")]
    assert golive.make_golive_result(desk.check).verdict is Verdict.INCONCLUSIVE


def test_the_inventory_must_name_the_same_server(desk: Desk) -> None:
    require_same_target(ENTRY, desk.check)
    other = replace(ENTRY, target="postgresql://u@db2/x")
    with refused(ErrorId.GOLIVE_OF_OTHER_TARGET, UsageError, naming="db2"):
        require_same_target(other, desk.check)


def test_a_folder_is_used_once_and_has_to_hold_a_check(
    desk: Desk, tmp_path: Path
) -> None:
    with refused(ErrorId.GOLIVE_EXISTS, UsageError):
        GoLiveFolder.create(desk.folder.path, desk.folder.plan())
    with refused(ErrorId.NOT_A_GOLIVE_FOLDER, UsageError):
        GoLiveFolder.open(tmp_path)


def test_a_change_names_what_it_was_and_is() -> None:
    before = {"setting fsync": "on", "switch": "a", "kernel": "6.1"}
    now = {"setting fsync": "", "switch": "b", "kernel": "6.1"}
    setting, switch = find_changes(StepId.CAMPAIGN, before, now)
    assert "fsync was on and is (empty)" in setting
    assert "switch" in switch
    assert find_changes(StepId.WITNESS, before, now) == []
    assert find_changes(StepId.CAMPAIGN, {}, now) == []


def test_the_places_of_a_single_filesystem_are_not_listed() -> None:
    one = {"filesystem of WAL, data": "xfs", "drives of WAL, data": "A", "switch": "x"}
    assert list_shown_facts(one) == {"filesystem": "xfs", "drives": "A"}
    two = {"drives of WAL": "A", "drives of data": "B"}
    assert list_shown_facts(two) == two


@pytest.mark.parametrize("answer", [True, None])
def test_only_a_person_who_was_asked_agrees(desk: Desk, answer: bool | None) -> None:
    """Without a terminal, the first cut of a host needs --yes."""
    desk.agrees = answer
    desk.run()
    assert desk.may_cut == [bool(answer)]


def test_a_change_is_on_the_page_before_anything_is_repeated(desk: Desk) -> None:
    assert desk.run().verdict is Verdict.PASS
    desk.setup["drives of data"] = "model B"
    desk.agrees = False
    with refused(ErrorId.FIRST_CUT_NEEDS_CONSENT, UsageError):
        desk.run()
    page = (desk.folder.path / PAGE).read_text("utf-8")
    assert "Not to be signed" in page
    assert "drives of data was model A and is model B" in page
    assert golive.make_golive_result(desk.check).verdict is Verdict.INCONCLUSIVE
    # What is then the same as at first is no proof either.
    desk.setup["drives of data"] = "model A"
    desk.agrees = True
    desk.run()
    assert desk.done[-2:] == ["campaign-2", "papers"]


def test_a_client_that_is_killed_leaves_no_page_that_could_be_signed(
    desk: Desk,
) -> None:
    desk.run()
    desk.setup["kernel"] = "6.12.0"
    pages = []
    page = desk.folder.path / PAGE
    desk.during[StepId.AUDIT] = lambda: pages.append(page.read_text("utf-8"))
    desk.run()
    assert ["Not to be signed" in text for text in pages] == [True]


def test_a_loss_counts_although_its_client_did_not_store_the_step(desk: Desk) -> None:
    def lose() -> None:
        folder = CampaignFolder.open(desk.folder.path / "campaign")
        folder.add(replace(FIRST_CYCLE, verdict=CycleVerdict.FAIL))
        raise SystemExit  # as a client that is killed: the step is not stored

    desk.during[StepId.CAMPAIGN] = lose
    with pytest.raises(SystemExit):
        desk.run()
    assert golive.make_golive_result(desk.check).verdict is Verdict.FAIL
    desk.during.clear()
    desk.setup["kernel"] = "6.12.0"
    desk.found[StepId.CAMPAIGN] = Found("a row is lost", verdict=Verdict.FAIL)
    result = desk.run()
    assert (result.verdict, desk.done) == (Verdict.FAIL, ["campaign again", "papers"])
    assert [*desk.folder.path.glob("campaign-*")] == []


def test_what_a_boot_changed_is_checked_again(desk: Desk) -> None:
    def boot() -> None:
        desk.setup["kernel"] = "6.12.0"

    desk.during[StepId.POWER] = boot
    result = desk.run()
    assert result.verdict is Verdict.PASS
    repeated = ["audit", "flushes", "first-cut", "campaign", "papers"]
    assert desk.done == [*ALL[: ALL.index("power") + 1], *repeated]
    assert result.subject["kernel"] == "6.12.0"


def test_what_changes_at_each_boot_does_not_pass(desk: Desk) -> None:
    def boot() -> None:
        desk.setup["kernel"] += "1"

    desk.during[StepId.POWER] = desk.during[StepId.FIRST_CUT] = boot
    result = desk.run()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.next_step is not None
    assert "kernel was" in result.next_step.summary


def test_a_log_that_moved_to_another_drive_is_noticed(desk: Desk) -> None:
    desk.setup["drives of WAL, data"] = desk.setup.pop("drives of data")
    desk.run()
    desk.setup["drives of data"] = desk.setup.pop("drives of WAL, data")
    desk.run()
    assert desk.done == ["setup"]
    desk.setup["drives of WAL"] = "model B"
    desk.run()
    assert desk.done[1:3] == ["audit", "flushes"]


def remove_plan(path: Path) -> None:
    (path / "campaign" / "campaign.json").unlink()


def remove_cycle(path: Path) -> None:
    (path / "campaign" / "cycles" / "0003.json").unlink()


def remove_control(path: Path) -> None:
    (path / "first-cut" / "cycles" / "0000-c.json").unlink()


def swap_campaigns(path: Path) -> None:
    shutil.rmtree(path / "campaign")
    shutil.copytree(path / "first-cut", path / "campaign")


def edit_report(path: Path) -> None:
    (path / "campaign.html").write_text("all is well")


@pytest.mark.parametrize(
    ("harm", "again"),
    [
        (remove_plan, ["campaign-2", "papers"]),
        (remove_cycle, ["campaign-2", "papers"]),
        (remove_control, ["first-cut-2", "papers"]),
        (swap_campaigns, ["campaign-2", "papers"]),
        (edit_report, ["papers"]),
    ],
)
def test_a_step_whose_proof_is_gone_is_repeated(
    desk: Desk, harm: Callable[[Path], None], again: list[str]
) -> None:
    assert desk.run().verdict is Verdict.PASS
    harm(desk.folder.path)
    assert golive.make_golive_result(desk.check).verdict is Verdict.INCONCLUSIVE
    assert desk.run().verdict is Verdict.PASS
    assert desk.done == ["setup", *again]


def test_a_step_file_of_another_step_is_refused(desk: Desk) -> None:
    desk.run()
    steps = desk.folder.path / "steps"
    shutil.copy(steps / "audit.json", steps / "campaign.json")
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="audit"):
        desk.run()
    assert not (desk.folder.path / PAGE).exists()  # what it said cannot be shown
    with pytest.raises(ValueError, match="no campaign"):
        StepRecord(StepResult(StepId.CAMPAIGN, StepStatus.DONE, ""), folder="../other")


def test_a_full_disk_does_not_hide_what_stopped_a_step(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run()
    (desk.folder.path / "steps" / "power.json").unlink()

    def fail() -> None:
        def refuse(*given: object) -> None:
            raise RunWriteError("it is full", id=ErrorId.FOLDER_NOT_WRITABLE)

        monkeypatch.setattr(stored, "write_file", refuse)
        raise PowerError("the power may still be off", id=ErrorId.HOST_NOT_BACK)

    desk.during[StepId.POWER] = fail
    with refused(ErrorId.HOST_NOT_BACK, PowerError):
        desk.run()
    assert not (desk.folder.path / PAGE).exists()  # it could be signed


def test_a_setting_of_one_role_is_compared_and_unknown_ones_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored_settings = {"synchronous_commit": "off", "app.token": "s3cret"}
    engine = SimpleNamespace(
        facts=lambda: SimpleNamespace(
            **{"product": "PostgreSQL", "version": "15", "identity": {}},
            settings={"synchronous_commit": "on"},
        ),
        other_settings=lambda: [ScopedSettings("role app", "", stored_settings)],
    )
    monkeypatch.setattr(assemble, "make_engine", lambda *given: engine)
    monkeypatch.setattr(assemble, "make_host", lambda entry: None)
    setup = read_setup(ENTRY)
    assert "s3cret" not in str(setup)
    stored_settings["synchronous_commit"] = "local"
    (change,) = find_changes(StepId.CAMPAIGN, setup, read_setup(ENTRY))
    assert "role app: synchronous_commit = local" in change


def test_a_loss_is_a_fail_although_its_report_cannot_be_written(desk: Desk) -> None:
    def fail() -> None:
        raise RunWriteError("it is full", id=ErrorId.FOLDER_NOT_WRITABLE)

    desk.found[StepId.FIRST_CUT] = Found("3 rows are lost", verdict=Verdict.FAIL)
    desk.during[StepId.PAPERS] = fail
    result = desk.run()
    assert (result.verdict, result.papers) == (Verdict.FAIL, ())
    assert "it is full" in desk.said[0]
    del desk.during[StepId.PAPERS]
    (paper,) = desk.run().papers
    assert paper.file == "first-cut.html"
    assert desk.done == ["papers"]


def test_a_campaign_is_told_by_its_bound_and_what_it_leaves_open(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_run, "require_same", lambda *given, **more: None)
    monkeypatch.setattr(
        campaign_run, "run_one", lambda entry, folder, **more: [make_result(folder)]
    )
    made = campaign_plan(cuts=2, target=ENTRY.target)
    folder = CampaignFolder.create(desk.folder.path / "campaign", made)
    folder.add(replace(FIRST_CYCLE, depth="OS", despite=("warning some-rule: x",)))
    folder.add(replace(FIRST_CYCLE, number=2, depth="DRIVE"))
    found = run_cuts(desk.check, StepId.CAMPAIGN, "campaign", is_resumed=True)
    assert "no loss in 2 cuts (1 at DRIVE depth, 1 at OS depth)" in found.summary
    alarm, depth = found.to_accept
    assert alarm == "audit, warning some-rule: x"
    assert depth.startswith("campaign: 1 of 2 cuts, at OS depth, proves nothing")
