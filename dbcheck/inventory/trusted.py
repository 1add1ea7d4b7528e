"""Refuses inventories that other users can change: they name programs to run."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from pathlib import Path

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.owners import is_ours, own_users
from dbcheck.steps import steps

_ACL = "system.posix_acl_access"  # acl(5); its mask is shown as the group's bits
_WHY = "An inventory names programs that dbcheck runs."


def require_trusted(path: Path) -> None:
    """Raise UsageError if another user may change *path*, which an inventory is of.

    Or may replace a folder or a link that leads there, or owns one of them.  Trusted
    are this user, root, who called sudo, and a group of one of them alone, as many
    systems give each user: there files are made with the mode 0664.  A file that cannot
    be inspected is accepted: reading it fails later, with the reason.
    """
    try:
        found = path.stat()
        if who := _who_may_write(path, found):
            raise _open(f"{who[0]} may write {path}", who[1], path)
        _require_ours(path, found)
        for step in steps(path):
            folder = step.parent.stat()
            who = _who_may_write(step.parent, folder)
            if who and not folder.st_mode & stat.S_ISVTX:
                raise _open(f"{who[0]} may replace {step}", who[1], step.parent)
            _require_ours(step, step.lstat())
    except OSError:
        return


def _who_may_write(path: Path, found: os.stat_result) -> tuple[str, str] | None:
    """Return who else than its owner may write, and what ends that; None if nobody."""
    if found.st_mode & stat.S_IWOTH:
        return "any user", "chmod o-w"
    if not found.st_mode & stat.S_IWGRP:
        return None
    if _has_acl(path):
        return "whom its access control list names", "setfacl -b"
    if _is_private(found.st_gid):
        return None
    return f"the group {_group(found.st_gid)}", "chmod g-w"


def _is_private(gid: int) -> bool:
    """Say whether one of those who are trusted is alone in a group, as its namesake."""
    try:
        group = grp.getgrgid(gid)
        user = pwd.getpwnam(group.gr_name)
    except KeyError:
        return False
    is_own = user.pw_gid == gid and user.pw_uid in own_users() | {0}
    return is_own and set(group.gr_mem) <= {user.pw_name}


def _has_acl(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, _ACL))
    except (OSError, AttributeError):  # it has none, or the system knows none
        return False


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _require_ours(path: Path, found: os.stat_result) -> None:
    if is_ours(found):
        return
    owner = f"chown -h {os.geteuid()} {shlex.quote(str(path))}"
    raise UsageError(
        f"{path} belongs to another user (uid {found.st_uid}), and is part of an"
        " inventory or leads to one",
        id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
        hint=f"{_WHY} Use one of your own, in a folder of your own. If you trust who"
        f" wrote it, copy it there, or run: {owner}",
    )


def _open(what: str, end: str, where: Path) -> UsageError:
    return UsageError(
        f"{what}, which is part of an inventory",
        id=ErrorId.INVENTORY_OPEN_TO_OTHERS,
        hint=f"{_WHY} Run: {end} {shlex.quote(str(where))}",
    )
