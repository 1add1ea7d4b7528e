"""The steps of a go-live check: which are done, kept, repeated, and where it stops."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError, TargetChanged, UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cli.report import read_result
from dbcheck.model.cut import PowerState
from dbcheck.model.golive import StepId, StepStatus
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.runner import golive
from dbcheck.runner.golive import require_same_target
from dbcheck.runner.golive_folder import PAGE, GoLiveFolder
from dbcheck.runner.golive_setup import find_changes, list_shown_facts
from dbcheck.runner.golive_steps import Found
from dbcheck.runs.folder import RunFolder
from tests.kit.golivedesk import ALL, ENTRY, FIRST_CYCLE, SETUP, Desk, make_desk
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return make_desk(tmp_path, monkeypatch)


def test_the_folder_of_a_check_is_no_campaign_that_is_damaged(desk: Desk) -> None:
    desk.run()
    path = desk.folder.path
    with refused(ErrorId.NOT_A_RESULT_FOLDER, UsageError, naming="go-live") as caught:
        read_result(path)
    assert (path / "campaign").is_dir()
    assert str(path / "campaign") in caught.value.hint


def test_a_folder_of_several_checks_names_their_pages(desk: Desk) -> None:
    above = desk.folder.path.parent
    GoLiveFolder.create(above / "second", desk.folder.plan())
    with refused(
        ErrorId.NOT_A_RESULT_FOLDER, UsageError, naming="2 go-live checks"
    ) as caught:
        read_result(above)
    for name in ("check", "second"):
        assert str(above / name / PAGE) in caught.value.hint


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
    leave_power_test(desk, KeyboardInterrupt())
    desk.run()
    assert desk.done[:3] == ["on", "setup", "power"]


def test_the_power_is_restored_whatever_error_a_cut_ended_with(desk: Desk) -> None:
    """Once the switch was told to cut, no error shows that it did not."""
    error = PowerError("it says off", id=ErrorId.POWER_STATE_OF_OTHER_HOST)
    leave_power_test(desk, error)
    desk.run()
    assert desk.done[:3] == ["on", "setup", "power"]


def leave_power_test(
    desk: Desk, error: BaseException, *, told_to_cut: bool = True
) -> None:
    """Have a client end in the power test."""

    def end() -> None:
        if told_to_cut:
            desk.folder.note_cut(StepId.POWER)
        raise error

    desk.during[StepId.POWER] = end
    with pytest.raises(type(error), check=lambda raised: raised is error):
        desk.run()
    del desk.during[StepId.POWER]


def test_a_power_test_restores_no_other_host(desk: Desk) -> None:
    """Somebody may work at a host that is off."""
    leave_power_test(desk, KeyboardInterrupt())
    desk.entry = replace(ENTRY, power=ExecConfig(cut=("pdu", "off", "7")))
    desk.run()
    assert "on" not in desk.done
    assert "another switch" in desk.said[0]


@pytest.mark.parametrize(
    "error",
    [
        UsageError("no consent", id=ErrorId.FIRST_CUT_NEEDS_CONSENT),
        UsageError("it is db2", id=ErrorId.HOST_IS_ANOTHER),
        PowerError("off already", id=ErrorId.POWER_STATE_OF_OTHER_HOST),
        HostError("no answer", id=ErrorId.HOST_UNREACHABLE),
        KeyboardInterrupt(),
    ],
    ids=["no consent", "another host", "off already", "not reached", "interrupted"],
)
def test_a_power_test_that_cut_nothing_has_nothing_to_restore(
    desk: Desk, error: BaseException
) -> None:
    """A switch that reads off may be that of another host: nobody looked yet."""
    leave_power_test(desk, error, told_to_cut=False)
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


def test_the_switch_of_a_pod_is_named_by_its_node(desk: Desk) -> None:
    """dbcheck power restore takes no name of pods."""
    desk.entry = replace(ENTRY, machine="worker-1")
    leave_power_test(desk, KeyboardInterrupt())
    desk.state = PowerState.UNKNOWN
    desk.run()
    assert "dbcheck power restore worker-1 --inventory" in desk.said[0]


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
    for again in (["first-cut-2", "campaign", "papers"], []):
        result = desk.run()
        assert (result.verdict, desk.done) == (Verdict.PASS, ["setup", *again])
        (text,) = result.to_accept
        assert text.startswith("first-cut: it came to no verdict (no cut counts)")


def test_cuts_that_do_not_count_are_told_before_they_are_made_anew(desk: Desk) -> None:
    """A client that is killed has told nobody why they do not count."""

    def end() -> None:
        folder = CampaignFolder.open(desk.folder.path / "first-cut")
        for number in range(1, folder.plan().cycles_max + 1):
            done = replace(FIRST_CYCLE, number=number)
            folder.add(replace(done, verdict=CycleVerdict.INCONCLUSIVE))
        raise SystemExit("killed")

    desk.during[StepId.FIRST_CUT] = end
    with pytest.raises(SystemExit, match="killed"):
        desk.run()
    desk.during.clear()
    desk.found[StepId.FIRST_CUT] = Found("no cut counts", verdict=Verdict.INCONCLUSIVE)
    desk.run()
    assert desk.done == ["setup", "first-cut again"]
    assert desk.ended[-1].summary == "no cut counts"


def test_a_campaign_that_is_continued_tells_the_cuts_to_come(desk: Desk) -> None:
    def end() -> None:
        CampaignFolder.open(desk.folder.path / "campaign").add(FIRST_CYCLE)
        raise KeyboardInterrupt

    desk.during[StepId.CAMPAIGN] = end
    with pytest.raises(KeyboardInterrupt):
        desk.run()
    assert desk.to_come[-1] == 3
    desk.during.clear()
    desk.run()
    assert desk.to_come[-2:] == [2, 3]  # of the campaign; the papers cut nothing


def test_nothing_is_cut_where_a_run_has_no_room_on_this_machine(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(free=1 << 20)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda path: full)
        with refused(ErrorId.RUNS_NEED_ROOM, UsageError, naming="1 MiB free"):
            desk.run()
    assert desk.done == ALL[: ALL.index("power")]
    stopped = golive.make_golive_result(desk.check).next_step
    assert stopped is not None
    assert (stopped.step, stopped.error_id) == (StepId.POWER, "runs-need-room")
    assert desk.run().verdict is Verdict.PASS


def lack_rows(desk: Desk) -> None:
    """Have a client find that rows of the first cut's control are gone."""

    def fail() -> None:
        raise TargetChanged("8 are gone", id=ErrorId.EARLIER_ROWS_LOST, hint="Undo it.")

    desk.during[StepId.FIRST_CUT] = fail
    with refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged) as caught:
        desk.run()
    assert desk.check.resume in caught.value.hint
    assert "dbcheck clean" in caught.value.hint
    desk.during.clear()


