"""The page and the terminal of a go-live check: what each verdict shows."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from dbcheck.model.golive import ASSUMED, GoLiveResult, StepId, StepStatus
from dbcheck.model.verdict import Verdict
from dbcheck.report import golive as report
from dbcheck.report.console import make_console
from dbcheck.report.html.golivepage import make_golive_values
from dbcheck.report.html.page import format_golive_page
from dbcheck.report.words import golive as words
from tests.kit.golives import CUTS, golive_result
from tests.kit.reports import EVIL, is_harmless, printed
from tests.kit.subjects import MARKUP


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_a_pass_can_be_signed(verdict: Verdict) -> None:
    page = format_golive_page(golive_result("", verdict))
    is_pass = verdict is Verdict.PASS
    assert ("signature" in page) is is_pass
    assert ("Not to be signed" in page) is not is_pass
    assert ("dbcheck clean db1" in page) is is_pass


def test_the_page_names_each_step_its_command_and_what_is_to_be_accepted() -> None:
    result = golive_result("")
    result = replace(
        result,
        steps=tuple(
            replace(step, to_accept=(f"accept {step.step.value}",), command="dbcheck x")
            for step in result.steps
        ),
    )
    page = format_golive_page(result)
    for step in StepId:
        assert words.ABOUT[step].title in page
        assert f"accept {step.value}" in page
    assert page.count("<code>dbcheck x</code>") == len(StepId)
    assert f"{CUTS} of {CUTS}" in page
    assert "24%" in page
    for paper in result.papers:
        assert paper.sha256 in page


@pytest.mark.parametrize("text", [MARKUP, EVIL])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_no_text_of_a_server_becomes_markup(text: str, verdict: Verdict) -> None:
    page = format_golive_page(golive_result(text, verdict))
    assert "<script" not in page
    assert "<img" not in page
    assert is_harmless(page)
    assert "49" not in re.findall(r"\b49\b", page)  # of {{ 7*7 }}


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    result = golive_result("")
    drawn = [
        report.draw_golive(result),
        *map(report.draw_ending, result.steps),
        *map(report.draw_kept, result.steps),
        report.draw_repeated(StepId.AUDIT, ["fsync was on and is off"]),
    ]
    for each in drawn:
        assert all(len(line) <= columns for line in printed(each, columns).split("\n"))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_terminal_obeys_no_text(verdict: Verdict) -> None:
    file, result = io.StringIO(), golive_result(EVIL, verdict)
    console = make_console(file=file, width=80)
    console.print(report.draw_golive(result))
    for step in result.steps:
        console.print(report.draw_ending(step))
        console.print(report.draw_kept(step))
    console.print(report.draw_repeated(StepId.AUDIT, [EVIL]))
    console.print(report.draw_question(EVIL))
    assert is_harmless(file.getvalue())


def headlines(result: GoLiveResult) -> str:
    return " ".join([words.headline(result), *words.proofs(result)])


def test_the_headline_says_what_to_do() -> None:
    stopped = headlines(golive_result("", Verdict.INCONCLUSIVE))
    assert "Fix ." in stopped
    assert "dbcheck golive --resume golive/1" in stopped
    failed = headlines(golive_result("", Verdict.FAIL))
    assert "must not go live" in failed
    assert "--resume" not in failed  # no further cut takes a loss back
    passed = headlines(golive_result(""))
    assert "at most 24% of cuts lose" in passed
    assert "accept by name" in passed


def test_the_time_of_a_campaign_is_told_from_the_first_cut() -> None:
    takes = words.describe_duration(StepId.CAMPAIGN, 59, 59, 240.0)
    assert "3.9 h, as" in takes
    assert "22 min" in words.describe_duration(StepId.CAMPAIGN, 11, 11, 120.0)
    assert words.describe_duration(StepId.AUDIT, 11, 11, 120.0) == "seconds"
    half = words.describe_duration(StepId.CAMPAIGN, 11, 5, 120.0)
    assert "10 min for the 5 of 11 cuts to come" in half


def test_what_both_campaigns_assumed_is_accepted_once() -> None:
    result = golive_result("")
    off = {
        StepId.FIRST_CUT: (f"{ASSUMED}time-off: 21 s by the clock", "no control"),
        StepId.CAMPAIGN: (f"{ASSUMED}time-off: 24 s", f"{ASSUMED}cut-class: AC"),
    }
    steps = [replace(s, to_accept=off.get(s.step, ())) for s in result.steps]
    told = replace(result, steps=tuple(steps)).to_accept
    assert told == (
        f"{ASSUMED}time-off: 24 s",
        "no control",
        f"{ASSUMED}cut-class: AC",
    )


def test_a_step_that_cannot_be_done_here_has_no_command() -> None:
    result = golive_result("")
    power = replace(
        result.steps[3], status=StepStatus.LEFT_OUT, command="dbcheck power test db1"
    )
    steps = (*result.steps[:3], power, *result.steps[4:])
    assert "dbcheck power test" not in format_golive_page(replace(result, steps=steps))


def test_the_page_names_no_program_as_the_person_who_checked() -> None:
    facts = dict(make_golive_values(golive_result(""))["facts_shown"])
    assert facts["program"] == "dbcheck 1"
    assert "by" not in facts
