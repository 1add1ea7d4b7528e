"""What another node holds that the node which took over lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbcheck.rows.loss import CODES, MISSING, Losses, operations_of
from dbcheck.rows.survivors import Records

_GONE = [CODES[kind] for kind in MISSING]


@dataclass(frozen=True, slots=True)
class Left:
    """What is on one node that was brought back by itself.

    behind: acknowledged commits that the node which took over lacks, and this one has.
    extra:  other commits of the run that only this one has: without an ack that is
            confirmed, so no promise is broken, but a client of it would see them.
    """

    behind: int
    extra: int


def left_on(
    rows: Iterable[Records], survivors: Iterable[Records], losses: Losses, epoch: int
) -> Left:
    """Return what is in *rows* alone.

    rows: the markers on that node.  survivors: those on the node that took over.
    losses: of the latter.  Only those of *epoch* are compared.
    """
    columns = losses.columns
    lost = np.unique(operations_of(columns[np.isin(columns["kind"], _GONE)]))
    only = np.setdiff1d(_operations(rows, epoch), _operations(survivors, epoch))
    behind = int(np.isin(only, lost).sum())
    return Left(behind, len(only) - behind)


def _operations(parts: Iterable[Records], epoch: int) -> npt.NDArray[np.int64]:
    found = [operations_of(one[one["epoch"] == epoch]) for one in parts]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))
