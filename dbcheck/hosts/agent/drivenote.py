"""Keeps on the host what it has to be put back on after a cut of its drives alone.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library, remote/wire.py and what is sent before it.

The host keeps running, so whoever restores the power, from whatever machine, finds it
here.  It is flushed to a disk that keeps its power, for a host that restarts meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from dbcheck.hosts.agent.remount import pids, started_s
from dbcheck.remote.wire import Refusal, describe_error, host_names

FORMAT = 2


def path_of(folder: str, serials: Sequence[str]) -> str:
    """Return where the note on the drives that have these serials is kept."""
    digest = hashlib.sha256("\0".join(sorted(set(serials))).encode()).hexdigest()
    return os.path.join(folder, f"drives-{digest[:24]}.json")


def write_note(folder: str, seen: dict[str, Any]) -> None:
    """Store what survey() returned, durably.

    *folder* must not be on one of the drives.  Raise Refusal if that fails.
    """
    path = path_of(folder, list(seen["drives"]))
    try:
        store(path, folder, seen)
    except OSError as error:
        raise Refusal("note", describe_error(error, path)) from None


def store(path: str, folder: str, seen: dict[str, Any]) -> None:
    """Write the note; raise OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    note = {
        "format": FORMAT,
        "boot_id": host_names()["boot_id"],
        "uptime_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        "seen": seen,
    }
    with open(path + ".new", "w") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    sync(folder)


def read_note(folder: str, serials: Sequence[str]) -> dict[str, Any]:
    """Return what was stored, None if nothing was, and what server runs there now.

    same_boot: the host was not started since.  server: the processes of the server of
    that directory.  newer: all of them were started since.  path: of the note.  Raise
    OSError, or Refusal if it cannot be read.
    """
    path = path_of(folder, serials)
    try:
        with open(path) as file:
            note = json.load(file)
        if note["format"] != FORMAT:
            raise Refusal("note-read", f"{path} was written by another dbcheck")
        seen, since_s = note["seen"], float(note["uptime_s"])
        same = note["boot_id"] == host_names()["boot_id"]
        device, inode = map(int, seen["folder"])
        place = str(seen["directory"]), int(seen["account"]), (device, inode)
    except FileNotFoundError:
        return {"seen": None}
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal("note-read", f"{path} is damaged: {error!r}") from None
    started = {pid: started_s(pid) for pid in pids(*place)}
    server = {pid: at_s for pid, at_s in started.items() if at_s}  # the others ended
    newer = bool(server) and (not same or min(server.values()) > since_s)
    return {
        "seen": seen,
        "same_boot": same,
        "server": sorted(server),
        "newer": newer,
        "path": path,
    }


def remove_note(folder: str, serials: Sequence[str]) -> None:
    """Delete it; the folder stays, as another target's note may be about to come."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path_of(folder, serials))
        sync(folder)


def sync(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
