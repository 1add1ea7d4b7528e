"""What a report on crash states says, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from junitparser import JUnitXml

from dbcheck.model.explored import Coverage, ExploreResult, StateJudgement
from dbcheck.model.verdict import Verdict
from dbcheck.report.console import make_console
from dbcheck.report.explore import draw_exploration, draw_state
from dbcheck.report.junit import format_junit
from dbcheck.report.words.explored import list_commands, summarize_exploration
from tests.kit.explored_results import BLOCK, FAILED, FINDING, LOST, PASSED, SMALLEST


def text_of(result: Any, width: int = 80) -> str:
    shown = make_console(width=width, force_terminal=False)
    with shown.capture() as captured:
        shown.print(result)
    return captured.get()


def said(result: ExploreResult) -> str:
    return " ".join(text_of(draw_exploration(result)).split())


def test_a_pass_says_what_was_judged_and_what_that_does_not_show() -> None:
    text = said(PASSED)
    assert "PASS 500 different crash states of one load with 1,234 ack" in text
    assert ": all kept all commits that were acknowledged" in text
    assert "at 780 moments" in text and "300 of them have one" in text
    assert "Of the 850 writes that could be lost, 310 were missing" in text
    assert "420 of the states are of whole writes, of about 794 such states" in text
    assert "says nothing about how often a cut does harm" in text
    assert "runs/explore-1" in text and "--state" not in text


def test_a_finding_names_what_is_lost_and_what_is_not_on_the_drive() -> None:
    text = said(LOST)
    assert "FAIL" in text and ": 2 lost acknowledged commits or did not" in text
    assert "finding-1: 2 rows lost or damaged (missing-tail; 2 states)" in text
    assert "A cut 0.500 s into the load, with 41 acks before it." in text
    assert "missing-tail: ledger id 40 (session 2, operation 9)" in text
    assert "data/base/1" in text and "at 8,192" in text and "512 B" in text
    assert "(log drive)" in text and "at 81,920" in text
    assert "3.random.1, 4.none.2" in text
    assert "dbcheck lab explore runs/explore-1 --state finding-1" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"finished": False, "verdict": Verdict.INCONCLUSIVE},
            "ended before all wanted",
        ),
        (
            {"inconclusive": 1, "unclear": ("3.all.1",), "doubts": ("no answer",)},
            "the others kept. 1 could not be judged. Not judged: 3.all.1 (no answer)",
        ),
        ({"states": 0}, "none was judged"),
        ({"states": 412}, "500 were asked for, and the load has hardly any others"),
        ({"states": 1}, "1 crash state of one load"),
    ],
)
def test_what_was_not_judged_is_said(changes: Mapping[str, Any], words: str) -> None:
    text = said(replace(PASSED, **changes))
    for part in words.split(". "):
        assert part in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"again": False}, "did not fail again"), ({"complete": False}, "may be enough")],
)
def test_what_a_reduction_could_not_do_is_said(
    changes: Mapping[str, Any], words: str
) -> None:
    assert words in said(replace(LOST, findings=(replace(FINDING, **changes),)))
    assert words not in said(LOST)


def test_states_that_were_not_reduced_are_named() -> None:
    more = tuple(f"{number}.none.1" for number in range(9))
    text = said(replace(LOST, failing=(*FINDING.states, *more)))
    assert "Failed, and not reduced: 0.none.1, 1.none.1, 2.none.1 and 6 more" in text
    assert "not reduced" not in said(LOST)


@pytest.mark.parametrize(
    ("judgement", "words"),
    [
        (FAILED, "had acknowledged what it had not written"),
        (replace(FAILED, losses={"unrecoverable": 1}), "did not recover from that"),
        (replace(FAILED, losses={"missing-hole": 1, "corrupt": 1}), "did not recover"),
        (replace(FAILED, verdict=Verdict.PASS, losses={}), ""),
    ],
)
def test_a_state_without_a_lost_write_blames_no_drive(
    judgement: StateJudgement, words: str
) -> None:
    result = replace(SMALLEST, judgement=judgement, lost=())
    text = " ".join(text_of(draw_state(result)).split())
    assert words in text
    assert ("The drives hold" in text) == bool(words)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("data/one", "data/one"),
        ("", "journal, metadata or a removed file"),
        (None, "not known: the filesystem cannot be mounted"),
    ],
)
def test_a_lost_block_is_named_as_far_as_its_file_is_known(
    file: str | None, words: str
) -> None:
    result = replace(SMALLEST, lost=(replace(BLOCK, file=file),))
    assert words in text_of(draw_state(result), 120)


def test_a_load_without_flushes_has_one_moment() -> None:
    seen = replace(PASSED.coverage, moments=1, visited=1)
    text = " ".join(text_of(draw_exploration(replace(PASSED, coverage=seen))).split())
    assert "All states are judged at the end of the recording" in text


def test_a_long_name_is_not_cut_off() -> None:
    block = replace(BLOCK, file="data/dbcheck/#sql-alter-1f-2a-side1#p#p2026.ibd")
    text = text_of(draw_state(replace(SMALLEST, lost=(block,))), 60)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text and "p2026.ibd" in text


def test_many_lost_blocks_are_counted() -> None:
    text = text_of(draw_state(replace(SMALLEST, lost=(BLOCK,) * 40)))
    assert "and 28 more" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    lines = text_of(draw_exploration(LOST), width).splitlines()
    assert max(map(len, lines)) <= width


def test_states_that_could_not_be_judged_kept_nothing() -> None:
    unclear = replace(PASSED, verdict=Verdict.INCONCLUSIVE, states=5, inconclusive=5)
    text = said(replace(unclear, unclear=("3.none.1",), doubts=("no ack",)))
    assert "kept" not in text.split("States are judged")[0]
    assert "none was judged; 5 could not be judged" in text
    assert "the other kept all commits" in said(replace(unclear, inconclusive=4))


def test_a_single_state_is_spoken_of_as_one() -> None:
    seen = Coverage(2, 1, 1, 1, 1, 0.0, 1)
    text = said(replace(PASSED, states=1, wanted=1, coverage=seen))
    assert "it kept all commits" in text
    assert "1 of them has one" in text
    assert "Of the 1 write that could be lost, 1 was missing" in text
    assert "1 of the states is of whole writes" in text


def test_a_state_that_failed_has_a_command_whether_it_was_reduced_or_not() -> None:
    unreduced = replace(LOST, findings=())
    assert "--state" in said(unreduced)
    shown = summarize_exploration(unreduced)
    assert shown.verdict is Verdict.FAIL
    assert "again" not in summarize_exploration(LOST).action
    assert dict(list_commands(unreduced))["judge it again"].endswith(LOST.failing[0])


def test_a_failure_in_ci_says_how_each_state_fails() -> None:
    (case,) = next(iter(JUnitXml.fromstring(format_junit(LOST).encode())))
    assert "finding-1: 2 rows lost or damaged" in case.result[0].text
    other = replace(LOST, lab={**LOST.lab, "settings": {"fsync": "off"}})
    (changed,) = next(iter(JUnitXml.fromstring(format_junit(other).encode())))
    assert changed.name == f"{case.name}, fsync=off"
