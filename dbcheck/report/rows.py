"""The rows of a matrix as they are measured, and the result that they make."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dbcheck.judge.result import RunResult
from dbcheck.judge.results import MatrixResult, RowResult
from dbcheck.model.verdict import (
    Comparison,
    Tally,
    Verdict,
    compute_price_per_rate,
    find_worst,
)
from dbcheck.report.words.run import depth_of


@dataclass(frozen=True, slots=True)
class Line:
    """The results of one configuration.

    reference: a published result, for comparison; "" if there is none.
    expect:    the verdict expected, None if PASS and FAIL are both fine.
    price:     of what it runs on, None if not given.
    cycles:    results of its cycles, see judge.result.
    error:     why it ended early; "" if all of its cycles are there.
    error_id:  of that; "" as well if it was not begun, or interrupted.
    restore:   see RowResult.
    """

    name: str
    reference: str
    expect: Verdict | None
    price: float | None
    cycles: Sequence[RunResult]
    error: str
    error_id: str = ""
    restore: str = ""

    @property
    def tally(self) -> Tally:
        """The tally of its cuts; a cycle whose copy was read is no cut."""
        return Tally.of(
            (_find_verdict(cycle), depth_of(cycle))
            for cycle in self.cycles
            if not cycle.lost_without_cut and cycle.copy is None
        )

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict of its cycles, None if it has none."""
        found = [_find_verdict(cycle) for cycle in self.cycles]
        return find_worst(found) if found else None

    @property
    def as_expected(self) -> bool:
        """True if it ran to its end, with the expected verdict, or a PASS or FAIL."""
        good = (self.expect,) if self.expect else (Verdict.PASS, Verdict.FAIL)
        return not self.error and self.verdict in good

    @property
    def rate(self) -> float | None:
        """Acks per second, the median of its cycles."""
        return _take_median(_measure_rates(cycle)[0] for cycle in self.cycles)

    @property
    def rate_while_copied(self) -> float | None:
        """Acks per second while a copy was taken, the median of its cycles."""
        return _take_median(_measure_rates(cycle)[1] for cycle in self.cycles)

    @property
    def p99_ms(self) -> float | None:
        """The 99th percentile of the commit latency, the median of its cycles."""
        latencies = [cycle.load.latency_ms for cycle in self.cycles if cycle.load]
        return _take_median(latency.get("p99") for latency in latencies)

    @property
    def lost(self) -> int | None:
        """Rows lost in its cycles that count, and of those before; None if not counted.

        What is missing after an inconclusive cycle need not be lost.
        """
        unclear = Verdict.INCONCLUSIVE
        found = [c.rows_lost for c in self.cycles if c.verdict is not unclear]
        counted = [sum(rows) for rows in found if rows is not None]
        return sum(counted) if found and len(counted) == len(found) else None

    @property
    def price_per_rate(self) -> float | None:
        """Price for each durable commit per second; None if they are not durable.

        None also if the server was copied: that shows nothing of its own commits.
        """
        if self.error or self.restore:
            return None
        return compute_price_per_rate(self.price, self.rate, self.verdict)

    def result(self) -> RowResult:
        """Return the row that --json prints."""
        return RowResult(
            name=self.name,
            reference=self.reference,
            expect=self.expect,
            as_expected=self.as_expected,
            verdict=self.verdict,
            error=self.error or None,
            error_id=self.error_id or None,
            commits_per_s=self.rate,
            p99_ms=self.p99_ms,
            lost=self.lost,
            price=self.price,
            price_per_durable_commit_per_s=self.price_per_rate,
            statistics=self.tally.statistics,
            cycles=tuple(self.cycles),
            restore=self.restore,
            commits_per_s_while_copied=self.rate_while_copied,
        )


def _take_median(figures: Iterable[float | None]) -> float | None:
    """Return the median of the figures that are known, None without any."""
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if known else None


def _measure_rates(cycle: RunResult) -> tuple[float | None, float | None]:
    """Return the acks per second outside the time of a copy, and within it.

    The second is None without a copy that was taken beside the load.  The first is that
    of the whole load if nothing else is known.
    """
    if cycle.load is None:
        return None, None
    whole, copy = cycle.load.rate, cycle.copy
    if copy is None or not copy.taken_s or not whole or copy.due is None:
        return whole, None
    meanwhile = (copy.by_order or 0) + (copy.open or 0)
    acks = copy.due + (copy.open or 0) + (copy.after or 0)
    other_s = acks / whole - copy.taken_s
    outside = (acks - meanwhile) / other_s if other_s > 0 else whole
    return outside, meanwhile / copy.taken_s


def _find_verdict(cycle: RunResult) -> Verdict:
    """Return a cycle's verdict on its configuration: FAIL for a control that lost."""
    lost = cycle.control and cycle.verdict is Verdict.PASS
    return Verdict.FAIL if lost else cycle.verdict


def compare_lines(lines: Sequence[Line]) -> Comparison | None:
    """Compare two configurations, None unless there are two."""
    return Comparison(*(line.tally for line in lines)) if len(lines) == 2 else None


def make_matrix_result(
    lines: Sequence[Line], seed: int = 0, description: str = "", reference: str = ""
) -> MatrixResult:
    """Make the result that --json prints of these rows."""
    compared = compare_lines(lines)
    return MatrixResult(
        seed,
        all(line.as_expected for line in lines),
        description,
        reference,
        compared.result if compared else None,
        tuple(line.result() for line in lines),
    )
