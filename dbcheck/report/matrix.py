"""Configurations side by side: how fast each commits, and what each cut cost it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.core.cutclass import shown
from dbcheck.core.statistics import Comparison, Tally
from dbcheck.core.verdict import Verdict, worst
from dbcheck.judge.result import RunResult
from dbcheck.judge.results import RowResult, price_per_rate
from dbcheck.report.lab import verdict
from dbcheck.report.words import depth_of, lab_scope


@dataclass(frozen=True, slots=True)
class Line:
    """The results of one configuration.

    reference: a published result, for comparison; "" if there is none.
    expect:    the verdict expected, None if PASS and FAIL are both fine.
    price:     of what it runs on, None if not given.
    cycles:    results of its cycles, see judge.result.
    error:     why it ended early; "" if all of its cycles are there.
    """

    name: str
    reference: str
    expect: Verdict | None
    price: float | None
    cycles: Sequence[RunResult]
    error: str

    @property
    def tally(self) -> Tally:
        """What its cycles prove together."""
        return Tally.of((_verdict(cycle), depth_of(cycle)) for cycle in self.cycles)

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict of its cycles, None if it has none."""
        found = [_verdict(cycle) for cycle in self.cycles]
        return worst(found) if found else None

    @property
    def as_expected(self) -> bool:
        """Whether it ran to its end, with the expected verdict, or a PASS or FAIL."""
        good = (self.expect,) if self.expect else (Verdict.PASS, Verdict.FAIL)
        return not self.error and self.verdict in good

    @property
    def doubts(self) -> list[str]:
        """Why cycles of it were inconclusive, each reason once."""
        unclear = Verdict.INCONCLUSIVE
        reasons = [c.reasons[0] for c in self.cycles if c.verdict is unclear]
        return list(dict.fromkeys(reasons))

    @property
    def rate(self) -> float | None:
        """Acks per second, the median of its cycles."""
        loads = [cycle.load for cycle in self.cycles if cycle.load]
        return statistics.median(load.rate for load in loads) if loads else None

    @property
    def p99_ms(self) -> float | None:
        """The 99th percentile of the commit latency, the median of its cycles."""
        latencies = [cycle.load.latency_ms for cycle in self.cycles if cycle.load]
        found = [latency["p99"] for latency in latencies if "p99" in latency]
        return statistics.median(found) if found else None

    @property
    def lost(self) -> int | None:
        """Rows lost in all of its cycles, and of those before; None if not counted."""
        found = [cycle.rows_lost for cycle in self.cycles]
        counted = [sum(rows) for rows in found if rows is not None]
        return sum(counted) if len(counted) == len(found) else None

    @property
    def price_per_rate(self) -> float | None:
        """Price for each durable commit per second; None if they are not durable."""
        if self.error:
            return None
        return price_per_rate(self.price, self.rate, self.verdict)

    def result(self) -> RowResult:
        """Return the row that --json prints."""
        return RowResult(
            name=self.name,
            reference=self.reference,
            expect=self.expect,
            as_expected=self.as_expected,
            verdict=self.verdict,
            error=self.error or None,
            commits_per_s=self.rate,
            p99_ms=self.p99_ms,
            lost=self.lost,
            price=self.price,
            price_per_durable_commit_per_s=self.price_per_rate,
            statistics=self.tally.statistics,
            cycles=tuple(self.cycles),
        )


def _verdict(cycle: RunResult) -> Verdict:
    """Return a cycle's verdict on its configuration: FAIL for a control that lost."""
    lost = cycle.control and cycle.verdict is Verdict.PASS
    return Verdict.FAIL if lost else cycle.verdict


def _named(verdict: Verdict | None) -> str:
    return verdict.value if verdict else "none"


def comparison(lines: Sequence[Line]) -> Comparison | None:
    """Return how two configurations compare, None unless there are two."""
    return Comparison(*(line.tally for line in lines)) if len(lines) == 2 else None


def matrix_report(
    lines: Sequence[Line], description: str = "", reference: str = ""
) -> RenderableType:
    """Return the table, and below it what it proves and what went wrong."""
    parts: list[RenderableType] = [""]
    if description:
        parts += [Text(description, "bold"), ""]
    parts += [_table(lines), ""]
    if reference:
        parts.append(Text(f"In grey: {reference}.", "dim"))
    if any(line.price is not None for line in lines):
        parts.append(Text("price: for each durable commit per second.", "dim"))
    parts += [Text(proof) for proof in _proofs(lines)]
    if (compared := comparison(lines)) and compared.difference_ppm:
        result = compared.sentence
        parts.append(Text(f"{lines[0].name} against {lines[1].name}: {result}."))
    parts += [
        Text(f"{line.name}: {line.error}", "bold red") for line in lines if line.error
    ]
    parts += [
        Text(
            f"{line.name}: expected {_named(line.expect)}, got {_named(line.verdict)}",
            "bold red",
        )
        for line in lines
        if line.expect and not line.error and not line.as_expected
    ]
    parts += [
        Text(f"{line.name}: {doubt}", "yellow")
        for line in lines
        for doubt in line.doubts
    ]
    cycles = [cycle for line in lines for cycle in line.cycles]
    classes = shown((cycle.cut_class.value, depth_of(cycle)) for cycle in cycles)
    if classes:
        parts.append(Text(f"Class of the cuts: {classes}.", "italic"))
    labs = [cycle.lab for cycle in cycles if cycle.lab]
    parts += [Text(scope, "italic") for scope in dict.fromkeys(map(lab_scope, labs))]
    parts.append("")
    return Group(*parts)


def _table(lines: Sequence[Line]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        leading=int(any(line.reference for line in lines)),
    )
    table.add_column("configuration", overflow="fold")
    for name in ("commits/s", "p99 ms", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("lossy cuts", no_wrap=True)
    table.add_column("depth", overflow="fold")
    if any(line.price is not None for line in lines):
        table.add_column("price", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for line in lines:
        table.add_row(*_cells(line, lines))
    return table


def _cells(line: Line, lines: Sequence[Line]) -> Iterator[RenderableType]:
    name = Text(line.name)
    yield Group(name, Text(line.reference, "dim")) if line.reference else name
    yield _figure(line.rate, ",.0f")
    yield _figure(line.p99_ms, ".2f")
    if not line.cycles:
        yield "-"
    else:
        yield "all" if line.lost is None else f"{line.lost:,}"
    yield f"{line.tally.losses} of {line.tally.cuts}"
    yield " ".join(sorted(depth or "?" for depth in line.tally.depths)) or "-"
    if any(one.price is not None for one in lines):
        yield _figure(line.price_per_rate, ",.3g")
    yield verdict(line.verdict) if line.verdict else Text("none", "bold red")


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _proofs(lines: Sequence[Line]) -> Iterator[str]:
    """Yield what the cuts of the lines without a loss prove, each sentence once."""
    proven: dict[str, list[str]] = {}
    for line in lines:
        if line.tally.cuts and not line.tally.losses:
            proven.setdefault(line.tally.sentence, []).append(line.name)
    for sentence, names in proven.items():
        yield f"{'; '.join(names)}: {sentence}."
