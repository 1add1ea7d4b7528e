"""Reads files that a user names, or that lie where programs look for them.

Something other than a regular file may stand there: opening a FIFO waits for a writer,
opening a device may do anything, and /dev/zero has no end.  /dev/null counts as an
empty file: many configurations name it to have no file.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import IO

TEXT_MAX = 1 << 24  # bytes of a file that a person writes
SECRET_MAX = 1 << 16  # bytes of a file that holds a secret
_PIECE_BYTES = 1 << 16


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, also by a link, to read it; raise OSError.

    O_NONBLOCK: a FIFO may have replaced it after the first check (open(2), fifo(7)).
    """
    _require_regular(path, os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(path, os.fstat(descriptor))
        return open(path, "rb", opener=lambda *_: descriptor)  # so that it has a name
    except BaseException:
        os.close(descriptor)
        raise


def read_rest(file: IO[bytes], most: int) -> bytes:
    """Return all that *file* holds from here on; raise OSError, which names it."""
    found = bytearray()
    # Piece by piece: read(n) allocates n bytes at once, however small the file is.
    while len(found) <= most and (piece := file.read(_PIECE_BYTES)):
        found += piece
    _require_size_bytes(file.name, len(found), most)
    return bytes(found)


def read_regular(path: Path, most: int = TEXT_MAX) -> bytes:
    """Return the bytes of a regular file; raise OSError if it is not one, or larger."""
    with open_regular(path) as file:
        return read_rest(file, most)


def require_regular(path: Path, most: int = TEXT_MAX) -> None:
    """Raise OSError unless *path* is a regular file of *most* bytes at most.

    For files that a library opens by name.
    """
    with open_regular(path) as file:
        require_size(file, most)


def require_size(file: IO[bytes], most: int) -> None:
    """Raise OSError, which names it, if *file* is larger."""
    _require_size_bytes(file.name, os.fstat(file.fileno()).st_size, most)


def _require_size_bytes(name: str, size: int, most: int) -> None:
    if size > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 10:,} KiB", str(name))


def _require_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode) and not _is_null(status):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def _is_null(status: os.stat_result) -> bool:
    """Return True if *status* is of the device /dev/null, under any name."""
    null = os.stat(os.devnull)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == null.st_rdev
