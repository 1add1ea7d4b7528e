"""Words about what the cuts of each promise show, where a campaign tests several."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.judge.results import CampaignResult, PromiseResult
from dbcheck.model.verdict import (
    CONFIDENCE,
    Verdict,
    compute_loss_ppm_max,
    describe_bound,
    describe_proof,
    format_percent_up,
)
from dbcheck.report.words.outage import NAME, describe_outages, format_median
from dbcheck.report.words.run import number

TITLE = "What the cuts of each promise show"
COLUMNS = ("promise", "cuts", "lossy", "rows lost", "cuts that may lose", NAME)
NOTE = (
    f"Each cut tests one promise, so each has a bound of its own ({CONFIDENCE}); no"
    " bound holds for all of them together."
)


def list_rows(result: CampaignResult) -> Iterator[tuple[tuple[str, ...], Verdict]]:
    """Yield the cells of each promise, in the order of COLUMNS, and its verdict."""
    for name, found in result.promises.items():
        proven, total = found.statistics, found.outage
        cells = (
            name,
            f"{proven.cuts:,} of {found.planned_cuts:,}",
            number(proven.losses),
            number(found.lost),
            describe_bound(proven.losses, proven.cuts)[0] if has_bound(found) else "-",
            format_median(total) if total else "-",
        )
        yield cells, found.verdict


def has_bound(found: PromiseResult) -> bool:
    """Return True if a bound holds: it passes over no loss, and no cut is unjudged."""
    proven = found.statistics
    if not proven.cuts or (found.verdict is Verdict.FAIL and not proven.losses):
        return False
    return proven.loss_ppm_max == compute_loss_ppm_max(proven.losses, proven.cuts)


def list_lines(result: CampaignResult) -> Iterator[str]:
    """Yield what the table shows as lines, with what the times are of."""
    for name, found in result.promises.items():
        yield f"{name}: {found.verdict.value}, {found.statistics.sentence}"
        if total := found.outage:
            yield f"{name}: {NAME} {format_median(total)}, {describe_outages(total)}"


def list_times(result: CampaignResult) -> Iterator[str]:
    """Yield of which cuts the times to recover are, for each promise with any."""
    for name, found in result.promises.items():
        if total := found.outage:
            yield f"{name}: {NAME} is {describe_outages(total)}"


def prove(result: CampaignResult) -> str:
    """Return how much the cuts of each promise prove, if none lost anything."""
    alike = {found.statistics.cuts for found in result.promises.values()}
    if len(alike) == 1 and (cuts := alike.pop()) > 1:
        most = format_percent_up(compute_loss_ppm_max(0, cuts))
        return (
            f"Of each promise {cuts:,} passes bound losses at {most} ({CONFIDENCE});"
            " cuts of one say nothing of another."
        )
    shown = (
        f"{name}: {describe_proof(0, found.statistics.cuts)}"
        for name, found in result.promises.items()
    )
    return " ".join(shown)
