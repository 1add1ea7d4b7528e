"""What several cycles are said to prove together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbcheck.judge.result import RunResult
from dbcheck.judge.results import DemoRow
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.outage import OutageResult
from dbcheck.model.verdict import describe_proof
from dbcheck.report.matrix import draw_cycles, list_demo_bounds
from dbcheck.report.words.run import tally
from tests.kit.reports import printed, run_result


def results(verdicts: Sequence[str], depth: str | None) -> list[RunResult]:
    return [
        run_result(
            {
                "run": f"run {number}",
                "load": {"rate": 1234.5},
                "confirmed": 100,
                "losses": {"missing-tail": 7} if verdict == "FAIL" else {},
                "earlier_losses": {"missing-hole": 1234} if verdict == "FAIL" else {},
                "recovered": 0,
                "verdict": verdict,
                "depth": {"depth": depth},
                "image": f"runs/{number}/drive.img" if verdict == "FAIL" else "",
                "lab": LabSpec(
                    "mysql", drive=DriveSpec(kept_writes="blocks")
                ).to_values(),
            }
        )
        for number, verdict in enumerate(verdicts)
    ]


def test_passes_are_told_with_their_bound_and_what_they_would_have_missed() -> None:
    text = printed(draw_cycles(results(["PASS"] * 5, "DRIVE")))
    assert (
        "No loss in 5 cuts at DRIVE depth: at most 46% of cuts lose, 95% confidence.\n"
        "A server that loses in a quarter of such cuts would pass 5 cuts with a chance"
        " of 24%.\n"
    ) in text


def test_the_times_to_recover_are_summed_up_over_the_cuts_that_count() -> None:
    times = [OutageResult(seconds) for seconds in (2.0, 4.5, 3.0)]
    longer = OutageResult(least_s=30.0, not_lasting={"postgresql://db1/d": 2})
    passed = results(["PASS"] * 4 + ["INCONCLUSIVE"], "DRIVE")
    cycles = [
        replace(result, outage=outage)
        for result, outage in zip(passed, [*times, longer, longer], strict=True)
    ]
    text = " ".join(printed(draw_cycles(cycles)).split())
    assert "Time to recover: 3.8 s, the median of 4 cuts; after 1 of them" in text
    assert "Answered and lost: 2 commits of dbcheck's probes" in text
    assert "ime to recover" not in printed(draw_cycles(results(["PASS"], "DRIVE")))


def test_losses_are_told_with_both_bounds() -> None:
    text = printed(draw_cycles(results(["PASS", "FAIL"], None)))
    assert "7 + 1,234 earlier" in text
    assert "1 loss in 2 cuts: at least 2.5% of cuts lose" in text
    assert text.count("The drive as the cut left it: runs/1/drive.img\n") == 1
    assert "runs/0" not in text
    assert "would pass" not in text
    assert text.count("each cut left a random half of their blocks of 4096 bytes") == 1


def test_a_loss_without_a_power_cut_stands_before_the_bound_that_leaves_it_out() -> (
    None
):
    kept, lost = results(["PASS", "FAIL"], "DRIVE")
    lines = printed(draw_cycles([kept, replace(lost, uncut=True)])).splitlines()
    bound = next(n for n, line in enumerate(lines) if line.startswith("No loss in 1"))
    assert lines[bound - 1] == (
        "FAIL: 1 cycle lost something without a power cut on record, not counted as a"
        " cut."
    )
    assert "FAIL: " not in printed(draw_cycles([kept, lost]))


def test_a_cycle_without_a_measured_depth_is_counted_without_one() -> None:
    unmeasured = replace(results(["PASS"], None)[0], depth=None)
    assert tally(unmeasured, *results(["PASS"], "OS")).depths == {"": 1, "OS": 1}


def test_the_demo_says_what_its_passes_bound() -> None:
    verdicts = ["PASS", "FAIL", "PASS"]
    rows = [DemoRow("", each.verdict, each) for each in results(verdicts, "DRIVE")]
    assert list_demo_bounds(rows) == [describe_proof(0, 1)]
    assert list_demo_bounds(rows[1:2]) == []
