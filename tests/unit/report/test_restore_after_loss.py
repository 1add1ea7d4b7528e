"""Reports on a stored run whose lost server was restored elsewhere, and read there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.chosen import open_chosen
from dbcheck.campaign.history import read_history
from dbcheck.cli.report import read_result
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import CopyResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.matrix import draw_copies
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.subject import RunSubject
from dbcheck.report.verdict import verdict_report
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, contents
from tests.kit.copied_run import COPY_HOST, stored_lost_run
from tests.kit.refusals import refused
from tests.kit.reports import printed

RPO_S, REACH_S = 0.4, 0.1


def shown(run: RunFolder) -> tuple[RunSubject, CopyResult]:
    """Return what is reported of *run*, judged from its folder alone."""
    subject = read_result(run.path)
    assert isinstance(subject, RunSubject)
    assert subject.result.copy is not None
    return subject, subject.result.copy


def as_text(subject: RunSubject) -> str:
    return " ".join(printed(verdict_report(subject.result)).split())


@pytest.mark.parametrize("formatted", [as_text, as_html, format_markdown, format_junit])
def test_each_report_has_the_objective_and_what_was_lost(
    formatted: Callable[[RunSubject], str], tmp_path: Path
) -> None:
    subject, copy = shown(stored_lost_run(tmp_path, rpo_s=RPO_S, reach_s=REACH_S))
    assert subject.result.verdict is Verdict.PASS
    assert copy.missing
    text = formatted(subject).replace("`", "")
    assert f"objective of {RPO_S} s was met" in text
    assert "lose at most 0.4 s" in text
    assert f"{copy.missing:,} commits, the oldest acknowledged 0.1 s before" in text


def test_a_reach_beyond_the_objective_fails_with_the_seconds(tmp_path: Path) -> None:
    subject, copy = shown(stored_lost_run(tmp_path, rpo_s=REACH_S, reach_s=RPO_S))
    assert subject.result.verdict is Verdict.FAIL
    assert copy.due is not None
    assert copy.due_kept is not None
    assert copy.due_kept < copy.due
    assert "and the objective is 0.1 s" in as_text(subject)
    assert "Do not rely on this archive" in as_text(subject)
    assert "acked before the cut" in as_html(subject)


def test_nothing_lost_says_so_and_has_no_age(tmp_path: Path) -> None:
    subject, copy = shown(stored_lost_run(tmp_path, rpo_s=RPO_S, reach_s=0))
    assert (copy.missing, copy.reached_s) == (0, (0.0, 0.0))
    assert "no commit was lost with the server" in as_text(subject)


def test_it_can_be_judged_once_more_from_its_folder(tmp_path: Path) -> None:
    run = stored_lost_run(tmp_path, rpo_s=RPO_S, reach_s=REACH_S)
    first, second = (judge_run(run, FrameLogReader()).result for _ in range(2))
    assert first == second


def test_metrics_and_history_tell_it_from_a_run_and_from_a_snapshot(
    tmp_path: Path,
) -> None:
    run = stored_lost_run(tmp_path / "runs", rpo_s=RPO_S, reach_s=REACH_S)
    text = format_metrics(shown(run)[0])
    assert 'kind="restore"' in text
    (lost_s,) = re.findall(r"dbcheck_lost_seconds\{.*\} (\S+)", text)
    assert float(lost_s) == pytest.approx(REACH_S, abs=0.05)
    judge_run(run, FrameLogReader())
    (server,) = read_history(tmp_path / "runs").servers
    (check,) = server.checks
    assert (check.kind, check.statistics) == ("restore", None)


def test_several_have_what_was_lost_in_all_and_its_age(tmp_path: Path) -> None:
    run = stored_lost_run(tmp_path, rpo_s=RPO_S, reach_s=REACH_S)
    subject, copy = shown(run)
    text = printed(draw_copies([subject.result] * 2))
    (line, _) = (one.split() for one in text.splitlines() if "PASS" in one)
    assert line[2:6] == [f"{copy.due:,}", "0", f"{copy.missing:,}", "0.1"]


def test_it_is_not_counted_with_cuts(tmp_path: Path) -> None:
    run = stored_lost_run(tmp_path, rpo_s=RPO_S, reach_s=REACH_S)
    with refused(ErrorId.RUNS_NOT_OF_ONE_SERVER, UsageError, naming="restored copy"):
        open_chosen([run.path])


def test_a_redacted_bundle_does_not_name_where_it_was_restored(tmp_path: Path) -> None:
    run = stored_lost_run(tmp_path, rpo_s=RPO_S, reach_s=REACH_S)
    file = tmp_path / "bundle"
    bundle_of(run.path, file, redact=True)
    assert not any(COPY_HOST.encode() in content for _, content in contents(file))
