"""A summary of the acks of a run, made in one reading of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

import numpy as np
import numpy.typing as npt

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged
from dbcheck.rows.acks import SESSION_MAX, AckArray
from dbcheck.rows.earlier import WEIGHT_MODULUS
from dbcheck.rows.loss import number_operations
from dbcheck.rows.survivors import Records

AckStream = Callable[[], Iterable[AckArray]]
# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
# OOPSLA 2014, 453-472.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


class AckSummary:
    """How many acks each session has, and what their ids weigh.

    counts: by session number.
    weight: the sum of the acked ids, each times a factor drawn from its operation,
            modulo 2^64.  Rows of the same operations have the same weight unless an id
            differs; so no id needs to be kept.
    first_id, last_id: the smallest and the largest acked id; 0 and -1 without acks.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(SESSION_MAX + 1, np.int64)
        self.weight = 0
        self.first_id, self.last_id = 0, -1

    @classmethod
    def of(cls, stream: AckStream) -> Self:
        """Read the acks; see add()."""
        summary = cls()
        for batch in stream():
            summary.add(batch)
        return summary

    @property
    def total(self) -> int:
        """The number of acks."""
        return int(self.counts.sum())

    def add(self, batch: AckArray) -> None:
        """Take in the next acks.

        Raise LogDamaged if a session's acks are not 1, 2, 3, ...: the client sends
        them in that order, so another order means that acks are lost or replayed.
        """
        if not len(batch):
            return
        order = np.argsort(batch["session"], kind="stable")
        session, seq = batch["session"][order], batch["seq"][order].astype(np.int64)
        is_first = np.r_[True, session[1:] != session[:-1]]
        expected = np.where(is_first, self.counts[session] + 1, np.r_[0, seq[:-1] + 1])
        wrong = np.flatnonzero(seq != expected)
        if wrong.size:
            at = int(wrong[0])
            raise LogDamaged(
                f"the witness log is damaged: it has ack {seq[at]} of session"
                f" {session[at]} where ack {expected[at]} must stand",
                id=ErrorId.WITNESS_LOG_DAMAGED,
            )
        is_last = np.r_[is_first[1:], True]
        least, most = int(batch["row_id"].min()), int(batch["row_id"].max())
        self.first_id = min(self.first_id, least) if self.last_id >= 0 else least
        self.last_id = max(self.last_id, most)
        self.counts[session[is_last]] = seq[is_last]
        self.weight = (self.weight + weigh_ids(batch)) % WEIGHT_MODULUS


def weigh_ids(rows: AckArray | Records) -> int:
    """Return the weight of the ids of acks, or of rows that were read."""
    return int(weigh_each_id(rows).sum(dtype=np.uint64))


def weigh_each_id(rows: AckArray | Records) -> npt.NDArray[np.uint64]:
    """Return each id, times a factor drawn from its operation, modulo 2^64.

    If the factors grew with the operations, the errors of two neighbours could cancel
    out.
    """
    factors = (number_operations(rows).astype(np.uint64) + np.uint64(1)) * _GAMMA
    for bits, mixer in _MIXERS:
        factors ^= factors >> np.uint64(bits)
        factors *= mixer
    factors ^= factors >> np.uint64(31)
    weights: npt.NDArray[np.uint64] = rows["row_id"].astype(np.uint64) * factors
    return weights
