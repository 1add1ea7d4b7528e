"""Refuses inventories that other users can change: they name programs to run."""

from __future__ import annotations

from pathlib import Path

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.others import who_may_change


def require_trusted(path: Path) -> None:
    """Raise UsageError if another user may change *path*, which an inventory is of.

    A file that cannot be inspected is accepted: reading it fails later, with the
    reason.
    """
    if change := who_may_change(path):
        raise UsageError(
            f"{change.how}: it is part of an inventory, or leads to one",
            id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
            hint="An inventory names programs that dbcheck runs. Use one in a folder of"
            f" your own; or, if you trust all who could write it, run: {change.end}",
        )
