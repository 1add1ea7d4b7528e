"""Refuses inventories that other users can change: they name programs to run."""

from __future__ import annotations

from pathlib import Path

from dbcheck.base.access import require_closed, who_may_write
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError


def require_trusted(path: Path) -> None:
    """Raise UsageError if another user may change *path*, which an inventory is of.

    What is missing is accepted where no other user can make it.
    """
    require_closed(
        path,
        "an inventory",
        ErrorId.INVENTORY_OPEN_TO_OTHERS,
        "An inventory names programs that dbcheck runs. Use one in a folder of your"
        " own; or, if you trust all who could write it,",
    )


def require_no_additions(folder: Path) -> None:
    """Raise UsageError if another user may make group_vars in *folder*.

    Where anybody may write, as in /tmp, Ansible would read what they make there.
    """
    try:
        who = who_may_write(folder, folder.stat())
    except OSError:
        return
    if who:
        raise UsageError(
            f"{who[0]} may add variables to an inventory in {folder}",
            id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
            hint="Ansible reads group_vars and host_vars beside an inventory. Move it"
            " to a folder of your own.",
        )
