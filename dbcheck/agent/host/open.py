"""Files and folders whose names others may change while they are opened.

The server's account may write in the data directory, and mostly in the folder that it
lies in: at any moment a name there may become a link, a FIFO or a device, and this
process may be root's.  So what a path leads to is looked at by its descriptor, and all
that follows is done by that descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator

from dbcheck.agent.wire import Refusal

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A client without O_PATH imports this module too, and opens nothing.
_SEARCH, _LIST = getattr(os, "O_PATH", 0) | _FOLDER, os.O_RDONLY | _FOLDER


@contextlib.contextmanager
def name_path_in_errors(path: str) -> Iterator[None]:
    """Let an OSError name *path*, and not the part of it that a descriptor leaves."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def open_folder(
    path: str,
    *,
    search_only: bool = False,
    look: Callable[[int, str], None] = lambda folder, path: None,
) -> int:
    """Return a descriptor of the folder at an absolute path, no part of it a link.

    Each part is opened in the folder before it, so that none can be replaced by a link
    meanwhile.  search_only: the folder need not be readable.  look: called with the
    descriptor and the path of each folder on the way, and of the folder; it may raise.
    Raise OSError, or Refusal if a part is a link or no folder.
    """
    if not os.path.isabs(path):
        raise Refusal("protocol", f"not an absolute path: {path!r}")
    parts = [part for part in path.split("/") if part] or ["."]
    folder, reached = os.open("/", _SEARCH), ""
    try:
        look(folder, "/")
        for depth, part in enumerate(parts, 1):
            reached += "/" + part
            is_above = depth < len(parts)
            inner = open_folder_in(
                folder, part, reached, search_only=is_above or search_only
            )
            os.close(folder)
            folder = inner
            look(folder, reached)
    except BaseException:
        os.close(folder)
        raise
    return folder


def open_folder_in(
    parent: int, name: str, path: str, *, search_only: bool = False
) -> int:
    """Return a descriptor of the folder *name* in the folder *parent*, no link.

    path: its path, for errors.  search_only: the folder need not be readable.
    """
    try:
        with name_path_in_errors(path):
            return os.open(name, _SEARCH if search_only else _LIST, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refusal("strangers", f"{path} is a link, or not a folder") from None
        raise


def open_regular(
    path: str,
    flags: int = os.O_RDONLY,
    *,
    folder: int | None = None,
    follow: bool = False,
) -> int:
    """Return a descriptor of a regular file, opened with *flags*.

    The file is known to be regular before it is opened: opening a FIFO waits, and
    opening a device may do anything, as /dev/watchdog shows.
    path: relative to *folder*, a descriptor, if it is given.  follow: whether *path*
    may be a link.  Raise OSError, also if it is not a regular file.
    """
    look_flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, look_flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file", path)
        with name_path_in_errors(path):
            return os.open(f"/proc/self/fd/{handle}", flags | os.O_CLOEXEC)
    finally:
        os.close(handle)


@contextlib.contextmanager
def pin_block_device(path: str) -> Iterator[str]:
    """Give a path that leads a program to the block device at *path*, and no other.

    "" if there is none, as in the /dev of some containers.  A program must open no
    device of another kind: that may do anything.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        yield ""
        return
    try:
        is_block_device = stat.S_ISBLK(os.fstat(handle).st_mode)
        yield f"/proc/{os.getpid()}/fd/{handle}" if is_block_device else ""
    finally:
        os.close(handle)


def list_names(folder: int | str, path: str, most: int) -> list[str]:
    """Return the names in a folder; raise OSError if there are more than *most*.

    folder: its path or descriptor.  path: for errors.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, most + 1)]
    if len(names) > most:
        raise OSError(0, f"more than {most} files", path)
    return names
