"""The report on campaigns for people, made from the results that --json prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.core.cutclass import shown
from dbcheck.core.statistics import CONFIDENCE, percent_up, unseen_sentence
from dbcheck.core.verdict import CycleVerdict
from dbcheck.judge.results import CampaignResult, CycleResult
from dbcheck.report.lab import number, rows_lost, verdict

SHOWN_MAX = 8


def campaigns_report(folder: str, results: Sequence[CampaignResult]) -> RenderableType:
    """Return one row for each target, and what its cuts prove."""
    table = Table(title="Campaign", title_justify="left", title_style="bold")
    table.add_column("target", overflow="fold")
    has_price = any(result.price is not None for result in results)
    price = ("price",) if has_price else ()
    for name in ("cuts", "lossy", "rows lost", "commits", "acks/s", *price):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    parts: list[RenderableType] = ["", table]
    for result in results:
        table.add_row(*_row(result, has_price=has_price))
        parts += ["", Text(result.name, "bold"), *_lines(result)]
    if has_price:
        parts += ["", Text("price: for each durable commit per second.", "dim")]
    parts += ["", Text(f"All files: {folder}", "italic"), ""]
    return Group(*parts)


def _row(result: CampaignResult, *, has_price: bool) -> list[str | Text]:
    cycles = [cycle for cycle in result.cycles if cycle.number]
    rate, price = result.commits_per_s, result.price_per_durable_commit_per_s
    return [
        result.name,
        f"{result.statistics.cuts} of {result.planned_cuts}",
        number(result.statistics.losses),
        rows_lost(
            sum(cycle.lost or 0 for cycle in cycles),
            sum(cycle.earlier_lost or 0 for cycle in cycles),
        ),
        number(sum(cycle.confirmed or 0 for cycle in cycles)),
        "-" if rate is None else f"{rate:,.0f}",
        *(["-" if price is None else f"{price:,.3g}"] if has_price else ()),
        verdict(result.verdict),
    ]


def _lines(result: CampaignResult) -> list[RenderableType]:
    proven = result.statistics
    lines = [proven.sentence]
    if proven.cuts and not proven.losses:
        lines.append(unseen_sentence(proven.cuts))
    if proven.cuts:
        counts = ", ".join(f"{n} {name}" for name, n in result.strata.items())
        lines.append(f"activity at the cuts: {counts}")
    if result.windows:
        counts = ", ".join(
            f"{one.cuts} {name} (at most {percent_up(one.loss_ppm_max)} of them lose)"
            for name, one in result.windows.items()
        )
        lines.append(f"cuts during housekeeping, {CONFIDENCE}: {counts}")
    if seen := result.seen:
        lines.append(
            f"rows seen by readers: {seen.rows:,}; missing after the cut, and never"
            f" acknowledged: {seen.lost:,}, in {seen.lossy} of {seen.cuts} cuts"
        )
    missed = [cycle for cycle in result.cycles if cycle.missed]
    if missed:
        lines.append(
            f"{len(missed)} cuts missed their planned activity, the first: "
            + missed[0].missed
        )
    cuts = ((cycle.cut_class, cycle.depth) for cycle in result.cycles)
    if classes := shown(cuts):
        lines.append(f"class of the cuts: {classes}")
    if result.cuts_still_needed:
        lines.append(f"{result.cuts_still_needed} more cuts are needed")
    lines += [
        f"{cycle.verdict.value} in cycle {cycle.number} ({cycle.stratum}):"
        f" {cycle.reason}"
        for cycle in result.cycles
        if cycle.number and cycle.verdict is not CycleVerdict.PASS
    ][:SHOWN_MAX]
    lines += _at_fault(result.cycles)
    if result.error:
        lines += [result.error, f"dbcheck campaign --resume {result.folder}"]
    return [Padding(Text(line), (0, 0, 0, 2)) for line in lines]


def _at_fault(cycles: Sequence[CycleResult]) -> list[str]:
    """Return the settings that explain the losses, each once."""
    losses = [cycle for cycle in cycles if cycle.verdict is CycleVerdict.FAIL]
    found = [setting for cycle in losses for setting in cycle.settings_at_fault]
    return [f"setting at fault: {setting}" for setting in dict.fromkeys(found)]
