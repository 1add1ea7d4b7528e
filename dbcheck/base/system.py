"""Clocks, durable writes, and symbolic links in a path, for Linux and macOS.

fsync(2) of macOS leaves the bytes in the drive's cache, and so does its fdatasync(2):
there, only F_FULLFSYNC has the drive write them (fcntl(2)).  Where a filesystem refuses
that, the error goes to the caller, since nothing less is durable.

This file is sent to other hosts with their agents: Python 3.8, and no import of
dbcheck's.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def now_us() -> int:
    """Return the monotonic clock of this machine, in microseconds.

    It does not step, and all processes of one boot share it.
    """
    return time.monotonic_ns() // 1000


def clocks_us() -> tuple[int, int, int]:
    """Return this machine's monotonic, boot-time and wall clocks, in microseconds.

    Where the system has no CLOCK_BOOTTIME (clock_gettime(2)), the monotonic clock
    stands in its place.
    """
    monotonic_us = time.monotonic_ns() // 1000
    boot_us = time.clock_gettime_ns(_BOOT) // 1000 if _BOOT else monotonic_us
    return monotonic_us, boot_us, time.time_ns() // 1000


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


_LINKS_MAX = 40  # as the kernel follows (path_resolution(7))


def steps(path: Path) -> Iterator[Path]:
    """Yield each component of *path*, from the root on, and of the links on the way.

    The folder of each is named without a link, so it is the one that the component
    lies in.  Raise OSError if a component cannot be inspected.
    """
    at, links = Path("/"), _LINKS_MAX
    # The current folder may have been deleted; an absolute path does not need it.
    left = _reversed_parts(path if path.is_absolute() else Path.cwd() / path)
    while left:
        part = left.pop()
        if part == "..":
            at = at.parent
            continue
        step = at / part
        yield step
        if not (links and step.is_symlink()):
            at = step
            continue
        links -= 1
        target = Path(os.readlink(step))
        if target.is_absolute():
            at = Path("/")
        left += _reversed_parts(target)


def _reversed_parts(path: Path) -> list[str]:
    return [part for part in reversed(path.parts) if part.strip("/")]
