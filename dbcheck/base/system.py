"""Clocks, durable writes, and symbolic links in a path, for Linux and macOS.

On macOS, fsync(2) and fdatasync(2) leave the bytes in the drive's cache; only
F_FULLFSYNC has the drive write them (fcntl(2)).  If a filesystem refuses F_FULLFSYNC,
the error goes to the caller, since nothing less is durable.

This file is sent to other hosts with their agents: it must run on Python 3.8
and imports no module of dbcheck.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


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
    boot_us = (
        time.clock_gettime_ns(_BOOT_CLOCK) // 1000 if _BOOT_CLOCK else monotonic_us
    )
    return monotonic_us, boot_us, time.time_ns() // 1000


_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)


def sync(fd: int) -> None:
    """Make a file or folder durable, content and metadata; raise OSError."""
    if _FULL_SYNC is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, _FULL_SYNC)


def sync_data(fd: int) -> None:
    """Make the content of a file durable, and its size; raise OSError."""
    if _FULL_SYNC is None and hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        sync(fd)


_LINKS_MAX = 40  # as many links as the kernel follows (path_resolution(7))


def steps(path: Path) -> Iterator[Path]:
    """Yield each component of *path*, from the root on, and of the links on the way.

    The path of each component leads to it without a link, so its parent is the folder
    that the component lies in.  Raise OSError if a component cannot be inspected.
    """
    folder, links_left = Path("/"), _LINKS_MAX
    # The current folder may have been deleted; an absolute path does not need it.
    parts_left = _reversed_parts(path if path.is_absolute() else Path.cwd() / path)
    while parts_left:
        part = parts_left.pop()
        if part == "..":
            folder = folder.parent
            continue
        step = folder / part
        yield step
        if not (links_left and step.is_symlink()):
            folder = step
            continue
        links_left -= 1
        target = Path(os.readlink(step))
        if target.is_absolute():
            folder = Path("/")
        parts_left += _reversed_parts(target)


def _reversed_parts(path: Path) -> list[str]:
    return [part for part in reversed(path.parts) if part.strip("/")]
