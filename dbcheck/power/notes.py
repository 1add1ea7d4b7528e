"""What the client keeps of one switch of one host, for its user alone.

A note counts only if it is a plain file of this user's that no other may change, and if
it is about this very switch: whatever its name is, and whoever copied it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from dbcheck import stored
from dbcheck.errors import RunFormatError
from dbcheck.inventory.entry import Entry
from dbcheck.state import state_folder

# How long dbcheck waits for the switch, and what its user says that it cuts: neither
# changes what is done to the host.
LEFT_OUT = frozenset({"timeout_s", "cut_class"})


@dataclass(frozen=True, slots=True)
class Note:
    """What every note holds: the fingerprint() of what it is about."""

    fingerprint: str


N = TypeVar("N", bound=Note)


def fingerprint(entry: Entry) -> str:
    """Return what tells this switch of this host from all others.

    It is made of what leads to the host, by what the host is recognised, and all that
    its power plan says but LEFT_OUT; of a secret, where it is to be had.
    """
    plan = {k: v for k, v in asdict(entry.power).items() if k not in LEFT_OUT}
    told = (entry.name, entry.target, entry.host, asdict(entry.expected), plan)
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def path_of(entry: Entry, subject: str) -> Path:
    """Return where the note on *subject* is kept."""
    return state_folder(subject) / f"{fingerprint(entry)[:24]}.json"


def read(entry: Entry, subject: str, kind: type[N]) -> N | None:
    """Return the note on *subject*, None if there is none that counts."""
    path = path_of(entry, subject)
    try:
        with stored.private(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            note = stored.from_bytes(file.read(), kind, str(path))
    except (OSError, RunFormatError):
        return None
    return note if note.fingerprint == fingerprint(entry) else None


def write(entry: Entry, subject: str, note: Note) -> Path:
    """Store a note; return where.  Raise RunWriteError if that fails."""
    path = path_of(entry, subject)
    stored.make_folder(path.parent)
    stored.write(path, [stored.to_bytes(note)])
    return path
