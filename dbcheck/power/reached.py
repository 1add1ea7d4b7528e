"""Remembers on the client how deep a switch was seen to go on its host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbcheck.core.reached import Reached
from dbcheck.inventory.entry import Entry
from dbcheck.power import notes

_SUBJECT = "depth"


@dataclass(frozen=True, slots=True)
class _Measured(notes.Note):
    reached: Reached


def remember(entry: Entry, reached: Reached) -> Path:
    """Store what was measured; return where.  Raise RunWriteError if that fails."""
    return notes.write(entry, _SUBJECT, _Measured(notes.fingerprint(entry), reached))


def recall(entry: Entry) -> Reached | None:
    """Return what was measured last with this switch of this host, None if nothing."""
    note = notes.read(entry, _SUBJECT, _Measured)
    return note.reached if note else None
