"""The table of a matrix: what it shows, and what it must not hide."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dbcheck.judge.result import RunResult
from dbcheck.judge.results import DemoRow
from dbcheck.model.verdict import PPM, Verdict
from dbcheck.report.html.matrixpage import make_matrix_values
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.matrix import draw_cycles, draw_demo, draw_matrix
from dbcheck.report.rows import Line, compare_lines, make_matrix_result
from dbcheck.report.words import matrix as words
from tests.kit.reports import printed, run_result


def cycle(
    verdict: str = "PASS",
    *,
    rate: float = 1000.0,
    control: bool = False,
    lost: int | None = 0,
    **other: Any,
) -> RunResult:
    return run_result(
        {
            "verdict": verdict,
            "reasons": [f"why it is {verdict}"],
            "control": control,
            "load": {"rate": rate, "latency_ms": {"p99": rate / 100}},
            "losses": None if lost is None else {"missing-tail": lost},
            "earlier_losses": {},
            "depth": {"depth": "DRIVE"},
            "lab": {"cut": "drive", "drive": {"kept_writes": "none"}},
            "cut_class": "lab drive",
            **other,
        }
    )


SAFE = Line("safe", "", Verdict.PASS, 50.0, [cycle(rate=r) for r in (10, 30, 20)], "")
LOSSY = Line("lossy", "", Verdict.FAIL, 50.0, [cycle("FAIL", lost=9), cycle()], "")
BROKEN = Line("broken", "", None, None, [], "it did not start")


def test_a_rate_is_the_median_and_its_price_is_that_of_durable_commits() -> None:
    values = SAFE.result()
    assert values.commits_per_s == 20
    assert values.p99_ms == 0.2
    assert values.price_per_durable_commit_per_s == 2.5
    assert LOSSY.result().price_per_durable_commit_per_s is None


def test_one_loss_decides_a_verdict() -> None:
    values = LOSSY.result()
    assert (values.verdict, values.lost) == (Verdict.FAIL, 9)
    assert (values.statistics.losses, values.statistics.cuts) == (1, 2)


def test_a_control_that_lost_what_it_must_is_a_configuration_that_loses() -> None:
    line = dataclasses.replace(LOSSY, cycles=[cycle(control=True, lost=5)])
    assert (line.verdict, line.tally.losses, line.tally.cuts) == (Verdict.FAIL, 1, 1)


def test_a_server_that_did_not_come_back_lost_all() -> None:
    line = dataclasses.replace(LOSSY, cycles=[cycle("FAIL", lost=None)])
    assert line.lost is None
    assert " all " in printed(draw_matrix(make_matrix_result([line])))


@pytest.mark.parametrize(
    ("line", "good"),
    [
        (SAFE, True),
        (dataclasses.replace(SAFE, expect=None), True),
        (dataclasses.replace(SAFE, expect=Verdict.FAIL), False),
        (dataclasses.replace(SAFE, error="interrupted"), False),
        (dataclasses.replace(SAFE, expect=None, cycles=[cycle("INCONCLUSIVE")]), False),
        (BROKEN, False),
    ],
)
def test_a_line_is_as_expected_only_if_it_ran_to_its_end(
    line: Line, good: bool
) -> None:
    assert line.as_expected is good


@pytest.mark.parametrize("columns", [80, 120])
def test_a_line_that_failed_hides_no_other(columns: int) -> None:
    text = printed(
        draw_matrix(make_matrix_result([SAFE, BROKEN, LOSSY], 0, "About it")), columns
    )
    assert "About it" in text
    for line, verdict in ((SAFE, "PASS"), (LOSSY, "FAIL")):
        assert any(
            row.startswith(line.name) and verdict in row for row in text.splitlines()
        )
    assert "broken: it did not start" in text
    flat = " ".join(text.split())
    assert "safe: no loss in 3 cuts at DRIVE depth: at most 64% of cuts lose" in flat
    assert "not a real drive" in flat
    assert all(len(row) <= columns for row in text.splitlines())


def test_what_comes_out_otherwise_is_told() -> None:
    text = printed(
        draw_matrix(
            make_matrix_result([dataclasses.replace(SAFE, expect=Verdict.FAIL)])
        )
    )
    assert "safe: expected FAIL, got PASS" in text


def test_a_doubt_is_told_once() -> None:
    cycles = [cycle("INCONCLUSIVE"), cycle(), cycle("INCONCLUSIVE")]
    text = printed(
        draw_matrix(make_matrix_result([dataclasses.replace(SAFE, cycles=cycles)]))
    )
    assert text.count("why it is INCONCLUSIVE") == 1
    assert "2 cycles inconclusive, not counted" in text


def test_references_stand_below_the_names() -> None:
    line = dataclasses.replace(SAFE, reference="50/s elsewhere")
    text = printed(
        draw_matrix(make_matrix_result([line], reference="what others saw")), 80
    )
    assert "\n50/s elsewhere" in text
    assert "In grey: what others saw." in text


def test_two_lines_are_compared() -> None:
    text = printed(draw_matrix(make_matrix_result([SAFE, LOSSY])))
    assert "safe against lossy: losses in 0 of 3 cuts against 1 of 2" in text
    assert compare_lines([SAFE, LOSSY, BROKEN]) is None


def comparison_of(*cycles: RunResult) -> list[str]:
    """Return what a matrix says of two rows, "a" and "b", of a cycle each."""
    rows = zip("ab", cycles, strict=True)
    lines = [Line(name, "", None, None, [one], "") for name, one in rows]
    result = make_matrix_result(lines)
    found = [text for text in words.proofs(result) if "be compared" in text]
    for report in (printed(draw_matrix(result)), format_markdown(result)):
        assert ("be compared" in " ".join(report.split())) is bool(found)
    assert [*make_matrix_values(result)["proofs"]] == [*words.proofs(result)]
    return found


OS, PROCESS = {"depth": "OS"}, {"depth": "PROCESS"}
AC = {"cut_class": "AC"}


@pytest.mark.parametrize(
    "verdicts", [("PASS", "PASS"), ("PASS", "FAIL"), ("FAIL", "PASS")]
)
@pytest.mark.parametrize(
    ("depth", "named"), [(OS, "OS"), (PROCESS, "PROCESS"), (None, "not measured")]
)
def test_rows_whose_cuts_reached_different_depths_are_not_compared_in_silence(
    depth: dict[str, str] | None, named: str, verdicts: tuple[str, str]
) -> None:
    first, second = verdicts
    assert comparison_of(cycle(first, depth=depth), cycle(second)) == [
        f"The cuts did not reach the same depth (a: {named}; b: DRIVE). A deeper cut"
        " can lose more, so their losses cannot be compared."
    ]


@pytest.mark.parametrize(
    ("cut", "other", "named"),
    [
        ({"cut_class": "process"}, {}, "a: process; b: lab drive"),
        (AC, {**AC, "power_scope": "drive"}, "a: AC; b: AC, the drives alone"),
    ],
)
def test_rows_with_other_kinds_of_cuts_are_not_compared_in_silence(
    cut: dict[str, Any], other: dict[str, Any], named: str
) -> None:
    assert comparison_of(cycle(**cut), cycle(**other)) == [
        f"The cuts differ in what was cut ({named}), so their losses cannot be"
        " compared."
    ]


@pytest.mark.parametrize(
    "other",
    [
        cycle(),
        cycle("INCONCLUSIVE", depth=OS, cut_class="AC"),
        cycle("FAIL", uncut=True, depth=OS, cut_class="AC"),
    ],
)
def test_rows_with_equal_cuts_or_none_that_counts_are_not_warned_of(
    other: RunResult,
) -> None:
    assert comparison_of(cycle(), other) == []


def test_what_was_cut_is_said_of_cuts_that_count_alone() -> None:
    unclear = cycle("INCONCLUSIVE", cut_class="AC")
    shown = make_matrix_result([Line("a", "", None, None, [cycle(), unclear], "")])
    said = " ".join(words.scopes(shown))
    assert "What was cut: the power of a lab's virtual drive." in said
    assert "AC" not in said


def test_a_loss_without_a_power_cut_is_told_beside_the_bounds() -> None:
    uncut = cycle("FAIL", lost=9, uncut=True, cut_class="AC")
    result = make_matrix_result([Line("a", "", None, None, [cycle(), uncut], "")])
    first, bound = words.proofs(result)
    assert first == (
        "FAIL of a: 1 cycle lost something without a power cut on record, not counted"
        " as a cut."
    )
    assert bound.startswith("a: no loss in 1 cut at DRIVE depth")
    assert "AC" not in " ".join(words.scopes(result))
    case = format_junit(result)
    assert case.index("FAIL: 1 cycle lost something") < case.index("no loss in 1 cut")


def test_a_loss_without_a_power_cut_fails_a_row_and_moves_no_bound() -> None:
    lost = cycle("FAIL", lost=9, uncut=True)
    line = dataclasses.replace(SAFE, cycles=[*SAFE.cycles, lost])
    row, without = line.result(), SAFE.result()
    assert row.verdict is row.shown_verdict is Verdict.FAIL
    assert (row.as_expected, row.price_per_durable_commit_per_s) == (False, None)
    assert row.statistics == without.statistics
    assert (row.statistics.losses, row.statistics.cuts, row.lost) == (0, 3, 9)
    compared = compare_lines([line, LOSSY])
    assert compared == compare_lines([SAFE, LOSSY])

    result = make_matrix_result([line])
    assert words.summarize_matrix(result).proof == ""
    cells = [*words.cells(row, result)]
    assert cells[words.columns(result).index("lossy cuts")] == "0 of 3"
    (told,) = (t for t in printed(draw_matrix(result)).splitlines() if "0 of 3" in t)
    assert "FAIL" in told

    by_cut = dataclasses.replace(lost, uncut=False)
    cut = dataclasses.replace(line, cycles=[*SAFE.cycles, by_cut]).result()
    assert (cut.statistics.losses, cut.statistics.cuts) == (1, 4)


def test_a_row_that_lost_only_without_a_power_cut_has_no_bound() -> None:
    lost = cycle("FAIL", lost=9, uncut=True)
    result = make_matrix_result([dataclasses.replace(SAFE, cycles=[lost])])
    (row,) = result.rows
    assert row.verdict is Verdict.FAIL
    shown = row.statistics
    assert (shown.losses, shown.cuts, shown.loss_ppm_max) == (0, 0, PPM)
    assert "this proves nothing" in shown.sentence
    (said,) = words.proofs(result)
    assert said.startswith("FAIL of safe: 1 cycle lost something")


UNREAD = cycle("INCONCLUSIVE", lost=None)


@pytest.mark.parametrize(
    ("cycles", "lost"),
    [
        ([UNREAD], "-"),
        ([UNREAD, cycle()], "0"),
        ([cycle("INCONCLUSIVE", lost=40), cycle()], "0"),
        ([UNREAD, cycle("FAIL", lost=None)], "all"),
    ],
)
def test_only_cycles_that_count_have_lost_something(
    cycles: list[RunResult], lost: str
) -> None:
    result = make_matrix_result([dataclasses.replace(SAFE, cycles=cycles)])
    cells = [*words.cells(result.rows[0], result)]
    assert cells[words.columns(result).index("lost")] == lost


def test_a_cycle_whose_rows_were_not_read_did_not_lose_all_of_them() -> None:
    demo = draw_demo([DemoRow("a case", Verdict.PASS, UNREAD)])
    for table in (draw_cycles([UNREAD]), demo):
        rows = [row for row in printed(table).splitlines() if "INCONCLUSIVE" in row]
        assert rows and not any(" all " in row for row in rows)
    line = dataclasses.replace(SAFE, cycles=[UNREAD])
    page = make_matrix_values(make_matrix_result([line]))
    assert page["cycles"][0].cells[-1] == "-"


def test_a_line_that_did_not_run_to_its_end_is_no_pass_on_a_terminal() -> None:
    ended = make_matrix_result([dataclasses.replace(SAFE, error="interrupted")])
    assert "PASS" not in printed(draw_matrix(ended))
    assert "verdict: none" in format_junit(ended)
