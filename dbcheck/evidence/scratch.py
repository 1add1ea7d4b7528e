"""A folder for one command, which the next command removes if that one was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "dbcheck-bundle-"
_LOCK = "lock"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make an empty folder for this user alone; remove it, and what was left behind."""
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name, _held(Path(name)):
        folder = Path(name) / "files"
        folder.mkdir()
        yield folder


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep _sweep() from removing *folder*, which it may find at any moment."""
    made = folder / "new"
    with made.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.rename(folder / _LOCK)
        yield


def _sweep(parent: Path) -> None:
    """Remove the folders of this user's commands that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid == os.geteuid() and _is_free(folder):
                shutil.rmtree(folder)


def _is_free(folder: Path) -> bool:
    """Say whether no process holds the folder; one that is just being made is held."""
    lock = folder / _LOCK
    if folder.is_symlink() or not lock.is_file():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
