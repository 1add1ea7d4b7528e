"""What the cycles of a campaign show together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.campaign.totals import describe_cycles, is_finished, make_result
from dbcheck.judge.results import CampaignResult, CampaignsResult, SeenTotal
from dbcheck.model.verdict import (
    ControlFacts,
    ControlOutcome,
    CycleVerdict,
    Verdict,
    describe_proof,
)
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.words.campaign import limits, lines, summarize_campaign
from dbcheck.report.words.campaign_table import cycle_cells
from dbcheck.runs import stored
from tests.kit.reports import printed
from tests.kit.samples import PLAN

PASS, FAIL = CycleVerdict.PASS, CycleVerdict.FAIL
OPEN = CycleVerdict.INCONCLUSIVE


def campaign_of(
    path: Path, cycles: Sequence[dict[str, Any]], plan: CampaignPlan = PLAN
) -> CampaignResult:
    """Return the result of a campaign of *cycles*; each names what is not the default.

    Before them comes a control, which no total may count.
    """
    folder = CampaignFolder.create(path / "campaign", plan)
    folder.add(cycle(0, {"verdict": FAIL, "window": "drop", "seen": 7, "seen_lost": 7}))
    for number, one in enumerate(cycles, 1):
        folder.add(cycle(number, one))
    return make_result(folder)


def cycle(number: int, values: dict[str, Any]) -> Cycle:
    verdict = values.pop("verdict", PASS)
    return Cycle(number, f"run-{number}", "steady", 1.0, verdict, "", "", **values)


def report_of(shown: CampaignResult) -> str:
    return printed(draw_campaigns(CampaignsResult("/c", (shown,))))


def test_cuts_and_the_bound_are_shown_for_each_kind_of_task(tmp_path: Path) -> None:
    shown = campaign_of(
        tmp_path,
        [
            *({"window": "truncate"} for _ in range(20)),
            {"window": "truncate", "verdict": FAIL},
            {"window": "drop"},
            {"window": "drop", "verdict": OPEN},  # counts nowhere
            {},
        ],
    )
    found = {name: (one.cuts, one.losses) for name, one in shown.windows.items()}
    assert found == {"truncate": (21, 1), "drop": (1, 0)}
    # Clopper and Pearson, one-sided 95%: 1 of 21 at most 20.7%, 0 of 1 at most 95%.
    assert round(shown.windows["truncate"].loss_ppm_max / 1e4, 1) == 20.7
    assert shown.windows["drop"].loss_ppm_max == 950_000
    text = report_of(shown)
    assert "21 truncate (at most 21% of them lose)" in text
    assert "1 drop (at most 95% of them lose)" in text


def test_rows_that_readers_saw_are_added_up(tmp_path: Path) -> None:
    shown = campaign_of(
        tmp_path,
        [
            {"seen": 1_000, "seen_lost": 0},
            {"seen": 500, "seen_lost": 3},
            {"seen": 0, "seen_lost": 0},
            {"seen": 10, "seen_lost": 1, "verdict": FAIL},
            {"verdict": OPEN},  # its table was not read
            {"seen": 9, "seen_lost": 9, "verdict": OPEN},  # no cut need have done that
        ],
    )
    assert shown.seen == SeenTotal(cuts=4, lossy=2, rows=1_510, lost=4)
    assert [cycle.seen_lost for cycle in shown.cycles][1:3] == [0, 3]
    assert (
        "rows seen by readers: 1,510; missing after the cut, and never acknowledged: 4,"
        " in 2 of 4 cuts" in report_of(shown)
    )


@pytest.mark.parametrize(
    ("verdict", "expected"), [(PASS, 0.5), (FAIL, None), (OPEN, None)]
)
def test_a_price_is_that_of_durable_commits(
    verdict: CycleVerdict, expected: float | None, tmp_path: Path
) -> None:
    rates = [{"acks_per_s": rate} for rate in (100.0, 900.0)]
    last = {"acks_per_s": 400.0, "verdict": verdict}
    plan = replace(PLAN, price=200.0, cuts=3)
    shown = campaign_of(tmp_path, [*rates, last], plan)
    assert (shown.commits_per_s, shown.price) == (400.0, 200.0)
    assert shown.price_per_durable_commit_per_s == expected
    text = report_of(shown)
    assert "for each durable commit per second." in text
    assert (" 0.5 " in text) is (expected is not None)


def test_without_a_price_there_is_no_column_for_it(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path, [{"acks_per_s": 400.0}])
    assert shown.price_per_durable_commit_per_s is None
    assert "for each durable commit" not in report_of(shown)


def test_one_cycle_is_named_in_the_singular(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path / "one", [{"acks_per_s": 400.0}])
    page = as_html(CampaignsResult("/c", (shown,)))
    assert "at most 95% of" not in page
    assert describe_proof(0, 1) in page
    assert not re.search(r"\b1 (?:cycles|cuts)\b", page)
    for verdicts, said in (([OPEN], "1 cycle was"), ([OPEN, OPEN], "2 cycles were")):
        made = [{"verdict": verdict} for verdict in verdicts]
        unsure = campaign_of(tmp_path / str(len(made)), made)
        assert any(text.startswith(said) for text in limits(unsure))


def test_nothing_is_said_of_readers_if_none_looked(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path, [{}])
    assert shown.seen is None
    assert "readers" not in report_of(shown)


def test_what_the_audit_found_before_cuts_that_passed_is_named(tmp_path: Path) -> None:
    off = "error pg-full-page-writes: full_page_writes is off (PostgreSQL 15.18)"
    shown = campaign_of(
        tmp_path, [{"despite": (off,)}, {"despite": (off,)}, {"verdict": OPEN}]
    )
    assert [cycle.despite for cycle in shown.cycles[1:]] == [(off,), (off,), ()]
    assert " ".join(report_of(shown).split()).count(off) == 1
    assert any(off in text for text in limits(shown))


def test_a_failed_control_is_told_first_and_asks_for_no_more_cuts(
    tmp_path: Path,
) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    control = ControlFacts("run-0", ControlOutcome.FAILED, "it lost a hole")
    failed = cycle(0, {"verdict": FAIL, "control": control})
    folder.add(replace(failed, reason="it lost a hole"))
    shown = make_result(folder)
    assert (shown.verdict, shown.cuts_still_needed) == (Verdict.FAIL, None)
    assert [*lines(shown)][0] == "FAIL in a control: it lost a hole"
    assert "FAIL in a control: it lost a hole" in as_html(
        CampaignsResult("/c", (shown,))
    )


def test_a_loss_is_told_before_all_that_was_inconclusive(tmp_path: Path) -> None:
    unclear: list[dict[str, Any]] = [{"verdict": OPEN} for _ in range(9)]
    text = report_of(campaign_of(tmp_path, [*unclear, {"verdict": FAIL}]))
    assert "FAIL in cycle 10" in text
    assert "2 more cycles did not pass" in text


def test_only_cuts_that_count_are_described(tmp_path: Path) -> None:
    counted = {"cut_class": "AC", "depth": "DRIVE"}
    shown = campaign_of(
        tmp_path,
        [counted, {"cut_class": "reset", "depth": "OS", "verdict": OPEN}],
    )
    assert "what was cut: AC" in lines(shown)
    assert "What was cut: AC." in limits(shown)


def test_rows_that_are_missing_after_an_inconclusive_cycle_are_not_lost(
    tmp_path: Path,
) -> None:
    shown = campaign_of(
        tmp_path,
        [
            {"confirmed": 100, "lost": 0, "earlier_lost": 0},
            {"confirmed": 50, "lost": 40, "earlier_lost": 0, "verdict": OPEN},
        ],
    )
    assert (shown.rows_lost, shown.confirmed) == ((0, 0), 100)


def test_a_page_of_a_cut_at_an_unknown_moment_is_drawn(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    folder.add(replace(cycle(1, {"verdict": FAIL}), activity=""))
    page = as_html(CampaignsResult("/c", (make_result(folder),)))
    assert "What went on at the cuts" not in page


def test_the_share_beside_a_bar_is_an_upper_bound(tmp_path: Path) -> None:
    page = as_html(CampaignsResult("/c", (campaign_of(tmp_path, [{}]),)))
    assert "at most this share of such cuts lose" in page


def test_a_finding_of_the_audit_does_not_deny_the_losses_of_other_cuts(
    tmp_path: Path,
) -> None:
    shown = campaign_of(tmp_path, [{"despite": ("off",)}, {"verdict": FAIL}])
    assert "a cut lost nothing, but the audit before it found off" in lines(shown)


CUT = {"cut_class": "AC", "depth": "DRIVE", "confirmed": 100, "lost": 0}
STOPPED = {
    **{"verdict": FAIL, "uncut": True, "cut_class": "reset", "depth": "OS"},
    **{"window": "drop", "seen": 9, "seen_lost": 4, "missed": "it came too late"},
    **{"confirmed": 50, "lost": 3, "earlier_lost": 2},
}


def test_a_loss_without_a_power_cut_is_a_fail_and_counts_as_no_cut(
    tmp_path: Path,
) -> None:
    plan = replace(PLAN, cuts=2)
    shown = campaign_of(tmp_path, [dict(CUT), dict(CUT), dict(STOPPED)], plan)
    proven = shown.statistics
    assert shown.verdict is Verdict.FAIL
    assert (proven.losses, proven.cuts, proven.depths) == (0, 2, {"DRIVE": 2})
    assert proven.loss_ppm_max == 776_394  # 1 - sqrt(0.05): two cuts without a loss
    assert (shown.activities, shown.windows) == ({"steady": 2}, {})
    assert shown.seen is None
    assert shown.cut_classes == ("AC",)
    assert [cycle.number for cycle in shown.counted] == [1, 2]
    assert (shown.rows_lost, shown.confirmed) == ((3, 2), 250)
    assert shown.cuts_still_needed is None


def test_a_loss_without_a_power_cut_is_told_first_in_every_report(
    tmp_path: Path,
) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", replace(PLAN, cuts=1))
    folder.add(cycle(1, dict(CUT)))
    folder.add(replace(cycle(2, dict(STOPPED)), reason="3 of 50 are lost"))
    shown = make_result(folder)
    first, counts, *rest = lines(shown)
    assert first == "FAIL in cycle 2, without a power cut: 3 of 50 are lost"
    assert counts.startswith(
        "1 cycle lost something without a power cut on record, not counted as a cut."
    )
    assert "bound" not in {tile.name for tile in summarize_campaign(shown).tiles}
    assert "upper_bound{" not in format_metrics(CampaignsResult("/c", (shown,)))
    assert "what was cut: AC" in rest
    assert not any("3 of 50" in line or "planned moment" in line for line in rest)
    whole = CampaignsResult("/c", (shown,))
    for text in (report_of(shown), as_html(whole), format_junit(whole)):
        assert "without a power cut: 3 of 50 are lost" in " ".join(text.split())
    assert 'failures="1"' in format_junit(whole)
    assert [*cycle_cells(shown.cycles[1])][2:6] == [
        "no power cut",
        "OS",
        "50",
        "3 + 2 earlier",
    ]
    so_far = describe_cycles(folder.cycles())
    assert so_far.startswith("FAIL: 1 cycle lost something without a power cut")
    assert "no loss in 1 cut" in so_far


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_loss_without_a_power_cut_ends_a_campaign_as_any_loss(
    keep_going: bool, tmp_path: Path
) -> None:
    plan = replace(PLAN, keep_going=keep_going)
    made = [cycle(1, dict(STOPPED))]
    assert is_finished(plan, made) is not keep_going
    shown = campaign_of(tmp_path, [dict(STOPPED)], plan)
    assert (shown.verdict, shown.statistics.cuts) == (Verdict.FAIL, 0)
    assert shown.statistics.loss_ppm_max == 10**6


def test_a_stored_cycle_of_before_is_read_and_counts_as_it_did(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    folder.add(cycle(1, {"verdict": FAIL}))
    path = tmp_path / "campaign" / "cycles" / "0001.json"
    values = json.loads(path.read_text())
    for name in ("uncut", "format", "sha256"):
        del values[name]
    path.write_bytes(stored.to_bytes(values))
    shown = make_result(folder)
    assert (shown.statistics.losses, shown.statistics.cuts) == (1, 1)
