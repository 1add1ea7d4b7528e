"""What each report says of the time to recover, of one run and of a campaign."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.totals import make_result
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.outage import OutageResult, OutageTotal
from dbcheck.model.verdict import CycleVerdict
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.subject import RunSubject
from dbcheck.report.words.campaign import lines, summarize_campaign
from dbcheck.report.words.outage import list_facts_of_outage
from tests.kit.reports import run_result
from tests.kit.samples import PLAN

MEASURED = OutageResult(
    *(4.2, 4.1, "", ("postgresql://db1/d", "postgresql://db2/d"), False),
    by="postgresql://db2/d",
    power_off_s=1.0,
    promotion_s=2.0,
    recovering_s=1.2,
    refused=21,
    unknown=1,
    acked=3,
    not_lasting={"postgresql://db1/d": 2},
)


def campaign_of(path: Path, cycles: list[dict[str, Any]]) -> CampaignResult:
    """Return the result of a campaign of *cycles*; one passed unless it says more."""
    folder = CampaignFolder.create(path / "campaign", PLAN)
    for number, one in enumerate(cycles, 1):
        verdict = one.pop("verdict", CycleVerdict.PASS)
        named = (number, f"run-{number}", "steady", 1.0, verdict, "", "")
        folder.add(Cycle(*named, **one))
    return make_result(folder)


def subject(outage: OutageResult) -> RunSubject:
    return RunSubject(run_result({"outage": asdict(outage)}))


def fact(outage: OutageResult, name: str = "time to recover") -> str:
    return dict(list_facts_of_outage(outage))[name]


@pytest.mark.parametrize("formatted", [as_html, format_junit, format_markdown])
def test_every_report_has_the_figure_and_what_was_answered_and_lost(
    formatted: Any,
) -> None:
    text = formatted(subject(MEASURED))
    assert "4.2 s (at most 0.10 s less)" in text
    assert "2 commits of dbcheck" in text


def test_the_parts_stand_in_their_order() -> None:
    text = fact(MEASURED)
    parts = ("1.0 s without power", "2.0 s until dbcheck asked", "1.2 s until a commit")
    assert [text.index(part) for part in parts] == sorted(map(text.index, parts))
    assert "each node's own URL" in text
    assert "21 were refused, 0 hung, and 1 broke off" in fact(MEASURED, "until then")


@pytest.mark.parametrize(
    ("outage", "text"),
    [
        (OutageResult(why="it slept"), "not measured: it slept"),
        (
            OutageResult(why="none came", least_s=30.0),
            "not measured: none came; it took longer than 30.0 s",
        ),
        (OutageResult(4.2, by="u", addresses=("u",)), "at most 4.2 s, from"),
        (OutageResult(4.2, by_clients=True, by="u"), "the address of the clients"),
        (
            OutageResult(9.0, power_off_s=8.0, by_hand=True, by="u"),
            "8.0 s without power, as the person had it",
        ),
    ],
)
def test_what_is_not_known_is_said(outage: OutageResult, text: str) -> None:
    assert text in fact(outage)


def test_a_run_without_a_figure_has_no_metric_of_it() -> None:
    metrics = format_metrics(subject(MEASURED))
    assert "dbcheck_time_to_recover_seconds{" in metrics
    assert "dbcheck_answered_and_lost_commits{" in metrics
    unknown = format_metrics(subject(OutageResult(why="it slept")))
    assert "dbcheck_time_to_recover_seconds{" not in unknown


def test_a_campaign_shows_median_and_longest_of_the_cuts_that_count(
    tmp_path: Path,
) -> None:
    cycles: list[dict[str, Any]] = [
        {"outage_s": 2.0, "outage_lost": 1},
        {"outage_s": 4.0},
        {"outage_s": 9.0},
        {},
        {"outage_s": 99.0, "verdict": CycleVerdict.INCONCLUSIVE},
    ]
    shown = campaign_of(tmp_path, cycles)
    assert shown.outage == OutageTotal(3, 4.0, 9.0, None, 1)
    (tile,) = [
        t for t in summarize_campaign(shown).tiles if t.name == "time to recover"
    ]
    assert tile.value == "4.0 s"
    assert tile.note.startswith("the median of 3 cuts; at most 9.0 s (a 95th")
    assert any(line.startswith("answered and lost: 1 commit") for line in lines(shown))
    metrics = format_metrics(CampaignsResult("/c", (shown,)))
    assert "dbcheck_time_to_recover_max_seconds{" in metrics
    assert "dbcheck_time_to_recover_p95_seconds{" not in metrics


def test_a_cut_after_which_nothing_lasted_is_named(tmp_path: Path) -> None:
    cycles: list[dict[str, Any]] = [{"outage_s": 2.0}, {"outage_over_s": 16.4}]
    shown = campaign_of(tmp_path, cycles)
    (tile,) = [
        t for t in summarize_campaign(shown).tiles if t.name == "time to recover"
    ]
    assert tile.value == "more than 16.4 s"
    assert "median of 2 cuts; after 1 of them no commit lasted as long" in tile.note
    metrics = format_metrics(CampaignsResult("/c", (shown,)))
    assert "dbcheck_time_to_recover_exceeded_cuts{" in metrics
    assert "dbcheck_time_to_recover_max_seconds{" not in metrics


def test_a_campaign_of_sixty_cuts_has_a_95th_percentile(tmp_path: Path) -> None:
    cycles: list[dict[str, Any]] = [{"outage_s": float(n)} for n in range(1, 61)]
    shown = campaign_of(tmp_path, cycles)
    assert shown.outage is not None and shown.outage.p95_s == 57.0
    metrics = format_metrics(CampaignsResult("/c", (shown,)))
    assert "dbcheck_time_to_recover_p95_seconds{" in metrics
