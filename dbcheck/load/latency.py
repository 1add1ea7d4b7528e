"""Commit latencies in bounded memory: a histogram with buckets of equal ratio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_PER_OCTAVE = 16  # each bucket is 4.4% wider than the one before
_BUCKETS = 32 * _PER_OCTAVE  # from 1 us to over an hour


class Latencies:
    """Counts of durations; percentiles are exact to a bucket's width."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)

    def add(self, durations_us: Sequence[int]) -> None:
        """Count durations."""
        octaves = np.log2(np.maximum(np.array(durations_us, np.float64), 1.0))
        places = np.minimum((octaves * _PER_OCTAVE).astype(np.int64), _BUCKETS - 1)
        self._counts += np.bincount(places, minlength=_BUCKETS)

    def counts(self) -> tuple[int, ...]:
        """Return how many durations each bucket holds, up to the last in use."""
        return tuple(np.trim_zeros(self._counts, "b").tolist())


Counts = NDArray[np.int64]


def added(parts: Iterable[Sequence[int]]) -> Counts:
    """Return how many durations of all *parts* each bucket holds."""
    counts = np.zeros(_BUCKETS, np.int64)
    for part in parts:
        counts[: len(part)] += np.array(part, np.int64)
    return counts


def percentiles_ms(counts: Counts) -> Mapping[str, float]:
    """Return p50, p99 and max of what added() returned, in milliseconds.

    {} of no durations.
    """
    total = int(counts.sum())
    if not total:
        return {}
    reached = np.cumsum(counts)
    wanted = {"p50": 0.50 * total, "p99": 0.99 * total, "max": total}
    return {
        name: 2 ** ((int(np.searchsorted(reached, rank)) + 1) / _PER_OCTAVE) / 1000
        for name, rank in wanted.items()
    }
