"""Sentences about the time to recover: the figure, its parts, and what was lost."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.model.outage import P95_CUTS_MIN, PROGRAM, OutageResult, OutageTotal
from dbcheck.model.verdict import format_count

NAME = "time to recover"


def format_time_to_recover(outage: OutageResult) -> str:
    """Return the figure with how much less it may be; "not measured" if there is none.

    The last try that failed began between the two times, and nothing was tried since.
    """
    if outage.seconds is None:
        return "not measured"
    spread_s = outage.spread_s
    if spread_s is None:
        return f"at most {outage.seconds:,.1f} s"
    return f"{outage.seconds:,.1f} s (at most {max(spread_s, 0.01):,.2f} s less)"


def list_facts_of_outage(outage: OutageResult) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each fact of the time to recover."""
    yield NAME, _describe(outage)
    if outage.refused or outage.hung or outage.unknown:
        yield (
            "until then",
            f"of dbcheck's tries to commit {outage.refused:,} were refused,"
            f" {outage.hung:,} hung, and {outage.unknown:,} broke off, with their fate"
            " unknown",
        )
    if outage.not_lasting:
        yield "answered and lost", describe_not_lasting(outage)
    if outage.gaps_s:
        yield "prober's gaps", f"it was not scheduled for up to {outage.gaps_s:.2f} s"


def describe_not_lasting(outage: OutageResult) -> str:
    """Describe the commits that were answered after the cut and did not last."""
    acks = sum(outage.not_lasting.values())
    where = ", ".join(
        f"{count:,} at {target}" for target, count in outage.not_lasting.items()
    )
    return (
        f"{format_count(acks, 'commit')} of dbcheck's probes got an answer after the"
        f" cut and did not last ({where}): clients would have lost these"
    )


def _describe(outage: OutageResult) -> str:
    if outage.seconds is None:
        least = ""
        if outage.least_s is not None:
            least = f"; it took longer than {outage.least_s:,.1f} s"
        return f"not measured: {outage.why}{least}"
    parts = ", ".join(_list_parts(outage))
    through = (
        "the address of the clients" if outage.by_clients else "each node's own URL"
    )
    if len(outage.addresses) == 1 and not outage.by_clients:
        through = "the target's own URL"
    how = f"tried through {through}, answered by {outage.by}"
    if outage.by.startswith(PROGRAM):
        how = f"committed by {outage.by}"
    return (
        f"{format_time_to_recover(outage)}, from the last acknowledged commit to the"
        f" next one that lasted: {parts}; {how}"
    )


def _list_parts(outage: OutageResult) -> Iterator[str]:
    """Yield of what the time is made, in its order."""
    if outage.power_off_s is not None:
        whose = ", as the person had it" if outage.by_hand else ""
        yield f"{outage.power_off_s:,.1f} s without power{whose}"
    if outage.promotion_s is not None:
        yield f"{outage.promotion_s:,.1f} s until dbcheck asked for the promotion"
    if outage.recovering_s is not None:
        yield f"{outage.recovering_s:,.1f} s until a commit was answered"


def format_median(total: OutageTotal) -> str:
    """Return the median, or that it is longer than what dbcheck waited for."""
    if total.median_s is None:
        return f"more than {total.longer_s:,.1f} s" if total.longer_s else "-"
    return f"{total.median_s:,.1f} s"


def describe_outages(total: OutageTotal) -> str:
    """Describe what the median of several times is of, and the longer ones."""
    cuts = format_count(total.measured + total.longer, "cut")
    text = f"the median of {cuts}"
    if total.max_s is not None:
        text += f"; at most {total.max_s:,.1f} s"
    if total.longer:
        text += (
            f"; after {total.longer:,} of them no commit lasted as long as dbcheck"
            f" tried, up to {total.longer_s or 0:,.1f} s"
        )
    if total.p95_s is not None:
        return f"{text}; 95 of 100 within {total.p95_s:,.1f} s"
    if total.measured + total.longer >= P95_CUTS_MIN:
        return text
    return f"{text} (a 95th percentile needs {P95_CUTS_MIN} cuts)"


def list_lost_answers(total: OutageTotal | None) -> Iterator[str]:
    """Yield how many commits were answered after the cuts and did not last, if any."""
    if total is not None and total.not_lasting:
        yield (
            f"answered and lost: {format_count(total.not_lasting, 'commit')} of"
            " dbcheck's probes got an answer after a cut and did not last: clients"
            " would have lost these"
        )
