"""Checks whether a host was put back on its drives since a client was lost.

By the note of the cut on the host, and what is mounted from the drives now.  A server
that was started since may be at work, and must not be ended.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.hosts.drives import DriveMount, Noted, Survey


class Back(enum.Enum):
    """How far a host is back on its drives."""

    NO = "no"
    MOUNTED = "mounted"  # anew, all of it; no server runs
    RUNS = "runs"  # a server that was started since


def found(noted: Noted, now: Survey | None, again: str) -> Back:
    """Return how far the host is; MOUNTED holds if nothing of renamed() is kept.

    now:   what is on the drives, None if they have no power, or nothing is mounted.
    again: what to do once a server has ended.
    Raise PowerError if a server that was started since is not on all of these drives.
    """
    points = {mount.point for mount in now.mounts} if now else set()
    missing = [m.point for m in noted.seen.mounts if m.point not in points]
    on_them = now is not None and now.on_them
    if noted.newer and (missing or not on_them):
        why = "not on these drives"
        if on_them:
            why = f"{', '.join(missing)} is not mounted from them"
        raise PowerError(
            "a server that was started after the cut works in "
            f"{noted.seen.directory}, and {why}",
            id=ErrorId.SERVER_STARTED_TOO_EARLY,
            hint=f"If it is to stay so, delete {noted.path} on the host. Else stop it. "
            f"{again}",
        )
    if noted.newer:
        return Back.RUNS
    if now is None or missing or noted.server:
        return Back.NO
    before = {mount.id for mount in noted.seen.mounts}
    anew = before.isdisjoint(mount.id for mount in now.mounts)
    return Back.MOUNTED if anew else Back.NO


def renamed(seen: Survey, now: Survey) -> Sequence[DriveMount]:
    """Return the mounts of before the cut whose drive has another name now.

    The kernel shows by the old name whether it still holds the old filesystem.
    """
    names = {mount.name for mount in now.mounts}
    return [mount for mount in seen.mounts if mount.name not in names]
