"""The acks and losses of a load up to the cut, in a few hundred bins of equal width.

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
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import find_distinct, is_among_distinct

BINS_MAX = 240
# Narrower bins of the end of a load, where its losses are, or of its last seconds.
_NEAR_BINS_MAX = 48
_NEAR_US = 2_000_000
_STEPS = (1, 2, 5)
_WIDTH_MIN_US = 1_000
# Four classes of time for each doubling, up to 2^40 us.
_CLASSES_PER_DOUBLING = 4
_CLASSES = 40 * _CLASSES_PER_DOUBLING
_PERCENTILES = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class Bin:
    """The operations acked in a stretch of time.

    from_s, to_s: seconds before the end of the timeline; from_s is the larger.
    acked:  commits acked in that time.  lost: how many of these lost something.
    """

    from_s: float
    to_s: float
    acked: int
    lost: int


@dataclass(frozen=True, slots=True)
class Instant(Bin):
    """One bin of the whole load.

    p50_ms, p99_ms: of the times between each ack and the ack before it in the same
            session; rounded up by less than a fifth.  None without such a time.
    """

    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The load from its beginning to its end, the oldest bin first.

    moments: the bins of the whole load.
    to_the_cut: the timeline ends with the cut; else with the last ack, as it is not
                known when the cut came.
    near: the end of the load in narrower bins, as far back as something was lost, or
          its last seconds; () if the load is too short for narrower bins.
    oldest_lost_s: how long before the end the oldest lost commit was acked; None
                   without a lost commit.
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
    lost_operations, oldest_us = _find_lost_operations(losses)
    whole = _Bins(began_us, end_us, BINS_MAX)
    lost_us = None if oldest_us is None else max(end_us - oldest_us, 0)
    near = _build_bins_near_cut(whole, end_us, lost_us)
    spacing = _Spacing(whole.count)
    for batch in acks():
        is_lost = is_among_distinct(number_operations(batch), lost_operations)
        spacing.add(batch, whole.add(batch["acked_us"], is_lost))
        if near is not None:
            near.add(batch["acked_us"], is_lost)
    percentiles = spacing.percentiles()
    moments = (
        Instant(*counts, *times)
        for counts, times in zip(whole.list_bins(), percentiles, strict=True)
    )
    return Timeline(
        tuple(moments),
        cut_us is not None,
        tuple(Bin(*counts) for counts in near.list_bins()) if near else (),
        None if lost_us is None else lost_us / 1e6,
    )


def _find_lost_operations(losses: Losses) -> tuple[Ints, int | None]:
    """Return the acked operations that lost something, and the time of the oldest."""
    columns = losses.columns
    acked = columns[columns["acked_us"] >= 0]
    oldest_us = int(acked["acked_us"].min()) if acked.size else None
    return find_distinct(number_operations(acked)), oldest_us


def _build_bins_near_cut(
    whole: _Bins, end_us: int, lost_us: int | None
) -> _Bins | None:
    """Return narrower bins than those of *whole*, near the end; None if none are.

    lost_us: how long before the end the oldest lost commit was acked.
    """
    reaches_us = [_NEAR_US]
    if lost_us is not None:
        # A quarter more, so that what was kept before the oldest loss shows as well.
        reaches_us.insert(0, max(lost_us, _WIDTH_MIN_US) * 5 // 4)
    candidates = (_Bins(end_us - reach, end_us, _NEAR_BINS_MAX) for reach in reaches_us)
    return next((bins for bins in candidates if bins.width_us < whole.width_us), None)


class _Bins:
    """Counts acks by time; the last bin also holds the acks after its end."""

    def __init__(self, begin_us: int, end_us: int, bins_max: int) -> None:
        self._end_us = end_us
        self.width_us = _choose_width_us(end_us - begin_us, bins_max)
        self.count = math.ceil((end_us - begin_us) / self.width_us)
        self._acked = np.zeros(self.count, np.int64)
        self._lost = np.zeros(self.count, np.int64)

    def add(self, acked_us: Ints, is_lost: npt.NDArray[np.bool_]) -> Ints:
        """Count acks; return the bin of each, -1 if it came before the first bin."""
        bins_before_end = np.maximum(self._end_us - acked_us, 0) // self.width_us
        places: Ints = np.maximum(self.count - 1 - bins_before_end, -1)
        is_inside = places >= 0
        self._acked += np.bincount(places[is_inside], minlength=self.count)
        self._lost += np.bincount(places[is_inside & is_lost], minlength=self.count)
        return places

    def list_bins(self) -> Iterator[tuple[float, float, int, int]]:
        """Yield the edges of each bin, in seconds before the end, and its counts."""
        counts = zip(self._acked.tolist(), self._lost.tolist(), strict=True)
        for place, (acked, lost) in enumerate(counts):
            edges = (self.count - place, self.count - 1 - place)
            from_s, to_s = (edge * self.width_us / 1e6 for edge in edges)
            yield from_s, to_s, acked, lost


def _choose_width_us(span_us: int, bins_max: int) -> int:
    """Return the width of bins of which *bins_max* hold *span_us*.

    It is 1, 2 or 5 times a power of ten.
    """
    power = _WIDTH_MIN_US
    while True:
        for step in _STEPS:
            if step * power * bins_max >= span_us:
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
        is_counted = (before_us != NEVER) & (places >= 0)
        spacing_us = np.maximum(
            batch["acked_us"][is_counted] - before_us[is_counted], 1
        )
        classes = np.ceil(np.log2(spacing_us) * _CLASSES_PER_DOUBLING).astype(np.int64)
        np.add.at(self._counts, (places[is_counted], np.minimum(classes, _CLASSES)), 1)

    def percentiles(self) -> Iterator[tuple[float | None, float | None]]:
        """Yield p50 and p99 of each bin in milliseconds, None if it holds no ack."""
        for counts in self._counts:
            total = int(counts.sum())
            if not total:
                yield None, None
                continue
            classes = np.searchsorted(
                np.cumsum(counts), [math.ceil(share * total) for share in _PERCENTILES]
            )
            p50, p99 = (
                2 ** (int(place) / _CLASSES_PER_DOUBLING) / 1e3 for place in classes
            )
            yield round(p50, 3), round(p99, 3)
