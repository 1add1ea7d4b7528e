"""The rows that earlier cycles left: a later cut must not take them either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from dbcheck.rows.acks import Ints
from dbcheck.rows.loss import CODES, LossArray, LossKind, make_losses_without_key
from dbcheck.rows.survivors import DIFFERENT, Records, find_distinct
from dbcheck.rows.table import TableFacts, TableSpec

WEIGHT_MODULUS = 2**64


class EpochTotals:
    """Counts and weighs rows by their epoch.

    rows, row_id_max: see rows.table.TableFacts.
    """

    def __init__(self) -> None:
        self.rows: Counter[int] = Counter()
        self.row_id_max = 0
        self._weights: Counter[int] = Counter()

    @property
    def weights(self) -> dict[int, int]:
        """See weights_by_epoch in rows.table.TableFacts."""
        return {e: weight % WEIGHT_MODULUS for e, weight in self._weights.items()}

    def add(self, records: Records) -> None:
        """Take in rows."""
        for epoch in find_distinct(records["epoch"]):
            own = records[records["epoch"] == epoch]
            self.rows[int(epoch)] += own.size
            self.row_id_max = max(self.row_id_max, int(own["row_id"].max()))
            ids = own["row_id"].astype(np.uint64)
            weight = (ids * own["checksum"].astype(np.uint64)).sum(dtype=np.uint64)
            self._weights[int(epoch)] += int(weight)


def count_losses_by_epoch(
    rows: Mapping[int, int],
    weights: Mapping[int, int],
    rows_now: Mapping[int, int],
    weights_now: Mapping[int, int],
) -> dict[int, int]:
    """Return epoch -> how many rows of it are gone or changed, at least.

    All parameters are by epoch.  The rows of an epoch without a weight are only
    counted.  If as many rows have another weight, at least one row was replaced.
    """
    losses: dict[int, int] = {}
    for epoch, count in rows.items():
        count_now = rows_now.get(epoch, 0)
        is_weighed = epoch in weights and epoch in weights_now
        if count_now < count:
            losses[epoch] = count - count_now
        elif count_now == count and is_weighed and weights[epoch] != weights_now[epoch]:
            losses[epoch] = 1
    return losses


class Earlier:
    """Counts and weighs the rows that are left of each earlier epoch.

    foreign: intact rows of other runs, which were not there when the table was counted.
    losses:  rows that do not match their checksum, or occur twice; in parts.
    damaged: kind of loss -> how many of *losses* are rows that were there when the
             table was counted.
    altered: rows that do not match their checksum, and perhaps did not when the table
             was counted either: no claim.
    """

    def __init__(self, table: TableSpec, before: TableFacts) -> None:
        """Expect in *table* what *before* counts."""
        self._table, self._before = table, before
        self._epochs = np.array(sorted(before.rows_by_epoch), np.int64)
        self._totals = EpochTotals()
        self._listed_by_epoch: Counter[int] = Counter()
        self.foreign = 0
        self.losses: list[LossArray] = []
        self.damaged: Counter[LossKind] = Counter()
        self.altered = 0
        self._different: list[Records] = []

    @property
    def rows(self) -> int:
        """The number of rows that are still there, of all epochs."""
        return self._totals.rows.total()

    def add(self, records: Records) -> None:
        """Take in rows that are not of this cycle's epoch.

        An intact checksum shows that a dbcheck wrote the row; a new id shows that it
        wrote it during this run or after it.
        """
        was_counted = np.isin(records["epoch"], self._epochs)
        was_counted &= records["row_id"] <= self._before.row_id_max
        is_different = records["content"] == DIFFERENT
        self.foreign += int(np.count_nonzero(~was_counted & ~is_different))
        self._totals.add(records[was_counted])
        if is_different.any():
            is_different &= ~(
                was_counted & np.isin(records["row_id"], self._before.different)
            )
            self._list_as_losses(
                LossKind.UNEXPECTED, records[is_different & ~was_counted]
            )
            self._different.append(records[is_different & was_counted])

    def settle_undecided(self, survivors: Callable[[], Iterable[Records]]) -> None:
        """Settle what could not be decided before all rows were read.

        Distinguish rows that changed since the table was counted from those that may
        have changed before, and rows that occur twice from rows that came late.  A row
        whose transaction was open when the table was counted has an id from before and
        is not a loss, whichever client sent it.
        """
        self._sort_different()
        for epoch, rows in self._before.rows_by_epoch.items():
            surplus = self._totals.rows[epoch] - rows
            if surplus > 0:
                repeated_ids = self._find_repeated_rows(epoch, survivors())
                kinds = np.full(len(repeated_ids), CODES[LossKind.DUPLICATE], np.uint8)
                self.losses.append(
                    make_losses_without_key(kinds, repeated_ids, self._table)
                )
                self.damaged += Counter({LossKind.DUPLICATE: len(repeated_ids)})
                self.foreign += max(0, surplus - len(repeated_ids))

    def _list_as_losses(self, kind: LossKind, records: Records) -> None:
        """Take *records* for losses of *kind*."""
        kinds = np.full(len(records), CODES[kind], np.uint8)
        self.losses.append(
            make_losses_without_key(kinds, records["row_id"], self._table)
        )
        self._listed_by_epoch.update(records["epoch"].tolist())

    def _sort_different(self) -> None:
        """Take changed rows for corrupt where their epoch was sound before the load.

        An earlier reading shows that an epoch was sound.  An epoch whose weight differs
        now has changed since it was counted: then each changed row of it is corrupt,
        also one that may have changed earlier.
        """
        before, totals = self._before, self._totals
        rows, weights = totals.rows, totals.weights
        changed_epochs = [
            epoch
            for epoch, weight in before.weights_by_epoch.items()
            if rows[epoch] == before.rows_by_epoch.get(epoch)
            and weights.get(epoch) != weight
        ]
        corrupt_epochs = [*before.sound, *changed_epochs]
        for records in self._different:
            is_corrupt = np.isin(records["epoch"], corrupt_epochs)
            self._list_as_losses(LossKind.CORRUPT, records[is_corrupt])
            self.damaged += Counter({LossKind.CORRUPT: int(is_corrupt.sum())})
            self.altered += int((~is_corrupt).sum())

    def _find_repeated_rows(self, epoch: int, survivors: Iterable[Records]) -> Ints:
        """Return the ids of the rows whose key another row of *epoch* has."""
        keys, ids = [], []
        for records in survivors:
            own = records[records["epoch"] == epoch]
            own = own[own["content"] != DIFFERENT]
            own = own[own["row_id"] <= self._before.row_id_max]
            keys.append(own["session"].astype(np.int64) << 32 | own["seq"])
            ids.append(own["row_id"])
        key, row_id = np.concatenate(keys), np.concatenate(ids)
        order = np.argsort(key, kind="stable")
        repeated_ids: Ints = row_id[order[1:][np.diff(key[order]) == 0]]
        return repeated_ids

    def lost(self) -> dict[int, int]:
        """Return epoch -> how many rows of it are gone, at least.

        The weight of an epoch is not compared if its changed rows are listed already.
        """
        before = self._before
        weights = {
            epoch: weight
            for epoch, weight in before.weights_by_epoch.items()
            if not self._listed_by_epoch[epoch]
        }
        totals = self._totals
        return count_losses_by_epoch(
            before.rows_by_epoch, weights, totals.rows, totals.weights
        )
