"""What each report says of a restored copy: as of a cut, and nothing of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from dbcheck.judge.result import CopyResult, RunResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.formats import format_report
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.subject import RunSubject
from dbcheck.report.verdict import verdict_report
from dbcheck.report.words import copy as words
from dbcheck.report.words.run import headline, limits
from dbcheck.report.words.summary import summarize_run
from tests.kit.reports import printed, run_result

COPY = CopyResult("postgresql://u@copy/d", 3.04, 61.5, 12, 11, 2, 5, 3, 4, 0)
NOTHING = CopyResult("postgresql://u@copy/d", None, *(None,) * 8)
RANGE = {
    **{"kind": "missing-hole", "table": "ledger", "first_id": 7, "last_id": 9},
    **{"rows": 3, "first_acked_before_cut_s": 1.5, "last_acked_before_cut_s": -0.25},
}
LOST: Mapping[str, Any] = {
    **{"verdict": "FAIL", "confirmed": 12, "kept": 11, "unconfirmed": 1},
    **{"losses": {"missing-hole": 3}, "ranges": [RANGE]},
    "reasons": ["1 of the 12 commits that the restored copy must have is missing"],
}
# A control's, a cut's and a drive's words, none of which a copy has a use for.
OF_CUTS = re.compile(r"\bcut\b|\bcuts\b|power|depth|page cache|drive\b", re.IGNORECASE)
SAID_OF_CUTS = "No power was cut, so this says nothing about power cuts."


POINT = replace(COPY, taken_s=None, point_kind="lsn", point="0/3000148", read_s=0.0025)


def result(copy: CopyResult = COPY, **changed: Any) -> RunResult:
    load = {"last_ack_us": 2}
    return run_result({"copy": asdict(copy), "load": load, **changed})


def as_text(subject: RunSubject) -> str:
    return " ".join(printed(verdict_report(subject.result)).split())


FORMATS: tuple[Callable[[RunSubject], str], ...] = (
    *(as_text, as_html, format_junit, format_markdown),
)


@pytest.mark.parametrize("formatted", FORMATS)
@pytest.mark.parametrize("changed", [{}, LOST])
def test_no_report_on_a_copy_speaks_of_a_cut(
    formatted: Callable[[RunSubject], str], changed: Mapping[str, Any]
) -> None:
    text = formatted(RunSubject(result(**changed)))
    assert SAID_OF_CUTS in text
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    assert OF_CUTS.findall(text.replace(SAID_OF_CUTS, "")) == []
    assert "in 61.5 s, at postgresql" in text.replace("`", "")
    assert "12 commits, of which 11 are there" in text


@pytest.mark.parametrize("formatted", [as_text, as_html, format_markdown])
def test_a_lost_commit_has_its_age_at_the_beginning_of_the_copy(
    formatted: Callable[[RunSubject], str],
) -> None:
    text = formatted(RunSubject(result(**LOST)))
    assert "1.500 s before the copy - 0.250 s into the copy" in text


@pytest.mark.parametrize(
    ("ages", "text"),
    [
        ((1.5, 1.5), "1.500 s before the copy"),
        ((1.5, 0.25), "1.500 - 0.250 s before the copy"),
        ((-0.1, -0.2), "0.100 - 0.200 s into the copy"),
        ((None, 1.0), "-"),
    ],
)
def test_ages_are_told_from_the_beginning_of_the_copy(ages: Any, text: str) -> None:
    assert words.describe_ages(result(), *ages) == text


def test_the_facts_tell_which_commits_must_may_and_cannot_be_there() -> None:
    assert dict(words.list_facts(COPY)) == {
        "copy": "taken in 3.0 s",
        "restored": "in 61.5 s, at postgresql://u@copy/d",
        "must be there": "12 commits, of which 11 are there and intact: 10 commits from"
        " before the copy was begun, and 2 that came before a commit that is there",
        "may be there": "5 more commits from while it was taken, of which 3 are there",
        "cannot be there": "4 commits sent after it was taken, of which none is there",
    }
    one = replace(COPY, by_order=0, open=1, open_kept=1, after=1, after_kept=1)
    facts = dict(words.list_facts(one))
    assert facts["must be there"] == "12 commits, of which 11 are there and intact"
    assert facts["may be there"].startswith("1 more commit from")
    assert facts["cannot be there"].endswith("of which 1 is there")


def test_what_is_not_known_of_a_copy_is_left_out() -> None:
    assert dict(words.list_facts(NOTHING)) == {}
    assert list(words.list_tiles(NOTHING)) == []


def test_the_first_figures_are_the_losses_and_the_times() -> None:
    assert list(words.list_tiles(COPY)) == [
        ("commits lost", "1", "of 12 commits that must be there"),
        ("copy", "3.0 s", "from the start of its program to its end"),
        ("restore", "61.5 s", "from the start of its program to its end"),
    ]


def test_each_verdict_says_what_it_proves_and_what_to_do() -> None:
    summaries = {
        verdict: summarize_run(result(verdict=verdict.value)) for verdict in Verdict
    }
    passed, failed = summaries[Verdict.PASS], summaries[Verdict.FAIL]
    assert passed.proof.startswith("This copy is whole: copying and restoring worked")
    assert passed.action.endswith("dbcheck snapshot.")
    assert failed.proof.startswith("Whoever restores such a copy loses commits")
    assert failed.action.startswith("Do not rely on this backup.")
    assert failed.action.endswith("Keep this run: it is the evidence.")
    open_one = summaries[Verdict.INCONCLUSIVE]
    assert (open_one.proof, open_one.action) == (
        "",
        "Fix the cause, then run it again.",
    )


def test_a_copy_that_was_not_read_says_how_to_go_on() -> None:
    waiting = result(NOTHING, verdict="INCONCLUSIVE", final=False, reasons=["late"])
    assert headline(waiting) == "this copy has no verdict yet: late"
    assert summarize_run(waiting).action.endswith("run: dbcheck reconcile runs/1")
    again = summarize_run(waiting, "dbcheck reconcile --name db1 runs/1")
    assert again.action.endswith("run: dbcheck reconcile --name db1 runs/1")


def test_a_verdict_says_that_only_the_tables_of_dbcheck_were_read() -> None:
    assert list(limits(result())) == [
        f"One copy was taken under load, restored and read. {SAID_OF_CUTS}",
        *words.LIMITS,
    ]


def test_a_loss_that_nothing_explains_says_where_to_look() -> None:
    assert words._BESIDE_LOAD.look in as_text(RunSubject(result(**LOST)))
    deleted = {"cause": "deletes", "losses": 3, "reason": "3 were deleted"}
    explained = result(**LOST, diagnosis=[deleted])
    assert words._BESIDE_LOAD.look not in as_text(RunSubject(explained))


def test_metrics_tell_a_copy_from_a_cut_and_have_its_times() -> None:
    text = format_metrics(RunSubject(result(**LOST)))
    labels = '{configuration="insert",kind="snapshot",target="postgresql://db1/dbcheck"'
    assert f'dbcheck_verdict{labels},verdict="FAIL"}} 1.0' in text
    assert f"dbcheck_restore_seconds{labels}}} 61.5" in text
    assert f"dbcheck_copy_seconds{labels}}} 3.04" in text
    assert f"dbcheck_confirmed_commits{labels}}} 12.0" in text
    assert "dbcheck_cuts" not in text
    none = format_metrics(RunSubject(result(NOTHING)))
    assert "_seconds{" not in none.replace("latency_seconds", "")


def test_ci_follows_a_copy_apart_from_a_cut() -> None:
    text = format_junit(RunSubject(result()))
    assert 'classname="dbcheck.snapshot"' in text
    assert 'name="restore_s" value="61.5"' in text


def test_a_report_of_a_cut_is_as_it_was() -> None:
    page = format_report(RunSubject(run_result({})), "html")
    assert "Power-cut check of" in page


@pytest.mark.parametrize("formatted", FORMATS)
@pytest.mark.parametrize("changed", [{}, LOST])
def test_a_report_on_a_point_names_it_and_speaks_of_no_copy_that_was_taken(
    formatted: Callable[[RunSubject], str], changed: Mapping[str, Any]
) -> None:
    text = formatted(RunSubject(result(POINT, **changed)))
    assert SAID_OF_CUTS in text
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    assert OF_CUTS.findall(text.replace(SAID_OF_CUTS, "")) == []
    assert "lsn 0/3000148, read in 2.5 ms" in text.replace("`", "")
    assert "was taken" not in text
    assert "before the copy" not in text


def test_the_ages_of_losses_are_seen_from_the_point() -> None:
    text = as_text(RunSubject(result(POINT, **LOST)))
    assert "1.500 s before the point - 0.250 s after the point" in text
