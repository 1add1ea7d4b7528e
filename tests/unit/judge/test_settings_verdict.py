"""What settings and the host's answers make of a stored run that lost no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dbcheck.audit import rules
from dbcheck.audit.mysql import ROCKSDB, TABLES
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import to_values
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.judge.settings import (
    Settings,
    collect_settings_at_depths,
    explain_durable_commits,
    find_hiding_settings,
)
from dbcheck.lab.spec import KEPT_WRITES
from dbcheck.model.depth import Depth, Remains, Ring
from dbcheck.model.host import HostAfter
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest
from dbcheck.model.verdict import Tally, Verdict
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.verdict import verdict_report
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.nodes import having, host_after
from tests.kit.reports import printed, run_result
from tests.kit.stored_run import EARLIER, load_record, manifest, stored_run

TABLE = "ledger"
SAFE_PG = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "zero_damaged_pages": "off",
    "ignore_checksum_failure": "off",
}
SAFE_MY = {
    "autocommit": "ON",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "innodb_force_recovery": "0",
    "log_bin": "OFF",
}
BUFFERED_LOST = ((1, 3),)
KEPT = ((1, 9),)
REMAINS = {
    Depth.PROCESS: Remains("", KEPT, 1, (Ring(KEPT),), 8),
    Depth.OS: Remains("", BUFFERED_LOST, 1, (Ring(KEPT),), 8),
    Depth.DRIVE: Remains("", BUFFERED_LOST, 1, (Ring(BUFFERED_LOST),), 8),
}


def of_depth(made: Manifest, load: LoadRecord | None, depth: Depth) -> Settings:
    """Return the settings of a run whose cut went so deep at an unknown moment."""
    return collect_settings_at_depths(made, load, [depth], made.writer_name, None)


def judged(
    folder: Path,
    *,
    change: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    settings: dict[str, str] = SAFE_PG,
    depth: Depth = Depth.DRIVE,
    after: Callable[[AfterRecord], AfterRecord] = lambda after: after,
) -> dict[str, Any]:
    """Return the judgement on the run as it would be with these settings."""
    made = manifest()
    family = "postgresql" if "fsync" in settings else "mysql"
    before = replace(made.writer.facts, settings=settings)
    made = change(having(made, family=family, facts=before))
    run = stored_run(RunFolder.create(folder, made))
    load, found = run.load(), run.after()
    assert load is not None and found.facts is not None
    run.write_load(replace(load, settings=settings))
    facts = replace(found.facts, settings=settings)
    remains = REMAINS[depth]
    host = replace(host_after(found), remains=remains, remains_elsewhere=(remains,))
    run.write_after(after(having(found, facts=facts, host=host)))
    values: dict[str, Any] = to_values(judge_run(run, FrameLogReader()).result)
    return values


def test_safe_settings_pass(tmp_path: Path) -> None:
    for number, settings in enumerate((SAFE_PG, SAFE_MY)):
        result = judged(tmp_path / str(number), settings=settings)
        assert result["verdict"] == "PASS", result["reasons"]
        assert not result["settings_at_fault"]


@pytest.mark.parametrize(
    ("change", "least"),
    [
        ({"synchronous_commit": "off"}, Depth.PROCESS),
        ({"fsync": "off"}, Depth.OS),
        ({"innodb_flush_log_at_trx_commit": "0"}, Depth.PROCESS),
        ({"innodb_flush_log_at_trx_commit": "2"}, Depth.OS),
        ({"innodb_flush_method": "nosync"}, Depth.OS),
        ({"innodb_flush_method": "O_DIRECT_NO_FSYNC"}, Depth.DRIVE),
        ({"innodb_redo_log_enabled": "OFF"}, Depth.PROCESS),
        ({"log_bin": "ON", "sync_binlog": "0"}, Depth.OS),
    ],
)
@pytest.mark.parametrize("depth", [Depth.OS, Depth.DRIVE])
def test_a_setting_that_loses_at_such_a_depth_holds_the_pass_back(
    change: dict[str, str], least: Depth, depth: Depth, tmp_path: Path
) -> None:
    is_pg = change.keys() <= SAFE_PG.keys()
    settings = {**(SAFE_PG if is_pg else SAFE_MY), **change}
    result = judged(tmp_path, settings=settings, depth=depth)
    name = list(change)[-1]
    if least.rank <= depth.rank:
        assert result["verdict"] == "INCONCLUSIVE"
        assert "is documented to lose commits" in result["reasons"][0]
        assert "this cut happened to lose none" in result["reasons"][0]
        (said,) = result["settings_at_fault"]
        assert said.startswith(f"{name} = ")
    else:
        assert result["verdict"] == "PASS", result["reasons"]
        assert not result["settings_at_fault"]
        assert any(said.startswith(name) for said in result["other_settings"])


def on_filesystem(name: str) -> Callable[[Manifest], Manifest]:
    """Return what puts every volume of the host on a filesystem *name*."""

    def change(made: Manifest) -> Manifest:
        assert made.writer.host is not None
        volumes = made.writer.host.facts.volumes
        facts = replace(
            made.writer.host.facts,
            volumes=tuple(replace(volume, filesystem=name) for volume in volumes),
        )
        return having(made, host=replace(made.writer.host, facts=facts))

    return change


TORN_PAGES = [
    pytest.param({**SAFE_PG, "full_page_writes": "off"}, id="postgresql"),
    pytest.param({**SAFE_MY, "innodb_doublewrite": "OFF"}, id="mysql"),
]


@pytest.mark.parametrize("settings", TORN_PAGES)
@pytest.mark.parametrize(
    ("filesystem", "status"), [("xfs", "assumed"), ("zfs", "present")]
)
def test_a_pass_without_a_guard_against_torn_pages_names_what_it_assumes(
    settings: dict[str, str], filesystem: str, status: str, tmp_path: Path
) -> None:
    result = judged(tmp_path, change=on_filesystem(filesystem), settings=settings)
    assert result["verdict"] == "PASS", result["reasons"]
    (item,) = (i for i in result["evidence"] if i["item"] == "durable settings")
    assert item["status"] == status
    reasons = "\n".join(result["reasons"])
    assert ("whole pages" in reasons) is (status == "assumed")
    assert not result["settings_at_fault"]
    assert any("tore in two" in said for said in result["other_settings"])


@pytest.mark.parametrize("settings", TORN_PAGES)
def test_torn_pages_may_explain_a_loss_where_the_storage_is_not_known_to_prevent_them(
    settings: dict[str, str], tmp_path: Path
) -> None:
    def broken(after: AfterRecord) -> AfterRecord:
        return replace(after, failure="could not read block 7: checksum mismatch")

    for filesystem, explains in (("xfs", True), ("zfs", False)):
        result = judged(
            tmp_path / filesystem,
            change=on_filesystem(filesystem),
            settings=settings,
            after=broken,
        )
        assert result["verdict"] == "FAIL"
        assert bool(result["settings_at_fault"]) is explains


@pytest.mark.parametrize(
    "settings",
    [
        {
            "group_replication_group_name": "3e11fa47-71ca-11e1-9e33-c80aa9429562",
            "group_replication_start_on_boot": "OFF",
        },
        {"wsrep_on": "ON", "wsrep_provider": "none"},
    ],
)
def test_a_server_that_does_not_rejoin_its_peers_hides_nothing(
    settings: dict[str, str], tmp_path: Path
) -> None:
    result = judged(tmp_path, settings={**SAFE_MY, **settings})
    assert result["verdict"] == "PASS", result["reasons"]


def test_a_setting_that_could_not_be_read_is_shown_and_holds_the_pass_back(
    tmp_path: Path,
) -> None:
    settings = {k: v for k, v in SAFE_PG.items() if k != "synchronous_commit"}
    result = judged(tmp_path, settings=settings)
    assert result["verdict"] == "INCONCLUSIVE"
    assert "synchronous_commit" in result["reasons"][0]
    assert any(
        said.startswith("synchronous_commit = unknown")
        for said in result["other_settings"]
    )
    assert "synchronous_commit = unknown" in printed(verdict_report(run_result(result)))


def test_a_server_that_may_fetch_lost_rows_from_others_does_not_pass(
    tmp_path: Path,
) -> None:
    result = judged(tmp_path, settings={**SAFE_MY, "wsrep_on": "ON"})
    assert result["verdict"] == "INCONCLUSIVE"
    assert "wsrep_on = ON may hide what was lost" in result["reasons"][0]


def mounted_with(options: str) -> Callable[[Manifest], Manifest]:
    """Return what puts the data directory on a filesystem that is mounted so."""

    def change(made: Manifest) -> Manifest:
        assert made.writer.host is not None
        volume = replace(made.writer.host.facts.data, mount_options=options)
        others = made.writer.host.facts.volumes[1:]
        facts = replace(made.writer.host.facts, volumes=(volume, *others))
        return having(made, host=replace(made.writer.host, facts=facts))

    return change


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("rw,relatime,nobarrier", "mount option barrier = nobarrier"),
        ("rw,barrier=0", "mount option barrier = barrier=0"),
        ("rw,fsync_mode=nobarrier", "mount option barrier = fsync_mode=nobarrier"),
        ("rw,upperdir=/u,volatile", "mount option sync = volatile"),
        ("rw,upperdir=/u,fsync=volatile", "mount option sync = fsync=volatile"),
        ("rw,vers=3.1.1,nostrictsync", "mount option sync = nostrictsync"),
        ("rw,journal_flush_disabled", "mount option sync = journal_flush_disabled"),
        ("rw,nointegrity", "mount option sync = nointegrity"),
    ],
)
def test_a_mount_that_leaves_out_syncs_or_flushes_is_a_setting_at_fault(
    options: str, fault: str, tmp_path: Path
) -> None:
    result = judged(tmp_path, change=mounted_with(options))
    assert result["verdict"] == "INCONCLUSIVE"
    assert result["settings_at_fault"][0].startswith(fault)


@pytest.mark.parametrize(
    "options", ["rw,data=writeback", "rw,fsync=auto", "rw,fsync_mode=posix", "rw,sync"]
)
def test_a_mount_that_keeps_what_was_synced_is_no_setting_at_fault(
    options: str, tmp_path: Path
) -> None:
    result = judged(tmp_path, change=mounted_with(options))
    assert not result["settings_at_fault"]


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        pytest.param({"full_page_writes": "off"}, "INCONCLUSIVE", id="torn pages"),
        pytest.param({"synchronous_commit": "off"}, "INCONCLUSIVE", id="the last acks"),
        pytest.param({"ignore_checksum_failure": "on"}, "INCONCLUSIVE", id="checksums"),
        pytest.param({"fsync": "off"}, "FAIL", id="everything"),
    ],
)
def test_a_setting_explains_only_what_it_can_cause(
    settings: dict[str, str], verdict: str, tmp_path: Path
) -> None:
    """Nothing of the run is there: a restored copy, unless a setting does that."""

    def emptied(after: AfterRecord) -> AfterRecord:
        host = replace(host_after(after), facts=None)
        run = RunFolder(next(tmp_path.iterdir()))
        none = {name: run.write_survivors(name, ()) for name in after.survivors}
        return having(after, host=host, survivors=none)

    def fresh(made: Manifest) -> Manifest:
        return replace(
            made, tables={TABLE: replace(made.tables[TABLE], rows_by_epoch={})}
        )

    result = judged(
        tmp_path, change=fresh, settings={**SAFE_PG, **settings}, after=emptied
    )
    assert result["verdict"] == verdict, result["reasons"]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        pytest.param(
            lambda after: having(after, host=None),
            "the host was not fully checked again after the cut: host",
            id="reconciled without --target-host",
        ),
        pytest.param(
            lambda after: having(
                after, host=HostAfter(None, None, None, "no route to host")
            ),
            "not read after the cut: boot_id and storage, canaries, server's log: no"
            " route to host",
            id="SSH failed",
        ),
        pytest.param(
            lambda after: having(
                after, host=replace(host_after(after), log=None, failure="no such file")
            ),
            "not read after the cut: server's log: no such file",
            id="the log is gone",
        ),
        pytest.param(
            lambda after: having(
                after,
                host=replace(
                    host_after(after), remains=Remains("/c holds nothing", (), 1, (), 1)
                ),
            ),
            "not read after the cut: canaries: /c holds nothing",
            id="the canaries are gone",
        ),
    ],
)
def test_what_was_gathered_before_and_not_after_holds_the_pass_back(
    after: Callable[[AfterRecord], AfterRecord], said: str, tmp_path: Path
) -> None:
    result = judged(tmp_path, after=after)
    assert result["verdict"] == Verdict.INCONCLUSIVE.value
    assert any(said in reason for reason in result["reasons"]), result["reasons"]


def test_canaries_that_were_left_behind_are_named_with_what_removes_them(
    tmp_path: Path,
) -> None:
    gone = judged(tmp_path / "1")
    assert gone["left_on_host"] is None
    left = judged(tmp_path / "2", after=lambda after: having(after, host=None))
    assert left["left_on_host"]["command"] == "rm -r -- /c /wal/c"
    assert "Remove them with: rm -r -- /c /wal/c" in printed(
        verdict_report(run_result(left))
    )
    assert "Remove them" not in printed(verdict_report(run_result(gone)))


def test_a_log_that_was_never_asked_for_is_not_missed(tmp_path: Path) -> None:
    def change(made: Manifest) -> Manifest:
        assert made.writer.host is not None
        return having(made, host=replace(made.writer.host, log_path=""))

    def after(found: AfterRecord) -> AfterRecord:
        return having(found, host=replace(host_after(found), log=None))

    result = judged(tmp_path, change=change, after=after)
    assert result["verdict"] == "PASS", result["reasons"]


def test_a_measured_depth_is_never_called_unmeasured(tmp_path: Path) -> None:
    for depth in Depth:
        result = judged(tmp_path / depth.value, depth=depth)
        shown = printed(verdict_report(run_result(result)))
        assert "was not measured" not in shown


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"innodb_flush_log_at_trx_commit": "2", "log_bin": "OFF"}, ""),
        (
            {
                "innodb_flush_log_at_trx_commit": "2",
                "log_bin": "ON",
                "sync_binlog": "0",
            },
            "",
        ),
        (
            {
                "innodb_flush_log_at_trx_commit": "2",
                "log_bin": "ON",
                "sync_binlog": "1",
            },
            "sync_binlog = 1 just before the cut",
        ),
        (
            {"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF"},
            "innodb_flush_log_at_trx_commit = 1 just before the cut",
        ),
        (
            {
                "innodb_flush_log_at_trx_commit": "2",
                "innodb_log_file_buffering": "OFF",
            },
            "innodb_log_file_buffering = OFF just before the cut",
        ),
        (
            {"innodb_flush_log_at_trx_commit": "2", "innodb_log_file_buffering": "ON"},
            "",
        ),
        (
            {"innodb_flush_log_at_trx_commit": "0", "innodb_log_file_buffering": "OFF"},
            "",
        ),
        (
            {
                "rocksdb_flush_log_at_trx_commit": "2",
                "innodb_log_file_buffering": "OFF",
                TABLES: ROCKSDB,
            },
            "",
        ),
    ],
)
def test_a_control_is_weak_only_if_all_that_a_commit_hangs_on_is(
    settings: dict[str, str], said: str
) -> None:
    made = replace(manifest(), family="mysql")
    load = replace(load_record(), settings=settings)
    assert explain_durable_commits(made, load) == said
    assert (
        explain_durable_commits(manifest(), load) == ""
    )  # PostgreSQL's sessions look themselves
    assert "were not read" in explain_durable_commits(made, None)


def test_a_campaign_names_the_setting_at_fault() -> None:
    said = "fsync = off: With fsync off nothing is flushed."
    cycle = {
        "number": 1,
        "run": "1",
        "after_s": 1.0,
        "settled": False,
        "ended": "",
        "activity": "steady",
        "missed": "",
        "verdict": "FAIL",
        "reason": "9 missing-tail of 9 confirmed commits",
        "confirmed": 9,
        "lost": 9,
        "earlier_lost": 1234,
        "acks_per_s": 1.0,
        "settings_at_fault": [said],
        "cut_class": "reset",
        "depth": "OS",
    }
    result = {
        "name": "db1",
        "target": "t",
        "seed": 1,
        "finished": True,
        "commits_per_s": 1.0,
        "price": None,
        "price_per_durable_commit_per_s": None,
        "statistics": Tally(1, 1).statistics,
        "bound_ppm": None,
        "errors": 0,
        "planned_cuts": 3,
        "verdict": "FAIL",
        "activities": {"steady": 1},
        "windows": {},
        "seen": None,
        "cut_classes": [],
        "cuts_still_needed": 0,
        "error": "",
        "error_id": "",
        "folder": "/c",
        "cycles": [cycle, cycle],
    }
    shown = printed(
        draw_campaigns(
            CampaignsResult(
                "/c", (msgspec.convert(result, CampaignResult, from_attributes=True),)
            )
        )
    )
    assert shown.count(f"setting at fault: {said}") == 1
    assert "18 + 2,468 earlier" in shown


def test_a_place_that_was_not_looked_at_counts_as_the_deepest() -> None:
    made = manifest()
    assert made.writer.host is not None
    facts = replace(made.writer.host.facts, unseen={"WAL": "/wal: Permission denied"})
    unseen = having(made, host=replace(made.writer.host, facts=facts))
    assert of_depth(made, None, Depth.OS).depth is Depth.OS
    assert of_depth(unseen, None, Depth.OS).depth is Depth.DRIVE


def test_a_setting_that_was_worse_before_the_cut_counts() -> None:
    made = manifest()
    then = {**made.writer.facts.settings, "synchronous_commit": "off"}
    during = replace(load_record(), settings=then)
    (found,) = of_depth(made, during, Depth.OS).at_fault(lost=True)
    assert str(found) == "synchronous_commit = off"
    assert not of_depth(made, load_record(), Depth.OS).at_fault(lost=True)
    control = replace(made, control=True)  # which relaxes the server itself
    assert not of_depth(control, during, Depth.OS).at_fault(lost=True)


def test_lost_none_by_chance_is_said_only_if_nothing_was_lost() -> None:
    made = manifest()
    relaxed = {**made.writer.facts.settings, "synchronous_commit": "off"}
    weak = having(made, facts=replace(made.writer.facts, settings=relaxed))
    settings = of_depth(weak, None, Depth.OS)
    assert "happened to lose none" in settings.item(kept=True).reason
    assert settings.item(kept=False).reason.endswith("documented to lose commits")


@pytest.mark.parametrize("earlier", [1, 2])
def test_a_lost_row_of_an_earlier_cycle_is_a_loss_too(
    earlier: int, tmp_path: Path
) -> None:
    """One of them is there; how many there were is in the manifest."""
    made = manifest()
    relaxed = {**made.writer.facts.settings, "synchronous_commit": "off"}
    before = replace(made.writer.facts, settings=relaxed)
    rows = replace(made.tables[TABLE], rows_by_epoch={EARLIER: earlier})
    weak = having(made, facts=before, tables={TABLE: rows})
    run = stored_run(RunFolder.create(tmp_path, weak))
    run.write_load(replace(load_record(), settings=relaxed))
    outcome = judge_run(run, FrameLogReader())
    (item,) = (one for one in outcome.judgement.items if one.id is ItemId.SETTINGS)
    assert ("happened to lose none" in item.reason) is (earlier == 1)
    assert (outcome.verdict is Verdict.FAIL) is (earlier == 2)


TEARS = {
    "none": Status.ASSUMED,
    "all": Status.ASSUMED,
    "prefix": Status.ASSUMED,
    "suffix": Status.ASSUMED,
    "but-one": Status.ASSUMED,
    "writes": Status.ASSUMED,
    "torn": Status.ABSENT,
    "pages": Status.ABSENT,
    "blocks": Status.ABSENT,
    "random": Status.ABSENT,
}


def test_of_each_model_of_a_cut_it_is_known_whether_it_tears() -> None:
    assert TEARS.keys() == set(KEPT_WRITES)


@pytest.mark.parametrize(("kept_writes", "status"), TEARS.items())
def test_a_lab_that_tears_writes_is_not_assumed_to_keep_pages_whole(
    kept_writes: str, status: Status
) -> None:
    made = manifest()
    before = {**made.writer.facts.settings, "full_page_writes": "off"}
    lab = {"cut": "drive", "drive": {"kept_writes": kept_writes}}
    torn = having(made, facts=replace(made.writer.facts, settings=before), lab=lab)
    assert of_depth(torn, None, Depth.DRIVE).item(kept=True).status is status


@pytest.mark.parametrize(
    ("family", "name", "value"),
    [
        ("postgresql", "zero_damaged_pages", "on"),
        ("postgresql", "ignore_checksum_failure", "on"),
        ("mysql", "innodb_force_recovery", "1"),
    ],
)
def test_nothing_is_read_under_a_setting_that_hides_rows(
    family: str, name: str, value: str, tmp_path: Path
) -> None:
    safe = {"postgresql": SAFE_PG, "mysql": SAFE_MY}[family]
    made = replace(manifest(), family=family)
    assert find_hiding_settings(made, safe) == find_hiding_settings(made, {}) == ""
    said = find_hiding_settings(made, {**safe, name: value})
    assert said.startswith(f"{name} = {value}: ")
    assert "restart the server without it" in said
    # Nor does a run pass that began with it.
    result = judged(tmp_path, settings={**safe, name: value})
    assert result["verdict"] == "INCONCLUSIVE"
    assert f"{name} = {value} may hide" in result["reasons"][0]


def test_another_restart_takes_back_nothing_that_peers_gave() -> None:
    """So the rows of a node that rejoined are not left to be read after one."""
    made = replace(manifest(), family="mysql")
    assert find_hiding_settings(made, {**SAFE_MY, "wsrep_on": "ON"}) == ""


def test_without_rules_no_setting_is_called_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "RULES", {"postgresql": ()})
    item = of_depth(manifest(), None, Depth.OS).item(kept=True)
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, True)
