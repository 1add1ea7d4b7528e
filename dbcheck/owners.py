"""Which files are this user's own, whose are trusted, and where a home is.

This file is sent to the witness with its agent: Python 3.8, and no import of dbcheck's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator


def own_users() -> set[int]:
    """Return the ids of this user and, for root, of who called sudo(8)."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return {os.geteuid(), *([int(caller)] if caller.isdecimal() else [])}


def is_ours(found: os.stat_result) -> bool:
    """Say whether a file belongs to one of own_users(), or to root."""
    return found.st_uid in own_users() | {0}


def exchangeable(path: str) -> str:
    """Return why another user could exchange *path* for a link, "" if none could.

    Such a user owns a folder above it, or may write there.  In a sticky one, as /tmp,
    nobody can rename what is another's (unlink(2), EPERM).  What is not there is made
    later, by us.
    """
    users = own_users() | {0}
    for above in _above(path):
        try:
            owners = {os.lstat(above).st_uid, os.stat(above).st_uid}
            status = os.stat(above)
        except FileNotFoundError:
            continue
        if not owners <= users:
            return f"{above} belongs to user {max(owners - users)}"
        # A group of the user's own, as many systems give each.
        others = 0o002 if status.st_gid == os.getegid() else 0o022
        if status.st_mode & others and not status.st_mode & stat.S_ISVTX:
            return f"{above} has mode {stat.S_IMODE(status.st_mode):o}"
    return ""


def _above(path: str) -> Iterator[str]:
    """Yield the folders above *path*, as it is given, and above where it leads."""
    for folder in {os.path.abspath(path), os.path.realpath(path)}:
        while folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
            yield folder


def expanded(path: str) -> str:
    """Return *path* with ~ or ~USER at its start replaced by that home, as by a shell.

    Raise LookupError if there is no such user, whose folder would be called ~USER.
    """
    found = os.path.expanduser(path)
    if found.startswith("~"):
        user = path.partition("/")[0]
        raise LookupError(f"{user}: there is no such user; write ./{path} for a name")
    return found
