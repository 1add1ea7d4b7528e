"""A copy of a drive as a cut left it, for a bug report."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.runs.stored import private

_READ_BYTES = 1 << 16
_ZEROS = bytes(_READ_BYTES)


def require_room(folder: Path, size_bytes: int) -> None:
    """Raise UsageError unless an image of a full drive fits into *folder*."""
    free = shutil.disk_usage(folder).free
    if free < size_bytes:
        raise UsageError(
            f"an image of the drive may need {size_bytes >> 20:,} MiB, and {folder} has"
            f" {free >> 20:,} MiB free",
            id=ErrorId.IMAGE_NEEDS_ROOM,
            hint="Make room there, name another folder with --runs, or leave out"
            " --keep-image.",
        )


def copy_drive(descriptor: int, size_bytes: int, image: Path) -> None:
    """Copy what a drive holds into the new file *image*, without its zeros.

    descriptor: of the drive, which is on and which nothing else uses.  Raise LabError,
    with no file left, if it cannot be written whole.
    """
    try:
        with private(image, "xb") as file:
            for offset in range(0, size_bytes, _READ_BYTES):
                content = os.pread(descriptor, _READ_BYTES, offset)
                if content != _ZEROS:
                    file.seek(offset)
                    file.write(content)
            file.truncate(size_bytes)
    except FileExistsError:
        raise LabError(f"{image} already exists", id=ErrorId.FILE_EXISTS) from None
    except OSError as error:
        image.unlink(missing_ok=True)
        raise LabError(
            f"cannot write the drive's image {image}: {error.strerror}",
            id=ErrorId.FILE_NOT_WRITABLE,
            hint="Leave out --keep-image, or name another folder with --runs.",
        ) from error
