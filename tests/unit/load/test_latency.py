from __future__ import annotations

import pytest

from dbcheck.load.group import Latencies, add_counts, percentiles_ms


def test_percentiles_are_right_to_a_buckets_width() -> None:
    parts = [Latencies(), Latencies()]
    for number in range(1, 1001):
        parts[number % 2].add([number * 10])
    found = percentiles_ms(add_counts(part.counts() for part in parts))
    assert found["p50"] == pytest.approx(5.0, rel=0.05)
    assert found["p99"] == pytest.approx(9.9, rel=0.05)
    assert found["max"] == pytest.approx(10.0, rel=0.05)


def test_extremes_are_counted() -> None:
    extremes = Latencies()
    extremes.add([0, 10**12])
    assert sum(extremes.counts()) == 2
    assert set(percentiles_ms(add_counts([extremes.counts()]))) == {"p50", "p99", "max"}


def test_nothing_has_no_percentiles() -> None:
    assert percentiles_ms(add_counts([])) == {}
    assert percentiles_ms(add_counts([Latencies().counts()])) == {}
