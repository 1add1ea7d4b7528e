"""What a go-live check must not call done, or ready: stale, unproven, unasked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, RunFormatError, RunWriteError, UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.golive import StepId, StepResult, StepStatus
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.runner import assemble, campaign_run, golive
from dbcheck.runner.golive_folder import PAGE, GoLiveFolder, StepRecord
from dbcheck.runner.golive_setup import find_changes, read_setup
from dbcheck.runner.golive_steps import Found, run_cuts
from dbcheck.runs import stored
from tests.kit.golivedesk import ALL, ENTRY, FIRST_CYCLE, Desk, make_desk
from tests.kit.refusals import refused
from tests.kit.rigs import plan as campaign_plan


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return make_desk(tmp_path, monkeypatch)


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
        raise SystemExit("killed")  # so the step is not stored

    desk.during[StepId.CAMPAIGN] = lose
    with pytest.raises(SystemExit, match="killed"):
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


def test_papers_of_an_earlier_campaign_are_no_papers_of_this_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may end after the new campaign, before it writes its papers."""
    assert desk.run().verdict is Verdict.PASS
    remove_cycle(desk.folder.path)

    def interrupt(entry: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(golive, "_await_server", interrupt)
        with pytest.raises(KeyboardInterrupt):
            desk.run()
    assert desk.done == ["setup", "campaign-2"]
    assert "Not to be signed" in (desk.folder.path / PAGE).read_text("utf-8")
    result = desk.run()
    assert desk.done == ["setup", "papers"]
    assert [paper.file for paper in result.papers] == ["campaign-2.html"]


def test_papers_of_a_campaign_that_was_made_anew_are_written_anew(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder has the same name, and its client ends before the papers."""
    assert desk.run().verdict is Verdict.PASS
    shutil.rmtree(desk.folder.path / "campaign")

    def end(entry: object) -> None:
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(golive, "_await_server", end)
        with pytest.raises(SystemExit, match="killed"):
            desk.run()
    assert desk.done == ["setup", "campaign"]
    assert golive.make_golive_result(desk.check).verdict is Verdict.INCONCLUSIVE
    assert desk.run().verdict is Verdict.PASS
    assert desk.done == ["setup", "papers"]


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


def test_a_campaign_shows_its_bound_and_what_it_leaves_open(
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


def test_nothing_is_made_in_a_folder_of_another_user(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(stored, "is_ours", lambda status: False)
    with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError):
        GoLiveFolder.create(other, desk.folder.plan())
    assert list(other.iterdir()) == []
