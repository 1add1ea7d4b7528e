"""What the client keeps of one switch of one host, for its user alone.

A note counts only if it is a plain file of this user's that no other may change, and if
it is about this very switch: its file name, and who copied it, do not matter.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dbcheck.base.errors import RunFormatError
from dbcheck.power.wiring import Wiring
from dbcheck.runs import stored
from dbcheck.runs.stored import state_folder


@dataclass(frozen=True, slots=True)
class Note:
    """What every note holds: the fingerprint() of the wiring that it is about."""

    fingerprint: str


N = TypeVar("N", bound=Note)


def path_of(wiring: Wiring, subject: str) -> Path:
    """Return where the note on *subject* is kept."""
    return state_folder(subject) / f"{wiring.fingerprint()[:24]}.json"


def read(wiring: Wiring, subject: str, kind: type[N]) -> N | None:
    """Return the note on *subject*, None if there is none that counts."""
    path = path_of(wiring, subject)
    try:
        with stored.private(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            note = stored.from_bytes(file.read(), kind, str(path))
    except (OSError, RunFormatError):
        return None
    return note if note.fingerprint == wiring.fingerprint() else None


def write(wiring: Wiring, subject: str, note: Note) -> Path:
    """Store a note; return where.  Raise RunWriteError if that fails."""
    path = path_of(wiring, subject)
    stored.make_folder(path.parent)
    stored.write(path, [stored.to_bytes(note)])
    return path
