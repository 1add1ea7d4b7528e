"""Cells of the tables of campaigns, and of their cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbcheck.judge.results import CampaignResult, CycleResult
from dbcheck.model.verdict import CycleVerdict
from dbcheck.report.words.run import number, rows_lost


def columns(results: Sequence[CampaignResult]) -> tuple[str, ...]:
    """Return the heads of the table, without that of the verdict, which comes last."""
    price = ("price",) if has_price(results) else ()
    return ("target", "cuts", "lossy", "rows lost", "commits", "acks/s", *price)


def has_price(results: Sequence[CampaignResult]) -> bool:
    """Say whether a price was given for any target."""
    return any(result.price is not None for result in results)


def cells(result: CampaignResult, *, with_price: bool) -> Iterator[str]:
    """Yield a campaign as text, in the order of columns()."""
    rate = result.commits_per_s
    yield result.name
    yield format_cuts(result)
    yield number(result.statistics.losses)
    yield format_rows_lost(result)
    yield number(result.confirmed)
    yield "-" if rate is None else f"{rate:,.0f}"
    if with_price:
        yield format_price(result)


def format_cuts(result: CampaignResult) -> str:
    """Return how many cuts count, of how many that were planned if any were."""
    cuts = f"{result.statistics.cuts:,}"
    return cuts if result.chosen else f"{cuts} of {result.planned_cuts:,}"


def format_rows_lost(result: CampaignResult) -> str:
    """Return how many rows were lost; "-" if no failed cycle says how many."""
    if result.rows_lost is not None:
        return rows_lost(*result.rows_lost)
    failed = any(one.verdict is CycleVerdict.FAIL for one in result.cycles)
    return "all" if failed else "-"


def format_price(result: CampaignResult) -> str:
    """Return the price of a durable commit per second, "-" if there is none."""
    price = result.price_per_durable_commit_per_s
    return "-" if price is None else f"{price:,.3g}"


CYCLE_COLUMNS = ("cycle", "run", "cut during", "depth", "commits", "lost", "acks/s")


def cycle_cells(cycle: CycleResult) -> Iterator[str]:
    """Yield a cycle as text, in the order of CYCLE_COLUMNS."""
    rate = cycle.acks_per_s
    yield str(cycle.number) if cycle.number else "control"
    yield cycle.run or "-"
    when = ", ".join(filter(None, (describe_activity(cycle), cycle.window))) or "-"
    yield ("no power cut" if cycle.uncut else when) + _describe_nodes(cycle)
    yield cycle.depth or "not measured"
    yield number(cycle.confirmed)
    if cycle.lost is None:
        yield "all" if cycle.verdict is CycleVerdict.FAIL else "-"
    else:
        yield rows_lost(cycle.lost, cycle.earlier_lost or 0)
    yield "-" if rate is None else f"{rate:,.0f}"


def _describe_nodes(cycle: CycleResult) -> str:
    """Return what was tested of a cluster, and which nodes took the load and were read.

    "" of one server.
    """
    if not cycle.writer:
        return ""
    tested = f"; {cycle.promise}" if cycle.promise else ""
    return f"{tested}; {cycle.writer} wrote, {cycle.reader or 'none'} was read"


def describe_activity(cycle: CycleResult) -> str:
    """Return the activity at a cut, then the one that was drawn if that is another.

    "" if no moment was drawn and the activity is not known.
    """
    if cycle.activity == cycle.drawn or not cycle.drawn:
        return cycle.activity
    if not cycle.activity:
        return f"{cycle.drawn} was drawn"
    return f"{cycle.activity}, {cycle.drawn} was drawn"
