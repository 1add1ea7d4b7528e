"""Which stored folders this user's client made.

What names programs, hosts or settings in a folder counts only if the folder is the
user's own: anybody may have packed one that looks so.  As such a folder is begun, the
SHA-256 of the record that describes it is noted where nobody else can write:

    $XDG_STATE_HOME/dbcheck/SUBJECT/SHA256.json     else under ~/.local/state

A run has a key in place of that, see clientkey.py.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from dbcheck import stored
from dbcheck.errors import RunFormatError
from dbcheck.state import state_folder

_FILE_BYTES_MAX = 1 << 12


@dataclass(frozen=True, slots=True)
class _Made:
    """record: its SHA-256, in hex."""

    record: str


def remember(subject: str, record: bytes) -> None:
    """Note that this client made what *record* describes.

    subject: "campaigns" or "explorations".  Raise RunWriteError if it cannot be noted.
    """
    path = _path(subject, record)
    stored.make_folder(path.parent)
    stored.write(path, [stored.to_bytes(_Made(_digest(record)))])


def is_own(subject: str, record: bytes) -> bool:
    """Say whether remember() noted this very *record*."""
    path = _path(subject, record)
    try:
        with stored.private(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                return False
            note = stored.from_bytes(file.read(_FILE_BYTES_MAX), _Made, str(path))
    except (OSError, RunFormatError):
        return False
    return note.record == _digest(record)


def _path(subject: str, record: bytes) -> Path:
    return state_folder(subject) / f"{_digest(record)}.json"


def _digest(record: bytes) -> str:
    return hashlib.sha256(record).hexdigest()
