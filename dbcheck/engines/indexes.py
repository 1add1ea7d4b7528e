"""Compares a table's indexes with the rows that were read from it."""

from __future__ import annotations

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import IndexDamaged
from dbcheck.rows.acks import Ints
from dbcheck.rows.survivors import RECORD, Records

LOOKUPS_MAX = 100_000
# The moduli of count_any.sql; their product, summed over a batch, fits into 64 bits.
_MODULI = (1048573, 65521)
_SESSION_FACTOR = 40009  # as in count_key_any.sql; above any part
_SHOWN_IDS = 3


class RowsRead:
    """The rows that were read from the table.

    count:      how many rows there are.
    digest:     digest of their ids, as count_any.sql computes it.
    key_digest: digest of the columns in the index of keys, as count_key_any.sql
                computes it; 0 without such an index.

    The result of % has the sign of its first operand in PostgreSQL (manual 17, 9.3),
    MySQL and MariaDB, as that of fmod has.
    """

    def __init__(self, *, has_key_index: bool) -> None:
        self.count = self.digest = self.key_digest = 0
        self._has_key_index = has_key_index
        self._stride, self._next = 1, 0
        self._parts: list[Records] = []
        self._kept = 0

    def add(self, records: Records) -> None:
        """Take in the rows of a batch."""
        ids = records["row_id"]
        self.digest += _digest(ids, ids)
        if self._has_key_index:
            places = records["session"].astype(np.int64) * _SESSION_FACTOR
            self.key_digest += _digest(records["epoch"], places + records["part"])
        kept = records[(self._next - self.count) :: self._stride]
        self._parts.append(kept.copy())
        self._kept += len(kept)
        self._next += len(kept) * self._stride
        self.count += len(records)
        while self._kept > LOOKUPS_MAX:
            thinner = self.sample[::2]
            self._parts, self._kept = [thinner], len(thinner)
            self._stride *= 2
            self._next = len(thinner) * self._stride

    @property
    def sample(self) -> Records:
        """Every n-th row, at most LOOKUPS_MAX rows."""
        return np.concatenate([np.empty(0, RECORD), *self._parts])


def _digest(first: Ints, second: Ints) -> int:
    first_rests, second_rests = (
        np.fmod(values, modulus)
        for values, modulus in zip((first, second), _MODULI, strict=True)
    )
    return int((first_rests * second_rests).sum())


def require_agreement(
    table: str,
    index: str,
    counted: int,
    read: int,
    lost: tuple[int, ...],
    *,
    same: bool,
) -> None:
    """Raise IndexDamaged if the index has other rows than the table.

    table:   the table's name.
    index:   how messages name the index and its table.
    counted: how many rows the index has.
    read:    how many rows the table has.
    lost:    ids of the rows that the index does not find, among those looked up.
    same:    the digest of the index's contents is that of the table's.
    """
    if counted != read:
        raise IndexDamaged(
            f"{index} has {counted:,} rows where the table has {read:,}",
            table,
            max(abs(counted - read), len(lost)),
            lost,
            id=ErrorId.INDEX_DAMAGED,
        )
    if lost:
        shown = ", ".join(map(str, lost[:_SHOWN_IDS]))
        raise IndexDamaged(
            f"{index} does not find {len(lost):,} rows that the table has, among them"
            f" the ids {shown}",
            table,
            len(lost),
            lost,
            id=ErrorId.INDEX_DAMAGED,
        )
    if not same:
        raise IndexDamaged(
            f"{index} has other keys than the table", table, 1, id=ErrorId.INDEX_DAMAGED
        )
