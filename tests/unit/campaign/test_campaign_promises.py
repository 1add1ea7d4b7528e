"""A cluster with several promises: each cut tests one, and each is counted apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.campaign.promises import draw_promise, require_cut_of_each, share_cuts
from dbcheck.campaign.totals import describe_plan, is_finished, make_result
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.records import CutAsked
from dbcheck.model.verdict import PPM, CycleVerdict, Verdict
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.prometheus import format_metrics
from dbcheck.runner.campaign_plan import decide_goal
from dbcheck.runner.guard import choose_promise
from dbcheck.runs.folder import RunFolder
from tests.kit.refusals import refused
from tests.kit.reports import printed
from tests.kit.samples import MANIFEST, PLAN

THREE = ("writer", "writer-gone", "all")
PASS, FAIL = CycleVerdict.PASS, CycleVerdict.FAIL
OPEN = CycleVerdict.INCONCLUSIVE
# Words that a bound of a number of cuts is told with.
OF_40, OF_20 = "7.3%", "14%"


def plan_of(cuts: int, promises: tuple[str, ...] = THREE) -> CampaignPlan:
    return replace(PLAN, cuts=cuts, promises=promises, control=False)


def cycle_of(number: int, promise: str, verdict: CycleVerdict = PASS) -> Cycle:
    return Cycle(
        *(number, f"run-{number}", "steady", 1.0, verdict, "as it was", ""),
        promise=promise,
        writer="n1",
        reader="n2",
        lost=3 if verdict is FAIL else 0,
        confirmed=100,
        cut_class="reset",
        outage_s=1.0 if promise == "all" else 9.0,
    )


def simulate(plan: CampaignPlan, luck: Random) -> list[Cycle]:
    """Return the cycles of a whole campaign, a third of which do not count."""
    cycles: list[Cycle] = []
    while not is_finished(plan, cycles):
        number = len(cycles) + 1
        promise = draw_promise(plan, number, cycles)
        verdict = OPEN if luck.random() < 0.3 else PASS
        cycles.append(cycle_of(number, promise, verdict))
    return cycles


@pytest.mark.parametrize("cuts", [3, 4, 10, 60])
def test_each_promise_gets_its_share_whatever_does_not_count(cuts: int) -> None:
    for seed in range(10):
        plan = replace(plan_of(cuts), seed=seed)
        cycles = simulate(plan, Random(seed))
        counted = Counter(cycle.promise for cycle in cycles if cycle.counts)
        assert counted == share_cuts(THREE, cuts)
        assert max(counted.values()) - min(counted.values()) <= 1
        if cuts >= 6:  # none has its share before the others were drawn
            assert {cycle.promise for cycle in cycles[:3]} == set(THREE)
        # Whoever continues draws the same.
        for number, cycle in enumerate(cycles, 1):
            assert draw_promise(plan, number, cycles[: number - 1]) == cycle.promise


def test_the_seed_draws_the_order() -> None:
    drawn = {
        tuple(draw_promise(replace(plan_of(60), seed=seed), n, []) for n in (1, 2, 3))
        for seed in range(60)
    }
    assert len(drawn) == 6


def test_a_single_promise_and_a_single_server_draw_nothing_else() -> None:
    assert draw_promise(plan_of(5, ("all",)), 3, []) == "all"
    assert draw_promise(plan_of(5, ()), 3, []) == ""
    assert describe_plan(plan_of(5, ("all",))) == describe_plan(plan_of(5, ()))


@pytest.mark.parametrize(
    ("options", "promises", "cuts"),
    [
        ((None, 0.05, None), 0, 59),
        ((None, 0.05, None), 1, 59),
        ((None, 0.05, None), 3, 3 * 59),
        ((None, 0.05, 100), 3, 100),
        ((20, None, None), 3, 20),
    ],
)
def test_a_bound_takes_as_many_cuts_of_each_promise(
    options: tuple[Any, Any, Any], promises: int, cuts: int
) -> None:
    assert decide_goal(*options).count_cuts(promises) == cuts


def test_a_promise_without_a_cut_is_refused_before_anything_is_cut() -> None:
    require_cut_of_each("pair", THREE, 3)
    require_cut_of_each("db1", (), 1)
    with refused(ErrorId.PROMISE_WITHOUT_CUT, UsageError, naming=("pair", "2 of 3")):
        require_cut_of_each("pair", THREE, 2)


def campaign_of(folder: Path, counts: Mapping[str, int], cuts: int) -> CampaignResult:
    """Return the result of a campaign with so many PASSes of each promise."""
    made = CampaignFolder.create(folder / "campaign", plan_of(cuts, tuple(counts)))
    cycles = [name for name, count in counts.items() for _ in range(count)]
    made.add(*(cycle_of(number, name) for number, name in enumerate(cycles, 1)))
    return make_result(made)


def test_no_bound_holds_for_the_cuts_of_all_promises_together(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path, {"writer-gone": 20, "all": 20}, 40)
    assert (shown.verdict, shown.statistics.cuts) == (Verdict.PASS, 40)
    assert shown.statistics.loss_ppm_max == PPM
    assert shown.outage is None
    for name, seconds in (("writer-gone", 9.0), ("all", 1.0)):
        found = shown.promises[name]
        assert (found.statistics.cuts, found.cuts_left) == (20, 0)
        assert found.statistics.loss_ppm_max < PPM * 0.15
        assert found.outage is not None
        assert found.outage.median_s == seconds
    subject = CampaignsResult("/c", (shown,))
    for text in (
        printed(draw_campaigns(subject)),
        format_markdown(subject),
        as_html(subject),
        format_junit(subject),
    ):
        assert OF_40 not in text
        assert OF_20 in text
        assert "writer-gone" in text
    metrics = format_metrics(subject)
    bound = 'dbcheck_loss_ratio_upper_bound{configuration="%s",kind="campaign"'
    assert [bound % name in metrics for name in ("", "all", "writer-gone")] == [
        *(False, True, True)
    ]
    values = json.loads(json.dumps(to_values(subject)))["targets"][0]
    assert {one["promise"] for one in values["cycles"]} == {"writer-gone", "all"}


def test_the_control_of_that_test_one_promise_has_the_bound(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path, {"all": 40}, 40)
    assert shown.promises == {}
    assert shown.statistics.loss_ppm_max < PPM * 0.08
    assert OF_40 in printed(draw_campaigns(CampaignsResult("/c", (shown,))))


def test_many_cuts_of_one_promise_do_not_make_up_for_another(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path, {"writer-gone": 39, "all": 1}, 40)
    assert shown.verdict is Verdict.INCONCLUSIVE
    assert not shown.finished
    assert shown.cuts_still_needed == 19
    verdicts = {name: one.verdict for name, one in shown.promises.items()}
    assert verdicts == {"writer-gone": Verdict.PASS, "all": Verdict.INCONCLUSIVE}


def test_a_loss_is_that_of_its_promise(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", plan_of(4, ("all", "writer")))
    folder.add(cycle_of(1, "all"), cycle_of(2, "writer", FAIL))
    shown = make_result(folder)
    assert (shown.verdict, shown.finished) == (Verdict.FAIL, True)
    losses = {name: one.statistics.losses for name, one in shown.promises.items()}
    assert losses == {"all": 0, "writer": 1}
    assert shown.promises["all"].verdict is Verdict.INCONCLUSIVE
    assert (shown.promises["writer"].lost, shown.promises["all"].lost) == (3, 0)
    text = printed(draw_campaigns(CampaignsResult("/c", (shown,))))
    assert "1 of 2" in text


def test_a_cut_that_is_not_judged_takes_every_bound(tmp_path: Path) -> None:
    shown = campaign_of(tmp_path, {"writer-gone": 20, "all": 20}, 40)
    folder = CampaignFolder.open(tmp_path / "campaign")
    RunFolder.create(folder.runs, MANIFEST).write_cut_asked(CutAsked(1))
    shown = make_result(folder)
    assert shown.verdict is Verdict.INCONCLUSIVE
    bounds = {one.statistics.loss_ppm_max for one in shown.promises.values()}
    assert bounds == {PPM}
    assert OF_20 not in printed(draw_campaigns(CampaignsResult("/c", (shown,))))


def cluster(*promises: str) -> Entry:
    return Entry(
        *("db1", "postgresql://db1/d"),
        cluster="pair",
        standbys=(Entry("db2", "postgresql://db2/d"),),
        survives=promises,
    )


def test_a_single_run_tests_one_promise() -> None:
    pair = cluster("writer-gone", "all")
    assert [one.value for one in choose_promise(pair, "all").promises] == ["all"]
    alone = cluster("all")
    assert choose_promise(alone, None) == alone
    db1 = Entry("db1", "postgresql://db1/d")
    assert choose_promise(db1, None) == db1
    for entry, name, words in (
        (pair, None, ("pair has several promises", "writer-gone, all")),
        (pair, "writer", ("not tested for writer", "writer-gone, all")),
        (db1, "writer", ("only a cluster",)),
    ):
        with refused(ErrorId.PROMISE_UNCLEAR, UsageError, naming=words):
            choose_promise(entry, name)
