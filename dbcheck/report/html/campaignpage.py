"""Values of the page of a campaign, for its template."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    CycleResult,
    PromiseResult,
)
from dbcheck.model.verdict import (
    CONFIDENCE,
    PPM,
    CycleVerdict,
    Verdict,
    compute_loss_ppm_max,
    compute_loss_ppm_min,
    describe_proof,
    format_count,
    format_percent_up,
)
from dbcheck.report.html.runcharts import Figure
from dbcheck.report.html.svg import Axis, Plot, linear, logarithmic, number
from dbcheck.report.subject import Step
from dbcheck.report.words import campaign as words
from dbcheck.report.words import campaign_table, promises
from dbcheck.report.words.chosen import format_command, format_title
from dbcheck.report.words.run import sentence
from dbcheck.report.words.summary import format_moment

_HEIGHT = 220
_POINTS_MAX = 60  # of the bound's chart: each takes a while to compute exactly
_CYCLES_MAX = 1000  # in the table and in the chart: a page must stay small
_LINEAR_ABOVE = 10  # percent: the bound's axis is logarithmic below this
_CLASS_OF_VERDICT = {
    CycleVerdict.PASS: "good",
    CycleVerdict.FAIL: "bad",
    CycleVerdict.INCONCLUSIVE: "open",
    CycleVerdict.ERROR: "open",
}
CYCLE_NUMBERS = ("commits", "lost", "acks/s")


def campaign_values(subject: CampaignsResult) -> dict[str, Any]:
    """Return the values of templates/campaign.html."""
    results = subject.targets
    with_price = campaign_table.has_price(results)
    names = ", ".join(result.name for result in results)
    steps = [Step("Show this again", _format_command(subject))]
    if folder := next(filter(None, map(words.find_run_with_loss, results)), ""):
        text = shlex.join(["dbcheck", "reconcile", folder, "--offline"])
        steps.append(Step("Judge a cycle that lost something again", text))
    return {
        "title": f"{format_title(results[0])} on {names}",
        "about": (f"{format_title(results[0])} on {names}", subject.folder),
        "summary": words.summarize_campaigns(subject) if len(results) > 1 else None,
        "targets": list(map(_make_target_values, results)),
        "groups": list(words.groups(subject)),
        "groups_title": words.GROUPS,
        "columns": campaign_table.columns(results),
        "rows": [
            ((*campaign_table.cells(one, with_price=with_price),), one.verdict.value)
            for one in results
        ],
        "promise_columns": promises.COLUMNS,
        "promise_title": promises.TITLE,
        "promise_note": promises.NOTE,
        "cycle_columns": campaign_table.CYCLE_COLUMNS,
        "cycle_numbers": CYCLE_NUMBERS,
        "steps": steps,
    }


def _format_command(subject: CampaignsResult) -> str:
    """Return the command that makes the report again."""
    (first, *_) = subject.targets
    if first.chosen is not None:
        return format_command(first.chosen)
    return shlex.join(["dbcheck", "report", subject.folder])


@dataclass(frozen=True, slots=True)
class _Cycle:
    cells: tuple[str, ...]
    verdict: str
    reason: str


def _make_target_values(result: CampaignResult) -> dict[str, Any]:
    limits = list(words.limits(result))
    failed = result.verdict is Verdict.FAIL
    return {
        "result": result,
        "summary": words.summarize_campaign(result),
        "promises": [
            (cells, verdict.value) for cells, verdict in promises.list_rows(result)
        ],
        "promise_times": list(promises.list_times(result)),
        "lines": [x for x in words.lines(result) if sentence(x) not in limits],
        "lines_title": "Cause and fix" if failed else "What the cuts show",
        "wrong": failed,
        "limits": limits,
        "figures": list(_list_figures(result)),
        "cycles": [
            _Cycle(
                (*campaign_table.cycle_cells(cycle),),
                cycle.verdict.value,
                words.reason(cycle),
            )
            for cycle in _choose_cycles(result.cycles)
        ],
        "left_out": _describe_left_out_cycles(result.cycles),
    }


def _choose_cycles(cycles: Sequence[CycleResult]) -> Sequence[CycleResult]:
    """Return all cycles; of too many, those that did not pass and some that did."""
    if len(cycles) <= _CYCLES_MAX:
        return cycles
    passed = [cycle for cycle in cycles if cycle.verdict is CycleVerdict.PASS]
    others = [cycle for cycle in cycles if cycle.verdict is not CycleVerdict.PASS]
    others.sort(key=lambda cycle: cycle.verdict is not CycleVerdict.FAIL)
    room = max(1, _CYCLES_MAX - len(others))
    chosen_passes = passed[:: -(-len(passed) // room)] if passed else []
    return sorted(
        (*others, *chosen_passes)[:_CYCLES_MAX], key=lambda cycle: cycle.number
    )


def _describe_left_out_cycles(cycles: Sequence[CycleResult]) -> str:
    """Return the note that counts the cycles shown, "" if all are shown."""
    shown = _choose_cycles(cycles)
    if len(shown) == len(cycles):
        return ""
    lossy = sum(cycle.verdict is CycleVerdict.FAIL for cycle in cycles)
    shown_lossy = sum(cycle.verdict is CycleVerdict.FAIL for cycle in shown)
    return (
        f"{len(shown):,} of {len(cycles):,} cycles are shown, with {shown_lossy:,} of"
        f" {lossy:,} that failed. All of them are in cycles.jsonl."
    )


def _list_figures(result: CampaignResult) -> Iterator[Figure]:
    cycles = [cycle for cycle in result.cycles if cycle.number]
    if not cycles:
        return
    yield _make_cycles_figure(cycles, "began" if result.chosen else "ended")
    if result.may_lack_loss:
        return  # both other charts draw bounds
    parts: Mapping[str, CampaignResult | PromiseResult] = result.promises
    for name, found in (parts or {"": result}).items():
        counted = [c for c in result.counted if not name or c.promise == name]
        if counted:
            yield _make_bound_figure(name, counted, result.bound_ppm)
        if found.activities or found.windows:
            yield _make_activities_figure(name, counted, found)


def _make_count_axis(last: int, name: str) -> Axis:
    whole = linear(last, name)
    ticks = tuple(tick for tick in whole.ticks if tick == int(tick))
    return Axis(0.0, max(whole.last, last + 1.0), ticks, name, number)


def _make_cycles_figure(cycles: Sequence[CycleResult], did: str) -> Figure:
    """Return the chart of the rates; did: what the cycles' moments are of."""
    rates = [cycle.acks_per_s or 0.0 for cycle in cycles]
    held = format_count(len(cycles), "cycle")
    about = f"{held}, with up to {max(rates):,.0f} commits per second."
    axis = _make_count_axis(cycles[-1].number, "cycle")
    plot = Plot("Cuts", about, axis, linear(max(rates), "commits/s"), _HEIGHT)
    for cycle in _choose_cycles(cycles):
        rate = cycle.acks_per_s or 0.0
        kind = _CLASS_OF_VERDICT[cycle.verdict]
        text = f"cycle {cycle.number}, {cycle.ended}: {cycle.verdict.value}"
        plot.mark(cycle.number, rate, kind, f"{text}, {rate:,.0f} commits/s")
    legend = {"good": "PASS"}
    if any(_CLASS_OF_VERDICT[cycle.verdict] == "bad" for cycle in cycles):
        legend["cross bad"] = "FAIL"
    if any(_CLASS_OF_VERDICT[cycle.verdict] == "open" for cycle in cycles):
        legend["cross open"] = "INCONCLUSIVE or an error, not counted"
    first, last = (format_moment(one.ended) for one in (cycles[0], cycles[-1]))
    note = f"The first {did} {first}, the last {last}."
    if left_out := _describe_left_out_cycles(cycles):
        note = f"{note} {left_out}"
    return Figure("Cuts and their rate of commits", plot.drawn(), legend, note)


