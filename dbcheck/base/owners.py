"""Finds the owners of files, the users who may change them, and home directories.

This file is sent to the witness with its agent: it must run on Python 3.8 and imports
only base/system.py of dbcheck.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Set as AbstractSet
from pathlib import Path

from dbcheck.base.system import steps

_ACL = "system.posix_acl_access"  # acl(5); a mode shows its mask as the group's bits


def own_users() -> set[int]:
    """Return the ids of this user and, for root, of the user who called sudo(8)."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return {os.geteuid(), *([int(caller)] if caller.isdecimal() else [])}


def find_user_name() -> str:
    """Return the name of this user; for root, of the user who called sudo(8)."""
    user = max(own_users())  # root's own id is the lowest of all
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # as in a container whose user has no account
        return str(user)


def is_ours(found: os.stat_result) -> bool:
    """Return True if a file belongs to one of own_users(), or to root."""
    return found.st_uid in own_users() | {0}


def exchangeable(path: str) -> str:
    """Return the reason why another user could replace *path* by a link, or "".

    Such a user owns a folder or link that leads there, or may write in a folder on the
    way.  In a sticky folder, as /tmp, nobody can rename the file of another user
    (unlink(2), EPERM).  A missing component is skipped.
    """
    users = own_users() | {0}
    for step in steps(Path(path)):
        try:
            folder = step.parent.stat()
            write_bits = others_write(folder, step.parent)
            if write_bits and not folder.st_mode & stat.S_ISVTX:
                return f"{step.parent} has mode {stat.S_IMODE(folder.st_mode):o}"
            owner = step.lstat().st_uid
        except FileNotFoundError:
            continue
        if owner not in users:
            return f"{step} belongs to user {owner}"
    return ""


def others_write(found: os.stat_result, place: int | str | Path) -> int:
    """Return the bits of a mode that let others than its owner write, 0 if none.

    A group with this user alone does not count as others: many systems give each user
    such a group, and make folders with the mode 0775.

    place: the path or descriptor of the file.
    """
    bits = found.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if not bits & stat.S_IWGRP or has_acl(place):
        return bits
    is_private_group = is_group_of(found.st_gid, own_users() | {0})
    return bits & ~stat.S_IWGRP if is_private_group else bits


def is_group_of(gid: int, allowed: AbstractSet[int]) -> bool:
    """Return True if a group has a name and members, and all of these are *allowed*.

    A group without members is not safe: programs may run as that group by the
    set-group-ID bit, or its members are in a directory that lists none (getpwent(3),
    sssd.conf(5), "enumerate").
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
    except (OSError, AttributeError):  # no ACL, or a system without ACLs
        return False


def expanded(path: str) -> str:
    """Return *path* with ~ or ~USER at its start replaced by that home, as by a shell.

    Raise LookupError if there is no such user, whose folder would be called ~USER.
    """
    full_path = os.path.expanduser(path)
    if full_path.startswith("~"):
        user = path.partition("/")[0]
        raise LookupError(f"{user}: there is no such user; write ./{path} for a name")
    return full_path