@pytest.mark.parametrize("kernel", [SETUP["kernel"], "6.12.0"], ids=["same", "changed"])
def test_a_step_whose_rows_are_gone_is_begun_anew_and_says_so(
    desk: Desk, kernel: str
) -> None:
    """As after dbcheck clean; the server may also have lost them by itself."""
    lack_rows(desk)
    desk.setup["kernel"] = kernel
    desk.during[StepId.FIRST_CUT] = left_again = leave(desk, "first-cut-2")
    with pytest.raises(KeyboardInterrupt):
        desk.run()
    assert desk.done[-1] == "first-cut-2"
    assert left_again is desk.during.pop(StepId.FIRST_CUT)
    for _ in range(2):
        result = desk.run()
        assert result.verdict is Verdict.PASS
        (text,) = result.to_accept
        assert text.startswith("first-cut: rows of earlier cycles were gone")
    assert (desk.folder.path / "first-cut" / "campaign.json").is_file()


def test_a_run_that_is_not_judged_is_not_left_behind(desk: Desk) -> None:
    """It may have lost the rows that are gone."""
    lack_rows(desk)
    with pytest.raises(KeyboardInterrupt):
        leave(desk, "first-cut")()
    assert desk.run().to_accept == ()  # nothing was begun anew
    assert desk.done[0] == "first-cut again"


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.INCONCLUSIVE])
def test_a_run_that_is_not_judged_is_continued_in_a_campaign_that_is_over(
    desk: Desk, verdict: Verdict
) -> None:
    desk.found[StepId.FIRST_CUT] = Found("one cut", verdict=verdict)
    desk.run()
    with pytest.raises(KeyboardInterrupt):
        leave(desk, "first-cut")()
    desk.run()
    assert desk.done[0] == "first-cut again"


def test_a_loss_is_not_taken_back_although_rows_are_gone(desk: Desk) -> None:
    lack_rows(desk)
    folder = CampaignFolder.open(desk.folder.path / "first-cut")
    folder.add(replace(FIRST_CYCLE, verdict=CycleVerdict.FAIL))
    desk.found[StepId.FIRST_CUT] = Found("a row is lost", verdict=Verdict.FAIL)
    assert desk.run().verdict is Verdict.FAIL
    assert desk.done == ["first-cut again", "papers"]


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
