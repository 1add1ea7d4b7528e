"""Compares a table's indexes with the rows that were read from it."""

from __future__ import annotations

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import IndexDamaged
from dbcheck.rows.acks import Ints
from dbcheck.rows.survivors import RECORD, Records

LOOKUPS_MAX = 100_000
_MODULI = (1048573, 65521)  # of count_any.sql; their product times a batch fits
_SESSION_FACTOR = 40009  # of count_key_any.sql; above any part
_SHOWN = 3


class RowsRead:
    """The rows that were read from the table.

    count: how many.
    digest, key_digest: of their ids, and of what the further index holds, as in
           count_any.sql and count_key_any.sql.  % has the sign of its first operand in
           PostgreSQL (manual 17, 9.3), MySQL and MariaDB, as fmod has.
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
        own = records[(self._next - self.count) :: self._stride]
        self._parts.append(own.copy())
        self._kept += len(own)
        self._next += len(own) * self._stride
        self.count += len(records)
        while self._kept > LOOKUPS_MAX:
            thinner = self.sample[::2]
            self._parts, self._kept = [thinner], len(thinner)
            self._stride *= 2
            self._next = len(thinner) * self._stride

    @property
    def sample(self) -> Records:
        """Every n-th of them, LOOKUPS_MAX at most."""
        return np.concatenate([np.empty(0, RECORD), *self._parts])


def _digest(first: Ints, second: Ints) -> int:
    one, other = (
        np.fmod(values, modulus)
        for values, modulus in zip((first, second), _MODULI, strict=True)
    )
    return int((one * other).sum())


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

    table:   its name.
    index:   how messages name it and its table.
    counted: how many rows it has.  read: how many the table has.
    lost:    ids of the rows that it does not find, as far as they were looked up.
    same:    the digest of what it holds is that of the table.
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
        shown = ", ".join(map(str, lost[:_SHOWN]))
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
