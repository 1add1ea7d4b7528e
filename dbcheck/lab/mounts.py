"""Takes off mounts of the lab, also those whose host lost its power."""

from __future__ import annotations

import errno
import logging
import os
import time
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import syscalls
from dbcheck.lab.process import Process, find_users

log = logging.getLogger(__name__)

_POLL_S = 0.005
_RELEASE_S = 2.0  # in which processes that were killed, or meet errors, release it


def umount(mountpoint: Path, timeout_s: float = 10.0) -> None:
    """Return once nothing is mounted on *mountpoint*; raise LabError after timeout_s.

    A filesystem stays busy until the last process that was killed has ended.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            syscalls.umount(str(mountpoint))
        except OSError as error:
            if error.errno == errno.EINVAL:  # nothing is mounted there
                return
            if error.errno != errno.EBUSY or time.monotonic() >= deadline:
                users = ", ".join(map(str, find_users(mountpoint)))
                raise LabError(
                    f"cannot unmount {mountpoint}: {error.strerror}",
                    id=ErrorId.FILESYSTEM_IN_USE,
                    hint=f"End what uses it: {users or 'a process outside the lab'}.",
                ) from error
            time.sleep(_POLL_S)


def release(mountpoint: Path) -> None:
    """Unmount a filesystem whose host lost its power; raise LabError as umount() does.

    A process that uses the filesystem is ended, as it runs on that host.  A process
    outside of the lab is not seen.
    """
    try:
        umount(mountpoint, timeout_s=_RELEASE_S)
    except LabError as error:
        if error.id is not ErrorId.FILESYSTEM_IN_USE:
            raise
        for user in find_users(mountpoint):
            process = Process.of(user.pid)
            if process is not None and user.pid != os.getpid():
                log.warning("the cut ended %s, which used %s", user, mountpoint)
                process.kill()
        umount(mountpoint, timeout_s=_RELEASE_S)
