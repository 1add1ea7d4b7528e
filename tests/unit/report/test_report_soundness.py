"""No report says more than its result: controls, losses that nobody counted, depths."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.compare import compare_folders
from dbcheck.cli.report import read_result
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.results import CampaignResult, CampaignsResult, DifferenceResult
from dbcheck.model.family import FAMILIES, MYSQL, POSTGRESQL
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.report.formats import format_report
from dbcheck.report.junit import format_junit
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.words import campaign_table
from dbcheck.report.words import compare as of_compare
from dbcheck.report.words.run import scope, sections, tally
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import stored_copy
from tests.kit.poisoned_reports import poisoned_campaign
from tests.kit.refusals import refused
from tests.kit.reports import run_result
from tests.kit.subjects import subject_of

CONTROL, PASSED = "postgresql-control", "postgresql-pass"
PROCESS = "process"


def test_a_control_that_passed_is_no_pass_of_its_server(tmp_path: Path) -> None:
    subject = read_result(stored_copy(CONTROL, tmp_path))
    metrics = format_report(subject, "prometheus")
    kinds = re.findall(
        r'dbcheck_verdict\{.*kind="(\w+)".*verdict="PASS"\} 1.0', metrics
    )
    assert kinds == ["control"]
    assert 'classname="dbcheck.control"' in format_report(subject, "junit")
    for kind in ("text", "html", "md", "junit"):
        text = " ".join(format_report(subject, kind).split())
        assert "says nothing about the server" in text, kind


def test_a_control_is_compared_with_nothing(tmp_path: Path) -> None:
    control, passed = (stored_copy(name, tmp_path) for name in (CONTROL, PASSED))
    for pair in ((control, passed), (passed, control)):
        with refused(ErrorId.CONTROL_NOT_COMPARABLE, UsageError):
            compare_folders(*pair, FrameLogReader())


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    passed = stored_copy(PASSED, tmp_path)
    with refused(ErrorId.COMPARED_WITH_ITSELF, UsageError):
        compare_folders(passed, passed / ".." / passed.name, FrameLogReader())


def test_a_run_without_a_final_verdict_is_not_compared(tmp_path: Path) -> None:
    passed = stored_copy(PASSED, tmp_path)
    waiting = RunFolder.open(stored_copy(PROCESS, tmp_path / "my runs"))
    after = waiting.after()
    nodes = {
        name: replace(node, facts=None, host=None) for name, node in after.nodes.items()
    }
    found = replace(after, nodes=nodes, survivors={}, unanswered="it did not answer")
    waiting.write_after(found)
    judged = judge_run(waiting, FrameLogReader()).result
    assert (judged.final, judged.family) == (False, POSTGRESQL.name)
    with refused(ErrorId.NO_FINAL_VERDICT, UsageError) as caught:
        compare_folders(waiting.path, passed, FrameLogReader())
    command = shlex.join(["dbcheck", "reconcile", str(waiting.path)])
    assert caught.value.hint.endswith(command)


def test_cuts_of_different_depths_are_not_compared_in_silence(tmp_path: Path) -> None:
    passed, process = (stored_copy(name, tmp_path) for name in (PASSED, PROCESS))
    found = compare_folders(process, passed, FrameLogReader())
    assert "A: PROCESS; B: OS" in " ".join(of_compare.findings(found))
    parted = [each.name for each in found.differences if each.of_the_cut]
    assert parted == ["class of the cut", "lab cut"]
    other = (
        DifferenceResult("what failed", "AC", "reset", of_the_cut=True),
        DifferenceResult("class of the cut", "AC", "reset"),
    )
    text = " ".join(of_compare.findings(replace(found, differences=other)))
    assert "differ in what failed (A: AC; B: reset)" in text
    assert "class of the cut" not in text
    same = compare_folders(
        passed, stored_copy(PASSED, tmp_path / "b"), FrameLogReader()
    )
    assert "same depth" not in " ".join(of_compare.findings(same))


def test_a_comparison_says_that_a_side_failed_without_a_lossy_cut(
    tmp_path: Path,
) -> None:
    a, b = (stored_copy(PASSED, tmp_path / name) for name in ("a", "b"))
    found = compare_folders(a, b, FrameLogReader())
    said = "A is a FAIL although no cut of it that counts lost anything"
    assert said not in " ".join(of_compare.findings(found))
    failed = replace(found, a=replace(found.a, verdict=Verdict.FAIL))
    assert said in " ".join(of_compare.findings(failed))
    bounds = {name: (a, b) for name, a, b in of_compare.rows(failed)}
    assert bounds["cuts that may lose"][0] == "-"
    assert bounds["cuts that may lose"][1] != "-"


def campaign_of(*cycles: tuple[CycleVerdict, int | None]) -> CampaignResult:
    """Return a campaign with such cycles: verdict and lost rows."""
    whole = poisoned_campaign("")
    made = tuple(
        replace(
            whole.cycles[0],
            number=number,
            verdict=verdict,
            lost=lost,
            earlier_lost=None if lost is None else 0,
            confirmed=None if lost is None else 5,
        )
        for number, (verdict, lost) in enumerate(cycles, 1)
    )
    return replace(whole, cycles=made, error="")


FAIL, INCONCLUSIVE = CycleVerdict.FAIL, CycleVerdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("cycles", "lost"),
    [
        (((CycleVerdict.PASS, 0), (FAIL, 3)), "3"),
        (((CycleVerdict.PASS, 0), (INCONCLUSIVE, None)), "0"),
        (((CycleVerdict.PASS, 0), (FAIL, None)), "all"),
    ],
)
def test_rows_of_a_server_that_did_not_come_back_are_not_zero(
    cycles: tuple[tuple[CycleVerdict, int | None], ...], lost: str
) -> None:
    result = campaign_of(*cycles)
    assert [*campaign_table.cells(result, with_price=False)][3] == lost
    metrics = format_metrics(CampaignsResult("/c", (result,)))
    shown = re.findall(r"dbcheck_lost_rows\{.*\} (.*)", metrics)
    assert shown == ([] if lost == "all" else [f"{lost}.0"])


def test_what_no_cycle_counted_is_not_zero() -> None:
    result = campaign_of((INCONCLUSIVE, None))
    none = replace(result.statistics, losses=0, cuts=0)
    result = replace(result, statistics=none, verdict=Verdict.INCONCLUSIVE)
    assert [*campaign_table.cells(result, with_price=False)][3:5] == ["-", "-"]
    metrics = format_metrics(CampaignsResult("/c", (result,)))
    assert "dbcheck_lost_rows{" not in metrics
    assert "dbcheck_confirmed_commits{" not in metrics


def test_a_row_that_ended_with_an_error_is_no_pass() -> None:
    result = subject_of(Verdict.PASS).result
    matrix = make_matrix_result([Line("a", "", None, None, [result], "it broke")])
    assert 'verdict="PASS"} 1.0' not in format_metrics(matrix)
    assert 'chip PASS">PASS</span></td></tr>\n</tbody>' not in format_report(
        matrix, "html"
    )
    (row,) = (
        x for x in format_report(matrix, "md").split("\n") if x.startswith("| a ")
    )
    assert row.endswith("| none |")
    assert 'errors="1"' in format_junit(matrix)


@pytest.mark.wide
def test_a_page_of_many_cycles_stays_small_and_shows_every_loss() -> None:
    verdicts = [FAIL if n % 100 == 7 else CycleVerdict.PASS for n in range(10_000)]
    result = campaign_of(*((verdict, 0) for verdict in verdicts))
    result = replace(result, activities={"steady": 10_000}, windows={})
    began = time.process_time()
    page = format_report(CampaignsResult("/c", (result,)), "html")
    assert time.process_time() - began < 30
    assert len(page.encode()) < 1_500_000
    assert page.count('<span class="chip FAIL">') == 100
    assert "of 10,000 cycles are shown, with 100 of 100 that failed" in page


def test_a_loss_without_a_cut_is_said_to_be_no_cut_that_lost() -> None:
    values = {"losses": {"missing-tail": 9}, "verdict": "FAIL", "uncut": True}
    result = run_result(values)
    text = scope(result)
    assert "no power cut is on record" in text
    assert "one cut" not in text.lower() and "% of them" not in text
    assert (tally(result).cuts, tally(result).losses) == (0, 0)
    row = Line("a", "", None, None, [result], "")
    assert (row.verdict, row.tally.cuts) == (Verdict.FAIL, 0)


def test_a_lost_client_leaves_no_cut_to_speak_of() -> None:
    lab = {"cut": "drive", "drive": {"kept_writes": "none"}}
    unclear = {"verdict": "INCONCLUSIVE", "load": None, "lab": lab}
    assert "a power loss" not in scope(run_result(unclear))
    assert "no power cut is on record" in scope(run_result(unclear))


@pytest.mark.parametrize("family", [*FAMILIES, ""])
@pytest.mark.parametrize("server", ["PostgreSQL 15.1", "MariaDB 11.4"])
def test_innodb_is_no_reason_for_what_another_server_does(
    server: str, family: str
) -> None:
    seen = {"rows": 9, "lost": 1, "first": [], "left_out": 1}
    shown = sections(run_result({"server": server, "family": family, "seen": seen}))
    text = " ".join(line for section in shown for line in section.lines)
    assert "shows rows before they are durable" in text
    assert ("InnoDB" in text) is (family == MYSQL.name)
