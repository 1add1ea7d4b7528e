"""Sentences of a comparison of two runs or campaigns."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.judge.results import ComparedResult, SideResult
from dbcheck.model.verdict import Verdict, format_percent_down, format_percent_up
from dbcheck.report.words.run import number, sentence

COLUMNS = ("", "A", "B")
_NOT_KNOWN = "not known"
_OF_THE_CUT = ("class of the cut", "what loses its power", "lab cut")


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
        ("depth of the cuts", _depths),
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
    if not found.cuts:
        return "-"
    least = format_percent_down(found.loss_ppm_min)
    return f"{least} to {format_percent_up(found.loss_ppm_max)}"


def _depths(side: SideResult) -> str:
    found = side.statistics.depths
    if not found:
        return "-"
    return ", ".join(sorted(depth or "not measured" for depth in found))


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
    """Yield what the comparison shows, how the losses differ first."""
    yield sentence(result.comparison.sentence)
    for name, side in (("A", result.a), ("B", result.b)):
        if side.verdict is Verdict.FAIL and not side.statistics.losses:
            yield (
                f"{name} is a FAIL although no cut of it that counts lost anything:"
                " see its own report for what was lost."
            )
    depths = [_depths(side) for side in (result.a, result.b)]
    if depths[0] != depths[1]:
        yield (
            f"The cuts did not reach the same depth (A: {depths[0]}; B: {depths[1]})."
            " A deeper cut can lose more, so their losses cannot be compared."
        )
    for one in result.differences:
        if one.name in _OF_THE_CUT:
            yield (
                f"The cuts differ in {one.name} (A: {one.a or _NOT_KNOWN}; B:"
                f" {one.b or _NOT_KNOWN}), so their losses cannot be compared."
            )
    if result.rate_ratio is not None:
        yield (
            f"B commits {result.rate_ratio:.2f} times as many per second as A (medians"
            f" of {_of(result.b)} and {_of(result.a)}). Other load on the host or the"
            " network changes that too: repeat it before you rely on it."
        )
    cuts = {result.a.statistics.cuts, result.b.statistics.cuts}
    if min(cuts) < _FEW:
        yield (
            "With so few cuts a real difference is easily missed: two PASSes do not"
            " show that A and B are equally safe."
        )


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
