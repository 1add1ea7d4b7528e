"""The table of a matrix whose servers are copied: what the restores brought back."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from dbcheck.judge.result import CopyResult, RunResult
from dbcheck.judge.results import MatrixResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.html.matrixpage import make_matrix_values
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.matrix import draw_matrix
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.words import matrix as words
from tests.kit.reports import printed, run_result

# 400 commits before it, 100 while it was taken in 2 s, 500 after it.
BESIDE = CopyResult("postgresql://u@copy/d", 2.0, 6.0, 450, 450, 50, 50, 10, 500, 0)
LOST = CopyResult(
    *("postgresql://u@copy/d", None, 3.0, 450, 450, 0, 50, 20, 0, 0),
    rpo_s=5.0,
    missing=30,
    reached_s=(0.7, 1.23),
)


def cycle(
    copy: CopyResult | None, verdict: str = "PASS", lost: int | None = 0, **other: Any
) -> RunResult:
    values: dict[str, Any] = {
        "verdict": verdict,
        "reasons": [f"why it is {verdict}"],
        "load": {"rate": 100.0, "latency_ms": {}},
        "losses": None if lost is None else {"missing-tail": lost},
        "earlier_losses": {},
        "cut_class": "lab drive",
    }
    return run_result({**values, "copy": copy and asdict(copy), **other})


def line(*cycles: RunResult, name: str = "a", restore: str = "archive") -> Line:
    return Line(name, "", None, None, cycles, "", restore=restore)


def cells(result: MatrixResult, place: int = 0) -> dict[str, str]:
    heads = words.columns(result)
    return dict(zip(heads, words.cells(result.rows[place], result), strict=True))


def test_a_rate_while_copying_stands_beside_the_rate_without() -> None:
    result = make_matrix_result([line(cycle(BESIDE), restore="dump")])
    (row,) = result.rows
    # 1,000 commits at 100 a second are 10 s: 900 of them in the 8 s beside the copy.
    assert row.commits_per_s == 112.5
    assert row.commits_per_s_while_copied == 50
    shown = cells(result)
    assert (shown["commits/s"], shown["copying"]) == ("112", "50")
    assert (shown["oldest"], shown["restore"]) == ("-", "6.0 s")


def test_a_lost_server_shows_the_most_that_a_restore_lacks() -> None:
    less = replace(LOST, missing=4, reached_s=(0.1, 0.4), restore_s=5.0)
    result = make_matrix_result([line(cycle(less), cycle(LOST), cycle(less))])
    shown = cells(result)
    assert (shown["lost"], shown["oldest"], shown["failed"]) == (
        "30",
        "1.3 s",
        "0 of 3",
    )
    assert (shown["copying"], shown["restore"]) == ("-", "5.0 s")


@pytest.mark.parametrize(
    "unknown", [replace(LOST, missing=None), replace(LOST, reached_s=None)]
)
def test_what_one_restore_lacks_is_no_most_if_another_is_not_known(
    unknown: CopyResult,
) -> None:
    shown = cells(make_matrix_result([line(cycle(LOST), cycle(unknown))]))
    name = "lost" if unknown.missing is None else "oldest"
    assert shown[name] == "-"


def test_a_restore_without_its_table_lost_all() -> None:
    gone = replace(LOST, missing=None, reached_s=None)
    shown = cells(make_matrix_result([line(cycle(gone, "FAIL", None))]))
    assert (shown["lost"], shown["failed"]) == ("all", "1 of 1")
    unread = cells(make_matrix_result([line(cycle(gone, "INCONCLUSIVE", None))]))
    assert (unread["lost"], unread["failed"]) == ("-", "-")


def test_no_restore_counts_as_a_cut() -> None:
    """Else 59 honest copies would bound the losses of cuts that were never made."""
    failed = cycle(replace(BESIDE, due_kept=440), "FAIL", 10, uncut=True)
    lines = [line(cycle(LOST), cycle(LOST)), line(cycle(BESIDE), failed, name="b")]
    result = make_matrix_result(lines)
    assert [row.statistics.cuts for row in result.rows] == [0, 0]
    text = " ".join(words.proofs(result))
    assert "a: 2 of 2 copies came back with every commit that must be there." in text
    assert "b: 1 of 2 copies came back" in text
    assert "1 of them failed" in text
    for shown in (text, printed(draw_matrix(result)), format_markdown(result)):
        assert not re.search(r"bound|at most \d+%|without a power cut on", shown)
    assert "dbcheck_cuts" not in format_metrics(result)
    assert "2 of 2 copies" in format_junit(result)


def test_a_row_whose_power_was_cut_keeps_its_bound_beside_restores() -> None:
    lab = {"cut": "drive", "drive": {"kept_writes": "none"}}
    cut = cycle(None, lab=lab, depth={"depth": "DRIVE"})
    result = make_matrix_result([line(cut, name="none", restore=""), line(cycle(LOST))])
    text = " ".join(words.proofs(result))
    assert "none: no loss in 1 cut at DRIVE depth" in text
    scopes = " ".join(words.scopes(result))
    assert "What was cut: the power of a lab's virtual drive." in scopes
    assert "what was shipped until the power was cut was restored and read" in scopes
    assert cells(result)["failed"] == "0 of 1"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_row_is_shown_whole(columns: int) -> None:
    named = [line(cycle(LOST), name="PostgreSQL archive, 5 commits/s, no timeout")]
    named.append(line(cycle(BESIDE, "INCONCLUSIVE"), name="b", restore="dump"))
    text = printed(draw_matrix(make_matrix_result(named)), columns)
    table = [row for row in text.splitlines() if re.search(r"30 +1\.3 s +3\.0 s", row)]
    assert len(table) == 1 and " PASS " in table[0]
    assert " INCONCLUSIVE " in text
    assert all(len(row) <= columns for row in text.splitlines())


def test_a_page_shows_what_was_lost_first_and_no_depth() -> None:
    page = make_matrix_values(make_matrix_result([line(cycle(LOST))]))
    assert page["columns"][:3] == ["configuration", "lost", "oldest"]
    assert page["proven"] == "What the restores prove"
    assert page["cycles"][0].cells[2] == "-"
    assert any(note.startswith("copying: ") for note in page["notes"])


def test_the_next_step_is_to_try_the_restore_of_the_real_server() -> None:
    result = make_matrix_result([line(cycle(LOST))])
    summary = words.summarize_matrix(result)
    assert "dbcheck run --restore" in summary.action
    assert (summary.verdict, summary.proof) == (Verdict.PASS, "")
    assert summary.tiles[-1].name == "cycles of each"


def test_a_restore_without_a_verdict_lost_nothing_that_is_known() -> None:
    """Else a server that still applied its log would stand there as lost commits."""
    unclear = cycle(replace(LOST, missing=900, reached_s=(9.0, 9.5)), "INCONCLUSIVE")
    shown = cells(make_matrix_result([line(cycle(LOST), unclear)]))
    assert (shown["lost"], shown["oldest"]) == ("30", "1.3 s")
    unread = cycle(replace(LOST, missing=None, reached_s=None), "INCONCLUSIVE", None)
    shown = cells(make_matrix_result([line(cycle(LOST, "FAIL", 5), unread)]))
    assert (shown["lost"], shown["oldest"]) == ("30", "1.3 s")


def test_a_restore_gives_no_price_of_durable_commits() -> None:
    """It does not show that the commits of the server last on its own drive."""
    restored = replace(line(cycle(BESIDE), restore="dump"), price=10.0)
    assert restored.price_per_rate is None
    assert replace(restored, restore="").price_per_rate is not None


def test_a_restore_that_kept_its_objective_is_not_said_to_have_lost_nothing() -> None:
    summary = words.summarize_matrix(make_matrix_result([line(cycle(LOST))]))
    assert summary.headline == "No configuration failed."
    assert "that passed" in summary.action
    assert summary.tiles[1].name == "failed"
    failed = make_matrix_result([line(cycle(LOST, "FAIL", 5))])
    assert words.summarize_matrix(failed).headline == "1 of 1 configuration failed: a."
