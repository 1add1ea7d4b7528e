"""Finds the owners of files, the users who may change them, and home directories.

This file is sent to the witness with its agent: Python 3.8, and of dbcheck
base/system.py alone.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Set as AbstractSet
from pathlib import Path

from dbcheck.base.system import steps

_ACL = "system.posix_acl_access"  # acl(5); its mask is shown as the group's bits


def own_users() -> set[int]:
    """Return the ids of this user and, for root, of who called sudo(8)."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return {os.geteuid(), *([int(caller)] if caller.isdecimal() else [])}


def is_ours(found: os.stat_result) -> bool:
    """Return True if a file belongs to one of own_users(), or to root."""
    return found.st_uid in own_users() | {0}


def exchangeable(path: str) -> str:
    """Return the reason why another user could replace *path* by a link, or "".

    Such a user owns a folder or link that leads there, or may write in a folder on the
    way.  In a sticky one, as /tmp, nobody can rename what is another's (unlink(2),
    EPERM).  What is not there is made later, by us or by another user.
    """
    users = own_users() | {0}
    for step in steps(Path(path)):
        try:
            above = step.parent.stat()
            shared = others_write(above, step.parent)
            if shared and not above.st_mode & stat.S_ISVTX:
                return f"{step.parent} has mode {stat.S_IMODE(above.st_mode):o}"
            owner = step.lstat().st_uid
        except FileNotFoundError:
            continue
        if owner not in users:
            return f"{step} belongs to user {owner}"
    return ""


def others_write(found: os.stat_result, place: int | str | Path) -> int:
    """Return the bits of a mode that let others than its owner write, 0 if none.

    place: its path or descriptor.  A group that has the user alone, as many systems
    give each, is no other: then 0775 is their default.
    """
    bits = found.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if not bits & stat.S_IWGRP or has_acl(place):
        return bits
    own = is_group_of(found.st_gid, own_users() | {0})
    return bits & ~stat.S_IWGRP if own else bits


def is_group_of(gid: int, allowed: AbstractSet[int]) -> bool:
    """Return True if all members of a group are *allowed*, and it has some, and a name.

    A group without members is not safe: programs run as it by the set-group-ID bit, or
    its members are in a directory that lists none (getpwent(3), sssd.conf(5),
    "enumerate").
    """
    try:
        named = grp.getgrgid(gid).gr_mem
        members = {pwd.getpwnam(name).pw_uid for name in named}
    except KeyError:
        return False
    members |= {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == gid}
    return bool(members) and members <= allowed


def has_acl(place: int | str | Path) -> bool:
    """Return True if the mode's bits of the group show what others may do at most."""
    try:
        return bool(os.getxattr(place, _ACL))
    except (OSError, AttributeError):  # it has none, or the system knows none
        return False


def expanded(path: str) -> str:
    """Return *path* with ~ or ~USER at its start replaced by that home, as by a shell.

    Raise LookupError if there is no such user, whose folder would be called ~USER.
    """
    found = os.path.expanduser(path)
    if found.startswith("~"):
        user = path.partition("/")[0]
        raise LookupError(f"{user}: there is no such user; write ./{path} for a name")
    return found
