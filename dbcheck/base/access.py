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
    """A way for another user to change a path.

    how: who may change it and in which way, in words.
    end: the command that stops this.
    """

    how: str
    end: str


def require_closed(path: Path, what: str, id: ErrorId, hint: str) -> None:
    """Raise UsageError if another user may change what lies at *path*.

    what: what the path is part of, for the message.
    hint: what stands before the command that stops the change.
    """
    if change := find_change_by_others(path):
        raise UsageError(
            f"{change.how}: it is part of {what}, or leads to one",
            id=id,
            hint=f"{hint} run: {change.end}",
        )


def find_change_by_others(path: Path) -> Change | None:
    """Return the way for another user to write, replace or redirect *path*.

    None if no other user may.  A missing path is safe if no other user can make it.
    Each folder and link that leads to the path counts.  Trusted are this user, root,
    the user who called sudo, and a group with one of these users alone: many systems
    give each user such a group, and make files with the mode 0664.
    """
    try:
        for step in steps(path):
            folder = step.parent.stat()
            who = who_may_write(step.parent, folder)
            if who and not folder.st_mode & stat.S_ISVTX:
                return _make_change(f"{who[0]} may replace {step}", who[1], step.parent)
            if not is_ours(status := step.lstat()):
                return _make_change_by_owner(step, status)
        status = path.stat()
        if who := who_may_write(path, status):
            return _make_change(f"{who[0]} may write {path}", who[1], path)
        if not is_ours(status):
            return _make_change_by_owner(path, status)
    except OSError:
        pass
    return None


def who_may_write(path: Path, found: os.stat_result) -> tuple[str, str] | None:
    """Return the other users who may write *path*, and the command that stops them.

    None if only its owner and the users whom find_change_by_others() trusts may.

    found: the status of *path*.
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


def _make_change(how: str, end: str, where: Path) -> Change:
    return Change(how, f"{end} {shlex.quote(str(where))}")


def _make_change_by_owner(path: Path, found: os.stat_result) -> Change:
    how = f"{path} belongs to another user (uid {found.st_uid})"
    return _make_change(how, f"chown -h {os.geteuid()}", path)


def find_own_program(name: str) -> str | None:
    """Return the first program of that name in PATH that no other user may change.

    None if there is none.  A program that others may change may be a trap.
    """
    for folder in processes.make_search_path().split(os.pathsep):
        program = shutil.which(name, path=folder)
        if program and find_change_by_others(Path(program)) is None:
            return program
    return None
