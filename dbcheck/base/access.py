"""Finds other users who may change a path."""

from __future__ import annotations

import grp
import os
import shlex
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import has_acl, is_ours, others_write
from dbcheck.base.system import steps


@dataclass(frozen=True, slots=True)
class Change:
    """A way for another user to change a path, and the command that ends it."""

    how: str
    end: str


def require_closed(path: Path, what: str, id: ErrorId, hint: str) -> None:
    """Raise UsageError if another user may change what lies at *path*.

    what: it belongs to, in the message.  hint: before the command that ends it.
    """
    if change := find_change_by_others(path):
        raise UsageError(
            f"{change.how}: it is part of {what}, or leads to one",
            id=id,
            hint=f"{hint} run: {change.end}",
        )


def find_change_by_others(path: Path) -> Change | None:
    """Return the way for another user to write, replace or redirect *path*.

    None if none may.  What is missing is safe where no other user can make it.  Each
    folder and link that leads there counts.  Trusted are this user, root, who called
    sudo, and a group that has one of them alone, as many systems give each user: there
    files are made with the mode 0664.
    """
    try:
        for step in steps(path):
            folder = step.parent.stat()
            who = who_may_write(step.parent, folder)
            if who and not folder.st_mode & stat.S_ISVTX:
                return _written(f"{who[0]} may replace {step}", who[1], step.parent)
            if not is_ours(found := step.lstat()):
                return _owned(step, found)
        found = path.stat()
        if who := who_may_write(path, found):
            return _written(f"{who[0]} may write {path}", who[1], path)
        if not is_ours(found):
            return _owned(path, found)
    except OSError:
        pass
    return None


def who_may_write(path: Path, found: os.stat_result) -> tuple[str, str] | None:
    """Return the others than its owner who may write, and the command that stops it.

    None if nobody may.  found: the status of *path*.  Trusted are whom
    find_change_by_others() trusts.
    """
    bits = others_write(found, path)
    if bits & stat.S_IWOTH:
        return "any user", "chmod o-w"
    if not bits:
        return None
    if has_acl(path):
        return "whom its access control list names", "setfacl -b"
    return f"the group {_find_group_name(found.st_gid)}", "chmod g-w"


def _find_group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _written(how: str, end: str, where: Path) -> Change:
    return Change(how, f"{end} {shlex.quote(str(where))}")


def _owned(path: Path, found: os.stat_result) -> Change:
    how = f"{path} belongs to another user (uid {found.st_uid})"
    return _written(how, f"chown -h {os.geteuid()}", path)


def find_own_program(name: str) -> str | None:
    """Return the first program of that name in PATH that no other user may change.

    None if there is none.  In a folder that others may write, that may be a trap.
    """
    for folder in processes.make_search_path().split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found and find_change_by_others(Path(found)) is None:
            return found
    return None
