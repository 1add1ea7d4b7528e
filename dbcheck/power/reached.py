"""Remembers on the client how deep a switch was seen to go on its host."""

from __future__ import annotations

from pathlib import Path

from dbcheck import stored
from dbcheck.core.reached import Reached
from dbcheck.errors import RunFormatError
from dbcheck.inventory.entry import Entry
from dbcheck.power.consent import note_path


def remember(entry: Entry, reached: Reached) -> Path:
    """Store what was measured; return where.  Raise RunWriteError if that fails."""
    path = note_path(entry, "depth")
    with stored.writing(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    stored.write(path, [stored.to_bytes(reached)])
    return path


def recall(entry: Entry) -> Reached | None:
    """Return what was measured last with this switch of this host, None if nothing."""
    path = note_path(entry, "depth")
    try:
        return stored.from_bytes(path.read_bytes(), Reached, str(path))
    except (OSError, RunFormatError):
        return None