def _make_bound_figure(
    promise: str, counted: Sequence[CycleResult], goal_ppm: int | None
) -> Figure:
    """Return the chart of the bounds on the share of cuts that lose, after each cut.

    promise: which the cuts tested, "" if there are not several.
    """
    losses = 0
    bounds: list[tuple[float, float]] = []
    least: list[tuple[float, float]] = []
    every = -(-len(counted) // _POINTS_MAX)
    for cuts, cycle in enumerate(counted, 1):
        losses += cycle.verdict is CycleVerdict.FAIL
        if cuts % every == 0 or cuts in (1, len(counted)):
            bounds.append((float(cuts), compute_loss_ppm_max(losses, cuts) * 100 / PPM))
            least.append((float(cuts), compute_loss_ppm_min(losses, cuts) * 100 / PPM))
    last = bounds[-1][1]
    most = format_percent_up(compute_loss_ppm_max(losses, len(counted)))
    after = format_count(len(counted), "cut")
    about = f"After {after} at most {most} of cuts lose, {CONFIDENCE}."
    if len(counted) == 1 and not losses:
        about = describe_proof(losses, 1)
    low = min(last, goal_ppm * 100 / PPM) if goal_ppm else last
    name = "% of cuts"
    y = logarithmic(low, 100, name) if low < _LINEAR_ABOVE else linear(100, name)
    x = _make_count_axis(len(counted), "cuts that count")
    plot = Plot("Bound", about, x, y, _HEIGHT)
    if goal_ppm is not None:
        plot.level(goal_ppm * 100 / PPM, f"asked for: {format_percent_up(goal_ppm)}")
    plot.line(bounds, "first")
    legend = {"line first": f"at most so many cuts lose, {CONFIDENCE}"}
    if losses:
        plot.line(least, "second")
        legend["line second"] = f"at least so many, {CONFIDENCE}"
    return Figure(
        _name_figure("What the cuts prove so far", promise), plot.drawn(), legend, about
    )


def _name_figure(title: str, promise: str) -> str:
    return f"{title}, promise {promise}" if promise else title


def _make_activities_figure(
    promise: str,
    counted: Sequence[CycleResult],
    found: CampaignResult | PromiseResult,
) -> Figure:
    """Return the chart with a bar for each activity at the cuts, then for each task.

    promise: see _make_bound_figure().  counted: the cuts.  found: what they show.
    """
    lossy = [one.activity for one in counted if one.verdict is CycleVerdict.FAIL]
    bars = [(name, n, lossy.count(name)) for name, n in found.activities.items()]
    bars += [(name, one.cuts, one.losses) for name, one in found.windows.items()]
    return Figure(
        _name_figure("What went on at the cuts", promise),
        _draw_bars(bars),
        {"kept": "cuts without a loss", "lost": "cuts that lost something"},
        f"At the right: at most this share of such cuts lose, {CONFIDENCE}.",
    )


def _draw_bars(bars: Sequence[tuple[str, int, int]]) -> Markup:
    height, left, right = 24, 150, 620
    most = max(cuts for _, cuts, _ in bars)
    parts = []
    for place, (name, cuts, lost) in enumerate(bars):
        top = 6 + place * height
        wide = (right - left) * cuts / most
        gone = (right - left) * lost / most
        bound = format_percent_up(compute_loss_ppm_max(lost, cuts))
        parts.append(
            Markup(
                '<text class="tick y" x="{}" y="{}">{}</text>'
                '<rect class="kept" x="{}" y="{}" width="{:.1f}" height="16"/>'
                '<rect class="lost" x="{}" y="{}" width="{:.1f}" height="16"/>'
                '<text x="{:.1f}" y="{}">{}</text>'
            ).format(
                *(left - 8, top + 13, name, left, top, wide, left, top, gone),
                *(left + wide + 8, top + 13, f"{lost} of {cuts}, at most {bound}"),
            )
        )
    about = "; ".join(f"{name}: {lost} of {cuts} lost" for name, cuts, lost in bars)
    return Markup(
        '<svg class="chart" viewBox="0 0 760 {}" role="img" aria-label="{}">'
        "<title>Cuts by what went on</title>{}</svg>"
    ).format(12 + len(bars) * height, about, Markup("").join(parts))
