"""Sentences of a comparison of two runs or campaigns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbcheck.judge.results import ComparedResult, SideResult
from dbcheck.model.verdict import (
    PROOF_OF_LOSS,
    Statistics,
    Verdict,
    compute_loss_ppm_max,
    format_percent_down,
    format_percent_up,
)
from dbcheck.report.words.run import number, sentence
from dbcheck.report.words.summary import Summary

COLUMNS = ("", "A", "B")
_NOT_KNOWN = "not known"


def summarize_comparison(result: ComparedResult) -> Summary:
    """Return the first box of a report on two checks that are compared."""
    a, b = result.a, result.b
    return Summary(
        badge=f"A {a.verdict.value}, B {b.verdict.value}",
        verdict=None,
        headline=sentence(result.comparison.sentence),
        proof=_FEW_CUTS if min(a.statistics.cuts, b.statistics.cuts) < _FEW else "",
        action=_choose_action(result),
        about=(("A", _name_side(a)), ("B", _name_side(b))),
    )


def _choose_action(result: ComparedResult) -> str:
    sides = (("A", result.a), ("B", result.b))
    lost = [name for name, side in sides if side.verdict is Verdict.FAIL]
    if lost:
        return (
            f"Do not rely on {' or '.join(lost)}. {PROOF_OF_LOSS} Read below what"
            " differs."
        )
    return "Read below what else differs before you rely on one of them."


def _name_side(side: SideResult) -> str:
    return f"{side.server} at {side.target}, {side.folder}"


_FEW_CUTS = (
    "With so few cuts a real difference is easily missed: two PASSes do not show that A"
    " and B are equally safe."
)


def rows(result: ComparedResult) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each figure, and what it is in A and B."""
    named = (
        ("folder", lambda side: side.folder),
        ("target", lambda side: side.target),
        ("server", lambda side: side.server),
        ("verdict", lambda side: side.verdict.value),
        ("cuts that count", lambda side: number(side.statistics.cuts)),
        ("of them lossy", lambda side: number(side.statistics.losses)),
        ("cuts that may lose", _bounds),
        ("depth of the cuts", lambda side: _depths(side.statistics)),
        ("confirmed commits", lambda side: number(side.confirmed)),
        ("rows lost", lambda side: number(side.lost)),
        ("commits/s", _rate),
        ("p50 ms", lambda side: _figure(side.p50_ms)),
        ("p99 ms", lambda side: _figure(side.p99_ms)),
    )
    for name, value in named:
        yield name, value(result.a), value(result.b)


def _bounds(side: SideResult) -> str:
    found = side.statistics
    # A bound of cuts alone would pass over a loss without one.
    if not found.cuts or (side.verdict is Verdict.FAIL and not found.losses):
        return "-"
    if found.loss_ppm_max != compute_loss_ppm_max(found.losses, found.cuts):
        return "-"  # none holds, as for cuts of several promises together
    least = format_percent_down(found.loss_ppm_min)
    return f"{least} to {format_percent_up(found.loss_ppm_max)}"


def _depths(found: Statistics) -> str:
    depths = (depth or "not measured" for depth in found.depths)
    return ", ".join(sorted(depths)) or "-"


def _rate(side: SideResult) -> str:
    if side.commits_per_s is None:
        return "-"
    text = f"{side.commits_per_s:,.0f}"
    if side.runs < 2:
        return text
    return f"{text} ({side.slowest_per_s:,.0f} to {side.fastest_per_s:,.0f})"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def findings(result: ComparedResult) -> Iterator[str]:
    """Yield what the comparison shows beside how the losses differ."""
    for name, side in (("A", result.a), ("B", result.b)):
        if side.verdict is Verdict.FAIL and not side.statistics.losses:
            yield (
                f"{name} is a FAIL although no cut of it that counts lost anything:"
                " see its own report for what was lost."
            )
    sides = (("A", result.a.statistics), ("B", result.b.statistics))
    yield from compare_depths(sides)
    for one in result.differences:
        if one.of_the_cut:
            values = (("A", one.a or _NOT_KNOWN), ("B", one.b or _NOT_KNOWN))
            yield warn_of_other_cuts(one.name, values)
    if result.rate_ratio is not None:
        yield (
            f"B commits {result.rate_ratio:.2f} times as many per second as A (medians"
            f" of {_of(result.b)} and {_of(result.a)}). Other load on the host or the"
            " network changes that too: repeat it before you rely on it."
        )


def compare_depths(sides: Sequence[tuple[str, Statistics]]) -> Iterator[str]:
    """Yield a warning if the cuts of two sides did not reach the same depth.

    sides: the name of each side, and what its cuts show.  One without a cut that counts
    is not compared.
    """
    depths = [(name, _depths(shown)) for name, shown in sides]
    have_cuts = all(shown.cuts for _, shown in sides)
    if have_cuts and len({depth for _, depth in depths}) > 1:
        yield (
            f"The cuts did not reach the same depth ({_list_values(depths)}). A deeper"
            " cut can lose more, so their losses cannot be compared."
        )


def warn_of_other_cuts(what: str, values: Sequence[tuple[str, str]]) -> str:
    """Return the warning that the cuts of two sides differ in *what*.

    values: the name of each side, and its value.
    """
    return (
        f"The cuts differ in {what} ({_list_values(values)}), so their losses cannot be"
        " compared."
    )


def _list_values(values: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in values)


_FEW = 20


def _of(side: SideResult) -> str:
    return f"{side.runs} run" + "s" * (side.runs != 1)


def differences(result: ComparedResult) -> Iterator[tuple[str, str, str]]:
    """Yield what is configured differently, and how in A and in B."""
    for one in result.differences:
        a, b = (_NOT_KNOWN if each is None else each for each in (one.a, one.b))
        yield one.name, a, b


def same(result: ComparedResult) -> str:
    """Return the number of configured values that both have, as a sentence."""
    return f"{result.same:,} other values are the same in both."
