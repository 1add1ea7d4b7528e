"""Remembers on the client which filesystems a cut of drives alone has to put back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from dbcheck.hosts.drives import Survey
from dbcheck.power import notes
from dbcheck.power.wiring import Wiring

_SUBJECT = "drives"


@dataclass(frozen=True, slots=True)
class _Seen(notes.Note):
    seen: Survey


class DriveNote:
    """What is known of one host (power.driveonly.Memo)."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def save(self, seen: Survey) -> None:
        """Keep it, until the host is back on its drives; raise RunWriteError."""
        fingerprint = self._wiring.fingerprint()
        notes.write(self._wiring, _SUBJECT, _Seen(fingerprint, seen))

    def read(self) -> Survey | None:
        """Return what was kept, None if nothing was."""
        note = notes.read(self._wiring, _SUBJECT, _Seen)
        return note.seen if note else None

    def forget(self) -> None:
        """Keep it no more; never raises."""
        with contextlib.suppress(OSError):
            notes.path_of(self._wiring, _SUBJECT).unlink(missing_ok=True)
