"""The shape of a run's losses: by age, size and table, and beside which task.

Acks are streamed once and never held; the losses, which are held in columns anyway, are
never copied as a whole: each takes about 30 bytes more while the shape is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dbcheck.rows.acks import (
    HOUSEKEEPING_SESSION,
    NEVER,
    TIME_UNIT_US,
    AckArray,
    Ints,
    SessionTimes,
)
from dbcheck.rows.loss import CODES, LossArray, Losses, LossKind, number_operations
from dbcheck.rows.schedule import Sizes
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import Flags, find_distinct, is_among_distinct
from dbcheck.rows.table import TABLES, TableSpec
from dbcheck.rows.tasks import KINDS, HousekeepingTasks, TaskKind


@dataclass(frozen=True, slots=True)
class WindowShare:
    """The operations that were acked while a task of one kind was under way.

    tasks: during how many tasks of the kind something was acked.
    hit:   how many of these tasks had something acked that is lost.
    acked: how many operations.  lost: how many of them lost something.
    """

    task: TaskKind
    tasks: int
    hit: int
    acked: int
    lost: int


class Windows:
    """Counts operations by the task that was under way when they were acked.

    One task follows the other at once: a task is under way from the ack of the task
    before, or from the load's beginning, to its own ack or to the cut.
    """

    def __init__(
        self, tasks: HousekeepingTasks, acks: AckStream, *, to_the_cut: bool
    ) -> None:
        """acks: of the load; the acks of the tasks among them are read.

        to_the_cut: another task was under way at the cut; if not, operations acked
        after the last task are counted nowhere.
        """
        self._tasks, self._to_the_cut = tasks, to_the_cut
        ends = [_find_ends_of_tasks(batch) for batch in acks()]
        self._ends_us = np.sort(np.concatenate([np.empty(0, np.int64), *ends]))
        self._acked = np.zeros(len(self._ends_us) + 1, np.int64)
        self._lost = np.zeros_like(self._acked)

    def add(self, batch: AckArray, is_lost: Flags) -> None:
        """Count the operations of *batch*."""
        places = np.searchsorted(self._ends_us, batch["acked_us"], side="left")
        self._acked += np.bincount(places, minlength=self._acked.size)
        self._lost += np.bincount(places[is_lost], minlength=self._acked.size)

    def shares(self) -> Iterator[WindowShare]:
        """Yield the share of each kind of task during which something was acked."""
        counted = np.flatnonzero(self._acked)
        if not self._to_the_cut:
            counted = counted[counted < self._ends_us.size]
        codes = np.array(
            [
                KINDS.index(self._tasks.task(place + 1).kind)
                for place in counted.tolist()
            ]
        )
        acked, lost = self._acked[counted], self._lost[counted]
        for code, kind in enumerate(KINDS):
            is_kind = codes == code
            if np.any(is_kind):
                yield WindowShare(
                    kind,
                    tasks=int(np.count_nonzero(is_kind)),
                    hit=int(np.count_nonzero(lost[is_kind])),
                    acked=int(acked[is_kind].sum()),
                    lost=int(lost[is_kind].sum()),
                )


def _find_ends_of_tasks(batch: AckArray) -> Ints:
    """Return the times at which the tasks among *batch* were acked."""
    ends_us: Ints = batch["acked_us"][batch["session"] == HOUSEKEEPING_SESSION]
    return ends_us


# Upper bounds of classes; one more class lies above the last bound.
AGES_S = (0.01, 0.1, 1.0, 10.0, 60.0)
SIZES_BYTES = (512, 4096, 16384, 131072)
_MISSING_TAIL, _MISSING_HOLE = (
    CODES[LossKind.MISSING_TAIL],
    CODES[LossKind.MISSING_HOLE],
)


@dataclass(frozen=True, slots=True)
class Share:
    """Operations of one class: how many were acked, and how many lost something.

    up_to: the upper bound of the class, inclusive; None for the class without one.
    """

    up_to: float | None
    acked: int
    lost: int


@dataclass(frozen=True, slots=True)
class LossShape:
    """Shape of the losses among the operations of this run.

    Only operations that were acked count; each counts once, whatever it lost.

    by_age:    classes of seconds from the ack to the cut; () if the cut is not dated.
    by_size:   classes of bytes of the payload; () if all payloads have one size.
    by_window: the tasks of housekeeping; () if the run had none.
    by_table:  the name of each table of the plan -> losses in it, also losses of rows
               that no operation is known of.
    oldest_s:  the age at the cut of the oldest ack of an operation that lost
               something, None if the cut is not dated or nothing was lost.
    missing:   how many of the operations lost the row that bears the ack.
    reordered: how many of the missing operations were acked before another operation
               was sent that survived as a whole: so what survived is not simply the
               beginning of the load.
    """

    by_age: tuple[Share, ...]
    by_size: tuple[Share, ...]
    by_window: tuple[WindowShare, ...]
    by_table: Mapping[str, int]
    oldest_s: float | None
    missing: int
    reordered: int


NO_SHAPE = LossShape((), (), (), {}, None, 0, 0)


def find_shape_of_losses(
    losses: Losses,
    acks: AckStream,
    cut_us: int | None,
    sizes: Sizes | None,
    tables: Sequence[TableSpec],
    windows: Windows | None = None,
    late_us: int | None = 0,
) -> LossShape:
    """Return the shape of *losses* in *tables*, the tables of the plan.

    cut_us: when the power was cut, on the clock of the acks; None if nothing shows it.
    sizes:  of the payloads; None if all have one size, or there are none.
    windows: of the tasks of the run, nothing counted yet; None if it had no tasks.
    late_us: by how much an ack may be dated too late, None if that is unknown.
    """
    columns = losses.columns
    is_acked = columns["acked_us"] >= 0
    lost_operations = find_distinct(number_operations(columns)[is_acked])
    ages_counted = _Classes([s * 1e6 for s in AGES_S], 1e6 if cut_us is not None else 0)
    sizes_counted = _Classes(SIZES_BYTES, 1 if sizes is not None else 0)
    latest_us = NEVER
    sessions = SessionTimes()
    for batch in acks():
        is_lost = is_among_distinct(number_operations(batch), lost_operations)
        sent_us = sessions.sent_after_us(batch)
        latest_us = max(latest_us, int(sent_us[~is_lost].max(initial=NEVER)))
        if cut_us is not None:
            ages_counted.add(np.maximum(cut_us - batch["acked_us"], 0), is_lost)
        if sizes is not None:
            key = (batch["session"].astype(np.int64), batch["seq"].astype(np.int64))
            sizes_counted.add(sizes.of(*key), is_lost)
        if windows is not None:
            windows.add(batch, is_lost)
    latest_us = NEVER if late_us is None else latest_us - late_us
    return LossShape(
        by_age=tuple(ages_counted.shares()),
        by_size=tuple(sizes_counted.shares()),
        by_window=tuple(windows.shares()) if windows else (),
        by_table=_count_by_table(columns, tables),
        oldest_s=_measure_oldest_loss_s(columns["acked_us"][is_acked], cut_us),
        missing=int(np.count_nonzero(_is_missing(columns))),
        reordered=int(np.count_nonzero(_is_reordered(columns, latest_us))),
    )


def _measure_oldest_loss_s(acked_us: Ints, cut_us: int | None) -> float | None:
    if cut_us is None or not acked_us.size:
        return None
    return max(0, cut_us - int(acked_us.min())) / 1e6


def _is_missing(losses: LossArray) -> Flags:
    """Return a flag for each loss: True if the row that bears the ack is gone."""
    is_missing: Flags = (losses["kind"] == _MISSING_TAIL) | (
        losses["kind"] == _MISSING_HOLE
    )
    return is_missing & (losses["acked_us"] >= 0)


def _is_reordered(losses: LossArray, latest_us: int) -> Flags:
    """Return a flag for each loss: True if it was acked before a survivor was sent.

    latest_us: the latest moment before which some survivor was certainly not sent.
    A time in the log is rounded up by less than its unit (rows.acks.pack), so a whole
    unit must lie between.  A hole has a later survivor in its own session.
    """
    is_reordered: Flags = losses["acked_us"] <= latest_us - TIME_UNIT_US
    is_reordered |= losses["kind"] == _MISSING_HOLE
    return is_reordered & _is_missing(losses)


class _Classes:
    """Counts operations by class.

    unit: divides a bound to get the bound that is shown; 0 if nothing is counted.
    """

    def __init__(self, bounds: Sequence[float], unit: float) -> None:
        self._bounds, self._unit = np.array(bounds), unit
        self._acked = np.zeros(len(bounds) + 1, np.int64)
        self._lost = np.zeros_like(self._acked)

    def add(self, values: Ints, is_lost: Flags) -> None:
        """Count operations by *values*, one for each."""
        places = np.searchsorted(self._bounds, values, side="left")
        self._acked += np.bincount(places, minlength=self._acked.size)
        self._lost += np.bincount(places[is_lost], minlength=self._acked.size)

    def shares(self) -> Iterator[Share]:
        """Yield the classes in which something was acked, the smallest first."""
        if not self._unit:
            return
        bounds = [*(self._bounds / self._unit).tolist(), None]
        counted = zip(bounds, self._acked.tolist(), self._lost.tolist(), strict=True)
        for up_to, acked, lost in counted:
            if acked:
                yield Share(up_to, acked, lost)


def _count_by_table(columns: LossArray, tables: Sequence[TableSpec]) -> dict[str, int]:
    counted = np.bincount(columns["table"], minlength=len(TABLES)).tolist()
    return {table.name: counted[TABLES.index(table)] for table in tables}
