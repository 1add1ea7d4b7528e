"""Which chores were under way when the operations that lost something were acked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dbcheck.rows.acks import AckArray
from dbcheck.rows.chores import KINDS, ChoreKind, Chores
from dbcheck.rows.expected import Ints
from dbcheck.rows.history import HOUSEKEEPING_SESSION
from dbcheck.rows.observed import AckStream
from dbcheck.rows.survivors import Flags


@dataclass(frozen=True, slots=True)
class WindowShare:
    """The operations that were acked while a chore of one kind was under way.

    chores: how many of the kind; hit: during how many something was acked that is lost.
    acked:  how many operations; lost: how many of them lost something.
    """

    chore: ChoreKind
    chores: int
    hit: int
    acked: int
    lost: int


class Windows:
    """Counts operations by the chore that was under way when they were acked.

    One chore follows the other at once: each is under way from the ack before its own,
    or from the load's beginning, to its own or to the cut.
    """

    def __init__(self, chores: Chores, acks: AckStream, *, to_the_cut: bool) -> None:
        """acks: those of the load, of which the chores' own are read.

        to_the_cut: another chore was under way at the cut; else what was acked after
        the last one is counted nowhere.
        """
        self._chores, self._to_the_cut = chores, to_the_cut
        ends = [_ends_us(batch) for batch in acks()]
        self._ends_us = np.sort(np.concatenate([np.empty(0, np.int64), *ends]))
        self._acked = np.zeros(len(self._ends_us) + 1, np.int64)
        self._lost = np.zeros_like(self._acked)

    def add(self, batch: AckArray, is_lost: Flags) -> None:
        """Count the operations of *batch*."""
        places = np.searchsorted(self._ends_us, batch["acked_us"], side="left")
        self._acked += np.bincount(places, minlength=self._acked.size)
        self._lost += np.bincount(places[is_lost], minlength=self._acked.size)

    def shares(self) -> Iterator[WindowShare]:
        """Yield the kinds during which something was acked, in the order of KINDS."""
        counted = np.flatnonzero(self._acked)
        if not self._to_the_cut:
            counted = counted[counted < self._ends_us.size]
        codes = np.array(
            [KINDS.index(self._chores.chore(at + 1).kind) for at in counted.tolist()]
        )
        acked, lost = self._acked[counted], self._lost[counted]
        for code, kind in enumerate(KINDS):
            own = codes == code
            if np.any(own):
                yield WindowShare(
                    kind,
                    chores=int(np.count_nonzero(own)),
                    hit=int(np.count_nonzero(lost[own])),
                    acked=int(acked[own].sum()),
                    lost=int(lost[own].sum()),
                )


def _ends_us(batch: AckArray) -> Ints:
    """Return when the chores among *batch* were acked."""
    found: Ints = batch["acked_us"][batch["session"] == HOUSEKEEPING_SESSION]
    return found
