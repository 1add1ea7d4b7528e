"""Makes writes survive a loss of power, with each system's own call.

fsync(2) of macOS leaves the bytes in the drive's cache, and so does its fdatasync(2):
there, only F_FULLFSYNC has the drive write them (fcntl(2)).  Where a filesystem refuses
that, the error goes to the caller, since nothing less is durable.

This file is sent to other hosts with their agents: Python 3.8, and no import of
dbcheck's.
"""

from __future__ import annotations

import fcntl
import os

_FULL = getattr(fcntl, "F_FULLFSYNC", None)


def sync(fd: int) -> None:
    """Make a file or folder durable, with all that is known of it; raise OSError."""
    if _FULL is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, _FULL)


def sync_data(fd: int) -> None:
    """Make what a file holds durable, and its size; raise OSError."""
    if _FULL is None and hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        sync(fd)
