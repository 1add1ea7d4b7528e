"""Which stored folders this user's client made.

What names programs, hosts or settings in a folder counts only if the folder is the
user's own: anybody may have packed one that looks so.  As such a folder is begun, the
SHA-256 of the record that describes it names a file where nobody else can write:

    $XDG_STATE_HOME/dbcheck/SUBJECT/SHA256     an empty file; else under ~/.local/state

A run has a key in place of that, see clientkey.py.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dbcheck import stored
from dbcheck.state import state_folder


def remember(subject: str, record: bytes) -> None:
    """Note that this client made what *record* describes.

    subject: "campaigns" or "explorations".  Raise RunWriteError if it cannot be noted.
    """
    path = _path(subject, record)
    stored.make_folder(path.parent)
    stored.write(path, [])


def is_own(subject: str, record: bytes) -> bool:
    """Say whether remember() noted this very *record*."""
    try:
        with stored.private(_path(subject, record), "rb") as file:
            return not os.fstat(file.fileno()).st_mode & 0o077
    except OSError:
        return False


def _path(subject: str, record: bytes) -> Path:
    return state_folder(subject) / hashlib.sha256(record).hexdigest()
