"""When an index disagrees with the rows that were read from its table."""

from __future__ import annotations

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import IndexDamaged

_SHOWN = 3


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
