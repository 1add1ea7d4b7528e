"""Refuses inventories that any user can change: they name programs to run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.owners import is_ours
from dbcheck.steps import steps


def require_trusted(path: Path) -> None:
    """Raise UsageError if any user may write or replace *path*, an inventory's file.

    Or may replace a folder or a link that leads there.  A file that cannot be inspected
    is accepted: reading it fails later, with the reason.
    """
    try:
        if _is_open(path.stat()):
            raise _open(f"any user may write {path}", path)
        for step in steps(path):
            folder, found = step.parent.stat(), step.lstat()
            if not _is_open(folder):
                continue
            if not folder.st_mode & stat.S_ISVTX:
                raise _open(f"any user may replace {step}", step.parent)
            if not is_ours(found):
                raise UsageError(
                    f"{step} belongs to another user (uid {found.st_uid}), in a folder"
                    " where any user may write",
                    id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
                    hint="An inventory names programs that dbcheck runs. Use one of"
                    " your own.",
                )
    except OSError:
        return


def _open(what: str, where: Path) -> UsageError:
    return UsageError(
        f"{what}, which is part of an inventory",
        id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
        hint=f"An inventory names programs that dbcheck runs. Run: chmod o-w {where}",
    )


def _is_open(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWOTH)
