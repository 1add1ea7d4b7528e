"""Which targets of a campaign are configured alike, and what their cuts show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dbcheck.base.setting import list_settings
from dbcheck.campaign.compare import Role, group_targets, list_configuration
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.totals import make_result
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.cut import PowerScope
from dbcheck.model.host import Drive
from dbcheck.model.verdict import CycleVerdict
from dbcheck.report.words import campaign as words
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder
from tests.kit.nodes import having
from tests.kit.samples import PLAN
from tests.kit.stored_run import manifest

PASS, FAIL = CycleVerdict.PASS, CycleVerdict.FAIL


def campaign_of(
    path: Path,
    verdicts: list[CycleVerdict],
    settings: Mapping[str, str] | None = None,
    firmware: str = "",
    model: str = "X25",
) -> CampaignResult:
    """Return a campaign whose newest run was on such a server and drive."""
    folder = CampaignFolder.create(path, replace(PLAN, name=path.name))
    made = manifest()
    writer = made.writer
    assert writer.host is not None
    volume, *others = writer.host.facts.volumes
    drive = Drive("sda", model, "s", "w", "write back", None, None, firmware)
    host = replace(
        writer.host,
        facts=replace(
            writer.host.facts, volumes=(replace(volume, drives=(drive,)), *others)
        ),
    )
    facts = replace(writer.facts, settings={"fsync": "on", **(settings or {})})
    RunFolder.create(folder.runs, having(made, facts=facts, host=host))
    for number, verdict in enumerate(verdicts, 1):
        run = made.run_id if number == len(verdicts) else f"run-{number}"
        folder.add(Cycle(number, run, "steady", 1.0, verdict, "", "", "DRIVE"))
    return make_result(folder)


def test_the_cuts_of_targets_that_are_alike_are_counted_together(
    tmp_path: Path,
) -> None:
    shown = [
        campaign_of(tmp_path / "db1", [PASS] * 10),
        campaign_of(tmp_path / "db2", [PASS] * 20),
        campaign_of(tmp_path / "db3", [PASS, FAIL], {"fsync": "off"}),
    ]
    losing, sound = group_targets(shown)
    assert (losing.targets, losing.losing) == (("db3",), ("db3",))
    assert losing.apart == {"fsync": "off"}
    assert (sound.targets, sound.apart) == (("db1", "db2"), {"fsync": "on"})
    assert (sound.statistics.cuts, sound.statistics.losses) == (30, 0)
    assert sound.statistics.depths == {"DRIVE": 30}
    assert "no loss in 30 cuts" in sound.statistics.sentence
    lines = list(words.groups(CampaignsResult("/c", tuple(shown), (losing, sound))))
    assert lines[0].startswith("db3 (fsync: off): 1 loss in 2 cuts")
    assert lines[0].endswith("(lost on db3)")


def test_firmware_sets_drives_of_one_model_apart(tmp_path: Path) -> None:
    shown = [
        campaign_of(tmp_path / "old", [FAIL], firmware="1.0"),
        campaign_of(tmp_path / "new", [PASS], firmware="2.0"),
    ]
    first, second = group_targets(shown)
    assert first.targets == ("old",)
    (name,) = first.apart
    assert first.apart[name] == "X25 1.0 (write back)"
    assert "X25 2.0 (write back)" in second.drives


def test_a_drive_that_does_not_tell_its_model_is_named_so(tmp_path: Path) -> None:
    shown = [
        campaign_of(tmp_path / "a", [FAIL], model=""),
        campaign_of(tmp_path / "b", [PASS]),
    ]
    first, _ = group_targets(shown)
    (name,) = first.apart
    assert first.apart[name] == "unknown model (write back)"


def test_one_target_has_no_group_and_neither_has_one_without_a_run(
    tmp_path: Path,
) -> None:
    one = campaign_of(tmp_path / "db1", [PASS])
    empty = CampaignFolder.create(tmp_path / "db2", replace(PLAN, name="db2"))
    assert group_targets([one]) == ()
    assert group_targets([one, make_result(empty)]) == ()
    two = campaign_of(tmp_path / "db3", [PASS])
    (group,) = group_targets([one, make_result(empty), two])
    assert group.targets == ("db1", "db3")
    assert group.apart == {}


def test_a_long_group_is_named_by_its_first_targets(tmp_path: Path) -> None:
    shown = [campaign_of(tmp_path / f"db{n:02}", [PASS]) for n in range(12)]
    result_of_all = CampaignsResult("/c", tuple(shown), group_targets(shown))
    (line,) = words.groups(result_of_all)
    assert "db07 and 4 more (" in line


def test_a_group_that_lost_without_a_power_cut_comes_before_those_that_lost_nothing(
    tmp_path: Path,
) -> None:
    sound = campaign_of(tmp_path / "db1", [PASS] * 3)
    campaign_of(tmp_path / "db2", [PASS, FAIL], {"fsync": "off"})
    folder = CampaignFolder.open(tmp_path / "db2")
    folder.add(replace(folder.cycles()[1], uncut=True))
    shown = [sound, make_result(folder)]
    losing, other = group_targets(shown)
    assert (losing.targets, losing.losing) == (("db2",), ("db2",))
    assert (losing.statistics.losses, losing.statistics.cuts) == (0, 1)
    assert (other.targets, other.losing) == (("db1",), ())
    first, *_ = words.groups(CampaignsResult("/c", tuple(shown), (losing, other)))
    assert first.endswith("(lost on db2, without a power cut)")


def test_what_the_cut_was_is_told_from_what_was_cut() -> None:
    lab = {"cut": "drive", "drive": {"cut": "x"}}
    made = having(manifest(), scope=PowerScope.DRIVE, lab=lab)
    roles = {key.name: key.role for key in list_configuration(made)}
    of_the_cut = [name for name, role in roles.items() if role is Role.OF_THE_CUT]
    assert of_the_cut == ["class of the cut", "what loses its power", "lab cut"]
    assert roles["lab drive cut"] is Role.OTHER


def test_what_is_chosen_for_each_test_is_told_from_the_server() -> None:
    lab = {"cut": "drive", "drive": {"write_cache": "x"}}
    made = having(manifest(), lab=lab)
    of_server = {k.name for k in list_configuration(made) if k.role.is_of_server}
    of_test = {k.name for k in list_configuration(made)} - of_server
    assert of_test == {
        *("power", "class of the cut", "lab cut", "workload"),
        *(setting.title for setting in list_settings(Workload).values()),
    }
    assert {"server", "lab drive write_cache"} <= of_server
