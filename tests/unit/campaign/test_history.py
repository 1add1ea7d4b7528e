"""The checks in a folder, server by server, and what changed since the last one."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.compare import compare_folders
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.history import read_history
from dbcheck.campaign.totals import make_result
from dbcheck.judge.result import to_values
from dbcheck.model.audited import Flag, RuleStatus, Severity
from dbcheck.model.records import CutAsked, NodeBefore
from dbcheck.model.verdict import PPM, CycleVerdict, Verdict
from dbcheck.report.words.campaign import summarize_campaign
from dbcheck.report.words.history import lines
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.chosen_runs import manifest_of, run_of
from tests.kit.refusals import refused
from tests.kit.samples import PLAN

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
UNSAFE = Flag("a-rule", Severity.WARNING, RuleStatus.UNSAFE, "server", "x", "off")


def node_of(number: int, fsync: str = "on", data: str = "1") -> NodeBefore:
    """Return the server as the run *number* found it."""
    writer = manifest_of(number).writer
    settings = {**writer.facts.settings, "fsync": fsync}
    identity = {"system_identifier": data}
    return replace(
        writer, facts=replace(writer.facts, settings=settings, identity=identity)
    )


def test_the_newest_check_comes_first_and_is_compared_with_the_one_before(
    tmp_path: Path,
) -> None:
    run_of(tmp_path, 1)
    run_of(tmp_path, 2, replace(node_of(2), audit=()))
    audit = (UNSAFE, replace(UNSAFE, rule="a-note", severity=Severity.NOTE))
    run_of(tmp_path, 3, replace(node_of(3, "off"), audit=audit), lost=1)
    (server,) = read_history(tmp_path).servers
    assert [one.verdict for one in server.checks] == [FAIL, PASS, PASS]
    assert [one.began[:10] for one in server.checks] == [
        f"2026-01-0{number}" for number in (3, 2, 1)
    ]
    assert server.new_findings == (str(UNSAFE),)
    assert server.gone_findings == ()
    assert server.rate_ratio == pytest.approx(1.0)
    assert [(one.name, one.before, one.now) for one in server.changes] == [
        ("fsync", "on", "off")
    ]
    first = server.checks[-1]
    assert first.findings is None  # no audit could be made
    assert first.statistics is not None
    assert (first.statistics.cuts, first.statistics.losses) == (1, 0)
    assert json.loads(json.dumps(to_values(server)))


def test_each_server_has_its_own_and_what_failed_comes_first(tmp_path: Path) -> None:
    run_of(tmp_path, 1)
    run_of(tmp_path, 2, node_of(2, data="2"), lost=1)
    run_of(tmp_path, 3, node_of(3, data="3"), restarted=False)
    run = RunFolder.create(tmp_path, manifest_of(4, node_of(4, data="4")))
    run.write_cut_asked(CutAsked(1))
    RunFolder.create(tmp_path, manifest_of(5))  # it ended before its cut
    servers = read_history(tmp_path).servers
    assert [one.newest.verdict for one in servers] == [FAIL, None, INCONCLUSIVE, PASS]
    assert all(len(one.checks) == 1 and not one.changes for one in servers)
    assert all(one.rate_ratio is None for one in servers)


def test_a_campaign_is_one_check_with_its_bound(tmp_path: Path) -> None:
    run_of(tmp_path, 1)
    created = "2026-01-02T00:00:00+00:00"
    plan = replace(PLAN, created=created, cuts=2, control=False)
    folder = CampaignFolder.create(tmp_path / "campaign", plan)
    for number in (2, 3):
        run = run_of(folder.runs, number)
        verdict = CycleVerdict.PASS
        folder.add(Cycle(number - 1, run.name, "steady", 1.0, verdict, "", created))
    (server,) = read_history(tmp_path).servers
    assert [one.kind for one in server.checks] == ["campaign", "run"]
    assert (server.newest.verdict, server.newest.began) == (PASS, created)
    assert server.newest.statistics is not None
    assert server.newest.statistics.cuts == 2


def test_what_cannot_be_read_is_named_beside_the_rest(tmp_path: Path) -> None:
    run_of(tmp_path, 1)
    damaged = run_of(tmp_path, 2)
    (damaged / "verdict.json").write_text("{}")
    (tmp_path / "matrix-1.json").touch()
    (tmp_path / "notes").mkdir()
    history = read_history(tmp_path)
    assert len(history.servers) == 1
    assert list(history.unread) == [str(damaged)]


def test_a_control_is_no_check(tmp_path: Path) -> None:
    made = run_of(tmp_path, 1)
    changed = replace(manifest_of(1), control=True)
    (made / "manifest.json").write_bytes(stored.to_bytes(changed))
    with refused(ErrorId.NOT_A_RESULT_FOLDER, UsageError):
        read_history(tmp_path)


def test_a_control_that_failed_is_a_check(tmp_path: Path) -> None:
    run_of(tmp_path, 1)
    failed = run_of(tmp_path, 2)
    changed = replace(manifest_of(2), control=True)
    (failed / "manifest.json").write_bytes(stored.to_bytes(changed))
    values = json.loads((failed / "verdict.json").read_bytes())
    del values["format"], values["sha256"]
    values |= {"control": True, "verdict": "FAIL", "statistics": None}
    RunFolder.open(failed).write_verdict(values)
    (server,) = read_history(tmp_path).servers
    assert (server.newest.kind, server.newest.verdict) == ("control", FAIL)
    assert server.newest.statistics is None


def test_the_verdict_of_another_run_is_not_believed(tmp_path: Path) -> None:
    passed, lost = run_of(tmp_path, 1), run_of(tmp_path, 2, lost=1)
    (lost / "verdict.json").write_bytes((passed / "verdict.json").read_bytes())
    (server,) = read_history(tmp_path).servers
    assert server.newest.verdict is None
    assert "another run" in server.newest.reason


def test_a_loss_stays_named_after_a_check_that_passed(tmp_path: Path) -> None:
    lost = run_of(tmp_path, 1, lost=1)
    run_of(tmp_path, 2)
    (server,) = read_history(tmp_path).servers
    first, second, *_ = lines(server)
    assert first.startswith("PASS")
    assert second.startswith("FAIL on 2026-01-01")
    assert str(lost) in second


def test_a_cut_of_a_campaign_that_is_not_judged_leaves_no_bound(tmp_path: Path) -> None:
    plan = replace(PLAN, cuts=1, control=False)
    folder = CampaignFolder.create(tmp_path / "campaign", plan)
    run = run_of(folder.runs, 1)
    folder.add(Cycle(1, run.name, "steady", 1.0, CycleVerdict.PASS, "", "", depth=""))
    assert make_result(folder).verdict is PASS
    pending = RunFolder.create(folder.runs, manifest_of(2))
    assert make_result(folder).unjudged == ()  # it may have ended before its cut
    pending.write_cut_asked(CutAsked(1))
    result = make_result(folder)
    assert (result.verdict, result.unjudged) == (INCONCLUSIVE, (pending.path.name,))
    assert result.statistics.loss_ppm_max == PPM
    box = summarize_campaign(result)
    assert "is not judged" in box.headline
    assert "--resume" in box.action
    assert "bound" not in [tile.name for tile in box.tiles]
    (server,) = read_history(tmp_path).servers
    assert (server.newest.verdict, "no bound" in server.newest.reason) == (
        INCONCLUSIVE,
        True,
    )


def test_a_campaign_with_a_cut_that_is_not_judged_is_not_compared(
    tmp_path: Path,
) -> None:
    folder = CampaignFolder.create(tmp_path / "my campaign", PLAN)
    run = run_of(folder.runs, 1)
    folder.add(Cycle(1, run.name, "steady", 1.0, CycleVerdict.PASS, "", "", depth=""))
    other = run_of(tmp_path, 3)
    assert compare_folders(folder.path, other, FrameLogReader()).a.statistics.cuts == 1
    pending = RunFolder.create(folder.runs, manifest_of(2))
    pending.write_cut_asked(CutAsked(1))
    for pair in ((folder.path, other), (other, folder.path)):
        with refused(
            ErrorId.NO_FINAL_VERDICT, UsageError, naming=pending.path.name
        ) as caught:
            compare_folders(*pair, FrameLogReader())
        command = shlex.join(["dbcheck", "campaign", "--resume", str(folder.path)])
        assert caught.value.hint.endswith(command)
