"""Events up to the cut, in at most a few hundred bins of equal width.

Acks are streamed once and never held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbcheck.rows.acks import NEVER, AckArray, Ints, SessionTimes
from dbcheck.rows.loss import Losses, number_operations
from dbcheck.rows.reconcile import AckStream
from dbcheck.rows.survivors import find_distinct, is_among_distinct

BINS_MAX = 240
# The end of a load, where its losses are, or its last seconds.
_NEAR_BINS_MAX = 48
_NEAR_US = 2_000_000
_STEPS = (1, 2, 5)
_WIDTH_MIN_US = 1_000
# Four classes of time for each doubling, up to 2^40 us.
_PER_DOUBLING = 4
_CLASSES = 40 * _PER_DOUBLING
_SHARES = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class Bin:
    """The operations acked in a stretch of time.

    from_s, to_s: seconds before the end of the timeline; from_s is the larger.
    acked:  commits acked in it.  lost: operations acked in it that lost something.
    """

    from_s: float
    to_s: float
    acked: int
    lost: int


@dataclass(frozen=True, slots=True)
class Instant(Bin):
    """One bin of the whole load.

    p50_ms, p99_ms: of the times from the ack before to each of these acks, in the
            same session; rounded up by less than a fifth.  None without any.
    """

    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The load from its beginning to its end, the oldest bin first.

    to_the_cut: it ends with the cut; else with the last ack, as no cut is dated.
    near: its end in narrower bins, as far back as something was lost, or its last
          seconds; () if it is too short for narrower ones.
    oldest_lost_s: how long before the end the oldest lost commit was acked; None
                   without any.
    """

    moments: tuple[Instant, ...]
    to_the_cut: bool
    near: tuple[Bin, ...]
    oldest_lost_s: float | None


def build_timeline(
    acks: AckStream, losses: Losses, began_us: int, cut_us: int | None, last_us: int
) -> Timeline:
    """Return the timeline of a load.

    began_us: when it began.  cut_us: when the power was cut, None if nothing shows it.
    last_us: the last ack.  All are on the clock of the acks.
    """
    end_us = last_us if cut_us is None else cut_us
    if end_us <= began_us:
        return Timeline((), cut_us is not None, (), None)
    names, oldest_us = _find_lost_operations(losses)
    whole = _Bins(began_us, end_us, BINS_MAX)
    lost_us = None if oldest_us is None else max(end_us - oldest_us, 0)
    near = _build_bins_near_cut(whole, end_us, lost_us)
    spacing = _Spacing(whole.count)
    for batch in acks():
        is_lost = is_among_distinct(number_operations(batch), names)
        spacing.add(batch, whole.add(batch["acked_us"], is_lost))
        if near is not None:
            near.add(batch["acked_us"], is_lost)
    percentiles = spacing.percentiles()
    moments = (
        Instant(*counted, *at)
        for counted, at in zip(whole.counted(), percentiles, strict=True)
    )
    return Timeline(
        tuple(moments),
        cut_us is not None,
        tuple(Bin(*counted) for counted in near.counted()) if near else (),
        None if lost_us is None else lost_us / 1e6,
    )


def _find_lost_operations(losses: Losses) -> tuple[Ints, int | None]:
    """Return the acked operations that lost something, and the oldest ack of them."""
    columns = losses.columns
    acked = columns[columns["acked_us"] >= 0]
    oldest_us = int(acked["acked_us"].min()) if acked.size else None
    return find_distinct(number_operations(acked)), oldest_us


def _build_bins_near_cut(
    whole: _Bins, end_us: int, lost_us: int | None
) -> _Bins | None:
    """Return the first bins that show more than *whole* does, None if none do.

    lost_us: how long before the end the oldest lost commit was acked.
    """
    reaches_us = [_NEAR_US]
    if lost_us is not None:
        # A quarter more, so that what was kept before it shows as well.
        reaches_us.insert(0, max(lost_us, _WIDTH_MIN_US) * 5 // 4)
    found = (_Bins(end_us - reach, end_us, _NEAR_BINS_MAX) for reach in reaches_us)
    return next((bins for bins in found if bins.width_us < whole.width_us), None)


class _Bins:
    """Counts acks by time; the last bin ends at the end, and holds what came later."""

    def __init__(self, begin_us: int, end_us: int, most: int) -> None:
        self._end_us = end_us
        self.width_us = _choose_width_us(end_us - begin_us, most)
        self.count = math.ceil((end_us - begin_us) / self.width_us)
        self._acked = np.zeros(self.count, np.int64)
        self._lost = np.zeros(self.count, np.int64)

    def add(self, acked_us: Ints, is_lost: npt.NDArray[np.bool_]) -> Ints:
        """Count acks; return the bin of each, -1 of what came before the first bin."""
        back = np.maximum(self._end_us - acked_us, 0) // self.width_us
        places: Ints = np.maximum(self.count - 1 - back, -1)
        inside = places >= 0
        self._acked += np.bincount(places[inside], minlength=self.count)
        self._lost += np.bincount(places[inside & is_lost], minlength=self.count)
        return places

    def counted(self) -> Iterator[tuple[float, float, int, int]]:
        """Yield of each bin its edges, in seconds before the end, and its counts."""
        counts = zip(self._acked.tolist(), self._lost.tolist(), strict=True)
        for place, (acked, lost) in enumerate(counts):
            edges = (self.count - place, self.count - 1 - place)
            from_s, to_s = (edge * self.width_us / 1e6 for edge in edges)
            yield from_s, to_s, acked, lost


def _choose_width_us(span_us: int, most: int) -> int:
    """Return 1, 2 or 5 times a power of ten, so that *most* of them hold *span_us*."""
    power = _WIDTH_MIN_US
    while True:
        for step in _STEPS:
            if step * power * most >= span_us:
                return step * power
        power *= 10


class _Spacing:
    """Time between an ack and the one before it in its session, by bin."""

    def __init__(self, bins: int) -> None:
        self._sessions = SessionTimes()
        self._counts = np.zeros((bins, _CLASSES + 1), np.int64)

    def add(self, batch: AckArray, places: Ints) -> None:
        """Count the acks of *batch*, which fall in the bins *places*."""
        before_us = self._sessions.sent_after_us(batch)
        known = (before_us != NEVER) & (places >= 0)
        apart_us = np.maximum(batch["acked_us"][known] - before_us[known], 1)
        classes = np.ceil(np.log2(apart_us) * _PER_DOUBLING).astype(np.int64)
        np.add.at(self._counts, (places[known], np.minimum(classes, _CLASSES)), 1)

    def percentiles(self) -> Iterator[tuple[float | None, float | None]]:
        """Yield p50 and p99 of each bin in milliseconds, None if it holds no ack."""
        for counts in self._counts:
            total = int(counts.sum())
            if not total:
                yield None, None
                continue
            least = np.searchsorted(
                np.cumsum(counts), [math.ceil(share * total) for share in _SHARES]
            )
            p50, p99 = (2 ** (int(place) / _PER_DOUBLING) / 1e3 for place in least)
            yield round(p50, 3), round(p99, 3)
