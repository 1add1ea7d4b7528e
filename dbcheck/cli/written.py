"""Files that a user names for others to read: a report, a bundle."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError
from dbcheck.base.system import sync


def write_file(file: Path, chunks: Iterable[bytes]) -> None:
    """Write *file*, with the mode that the umask gives, whole or not at all.

    Links are followed, and what is no plain file, as /dev/stdout or a pipe, is written
    to.  Raise RunWriteError.
    """
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as opened:
                opened.writelines(chunks)
        else:
            _replace(file.resolve(), chunks)
    except OSError as error:
        raise RunWriteError(
            f"{file} cannot be written: {error.strerror}",
            id=ErrorId.FILE_NOT_WRITABLE,
            hint="Name a file in a folder that is there, or make room.",
        ) from None


def _replace(file: Path, chunks: Iterable[bytes]) -> None:
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as opened:
            opened.writelines(chunks)
            opened.flush()
            sync(opened.fileno())
        part.replace(file)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
