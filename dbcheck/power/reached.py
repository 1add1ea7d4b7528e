"""Remembers on the client how deep a switch was seen to go on its host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbcheck.model.depth import Reached
from dbcheck.power import notes
from dbcheck.power.wiring import Wiring

_SUBJECT = "depth"


@dataclass(frozen=True, slots=True)
class _Measured(notes.Note):
    reached: Reached


def remember(wiring: Wiring, reached: Reached) -> Path:
    """Store what was measured; return where.  Raise RunWriteError if that fails."""
    return notes.write(wiring, _SUBJECT, _Measured(wiring.fingerprint(), reached))


def recall(wiring: Wiring) -> Reached | None:
    """Return what was measured last with this switch of this host, None if nothing."""
    note = notes.read(wiring, _SUBJECT, _Measured)
    return note.reached if note else None
