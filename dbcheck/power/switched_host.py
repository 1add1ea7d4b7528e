"""A host and the switch that cuts it: what a user agrees to, and notes of the client.

A note counts only if it is a plain file of this user that no other user may change, and
if the fingerprint in it is that of this very host and switch.  The name of the file
proves nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from dbcheck.base.errors import RunFormatError
from dbcheck.model.depth import Reached
from dbcheck.model.host import Expected
from dbcheck.power.kinds.config import NOT_AGREED_TO, SwitchConfig
from dbcheck.power.scope import DriveScope
from dbcheck.runs import stored
from dbcheck.runs.stored import state_folder

_DEPTH_SUBJECT = "depth"


@dataclass(frozen=True, slots=True)
class SwitchedHost:
    """A host with its server and its switch.

    name:   of the host in the inventory; "" if flags describe it.
    target: the URL of its server.
    host:   the URL by which the host itself is asked; "" if it is not.
    scope:  the drives, if they alone lose their power.
    """

    name: str
    target: str
    host: str
    expected: Expected
    config: SwitchConfig
    scope: DriveScope | None = None

    @property
    def title(self) -> str:
        """The host as its user calls it."""
        return self.name or self.target

    def describe(self) -> str:
        """Return the cut and its host in words, without any secret.

        It shows all that fingerprint() covers.
        """
        about = {"host": self.name, "server": self.target, "reached at": self.host}
        about |= {f"expected {key}": value for key, value in self._expected.items()}
        shown = ", ".join(f"{key} {value}" for key, value in about.items() if value)
        actions = self.config.describe(self.host)
        if self.scope is not None:
            actions += f": that is to {self.scope.describe()}"
        return f"{actions}. The target: {shown}"

    def fingerprint(self) -> str:
        """Return a digest that identifies this switch of this host."""
        config = {
            k: v for k, v in asdict(self.config).items() if k not in NOT_AGREED_TO
        }
        about = (self.name, self.target, self.host, self._expected)
        scope = (asdict(self.scope),) if self.scope is not None else ()
        agreed = (*about, self.config.kind.value, config, *scope)
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    @property
    def _expected(self) -> dict[str, str]:
        return asdict(self.expected)


@dataclass(frozen=True, slots=True)
class Note:
    """Base of notes: the fingerprint() of the host and switch that a note is about."""

    fingerprint: str


N = TypeVar("N", bound=Note)


def find_note_path(switched: SwitchedHost, subject: str) -> Path:
    """Return the path of the note on *subject*."""
    return state_folder(subject) / f"{switched.fingerprint()[:24]}.json"


def read_note(switched: SwitchedHost, subject: str, kind: type[N]) -> N | None:
    """Return the note on *subject*, None without a valid one."""
    path = find_note_path(switched, subject)
    try:
        with stored.open_private(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            note = stored.from_bytes(file.read(), kind, str(path))
    except (OSError, RunFormatError):
        return None
    return note if note.fingerprint == switched.fingerprint() else None


def write_note(switched: SwitchedHost, subject: str, note: Note) -> Path:
    """Store a note; return its path.  Raise RunWriteError if that fails."""
    path = find_note_path(switched, subject)
    stored.make_folder(path.parent)
    stored.write_file(path, [stored.to_bytes(note)])
    return path


@dataclass(frozen=True, slots=True)
class _Measured(Note):
    reached: Reached


def remember_measured_depth(switched: SwitchedHost, reached: Reached) -> Path:
    """Store a measurement; return its path.  Raise RunWriteError if that fails."""
    return write_note(
        switched, _DEPTH_SUBJECT, _Measured(switched.fingerprint(), reached)
    )


def recall_measured_depth(switched: SwitchedHost) -> Reached | None:
    """Return the last measurement with this switch of this host, None without any."""
    note = read_note(switched, _DEPTH_SUBJECT, _Measured)
    return note.reached if note else None
