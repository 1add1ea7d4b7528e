"""Which files are this user's own, whose are trusted, and where a home is.

This file is sent to the witness with its agent: Python 3.8, and no import of dbcheck's.
"""

from __future__ import annotations

import os


def own_users() -> set[int]:
    """Return the ids of this user and, for root, of who called sudo(8)."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return {os.geteuid(), *([int(caller)] if caller.isdecimal() else [])}


def is_ours(found: os.stat_result) -> bool:
    """Say whether a file belongs to one of own_users(), or to root."""
    return found.st_uid in own_users() | {0}


def expanded(path: str) -> str:
    """Return *path* with ~ or ~USER at its start replaced by that home, as by a shell.

    Raise LookupError if there is no such user, whose folder would be called ~USER.
    """
    found = os.path.expanduser(path)
    if found.startswith("~"):
        user = path.partition("/")[0]
        raise LookupError(f"{user}: there is no such user; write ./{path} for a name")
    return found
