"""Folders in memory, so that what syncs each file can be fuzzed quickly."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give an empty folder, and remove it with all that is in it."""
    where = MEMORY if MEMORY.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-fuzz-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
