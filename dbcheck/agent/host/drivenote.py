"""Keeps on the host what it has to be put back on after a cut of its drives alone.

The host keeps running, so whoever restores the power, from whatever machine, finds it
here.  It is flushed to a disk that keeps its power, for a host that restarts meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dbcheck.agent.host.mounts import folder_above, make_private, without_links
from dbcheck.agent.host.open import naming, open_regular
from dbcheck.agent.host.remount import pids, started_s
from dbcheck.agent.wire import Refusal, describe_error, fill_durably, host_names

FORMAT = 2


def path_of(folder: str, serials: Sequence[str]) -> str:
    """Return where the note on the drives that have these serials is kept."""
    digest = hashlib.sha256("\0".join(sorted(set(serials))).encode()).hexdigest()
    return os.path.join(folder, f"drives-{digest[:24]}.json")


def write_note(folder: str, seen: dict[str, Any]) -> None:
    """Store what survey() returned, durably.

    *folder* must not be on one of the drives.  Raise Refusal if that fails, or if
    another account could exchange the note.
    """
    path = path_of(folder, list(seen["drives"]))
    try:
        make_private(without_links(folder))
        with opened(path) as held:
            store(held, path, seen)
    except OSError as error:
        raise Refusal("note", describe_error(error, path)) from None


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Give a descriptor of the folder of a note, which only root may write in.

    A note says what root mounts and unmounts, and whose processes it ends.  The folder,
    or one above it, may be a link of root's, as /var/lib is on some hosts.  Raise
    OSError, or Refusal as folder_above() does.
    """
    above, name = os.path.split(path)
    real = os.path.join(without_links(above), name)
    folder = folder_above(real, search_only=False)
    try:
        with naming(path):
            yield folder
    finally:
        os.close(folder)


def store(folder: int, path: str, seen: dict[str, Any]) -> None:
    """Write the note in the folder with that descriptor; raise OSError."""
    note = {
        "format": FORMAT,
        "boot_id": host_names()["boot_id"],
        "uptime_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        "seen": seen,
    }
    name = os.path.basename(path)
    with contextlib.suppress(FileNotFoundError):  # of a client that was lost
        os.unlink(name + ".new", dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(name + ".new", flags, 0o600, dir_fd=folder)
    fill_durably(file, json.dumps(note).encode())
    os.replace(name + ".new", name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def read_note(folder: str, serials: Sequence[str]) -> dict[str, Any]:
    """Return what was stored, None if nothing was, and what server runs there now.

    same_boot: the host was not started since.  server: the processes of the server of
    that directory.  newer: all of them were started since.  path: of the note.  Raise
    OSError, or Refusal if it cannot be read.
    """
    path = path_of(folder, serials)
    try:
        with opened(path) as held:
            file = open_regular(os.path.basename(path), folder=held)
        with os.fdopen(file) as stream:
            note = json.load(stream)
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
    path = path_of(folder, serials)
    with contextlib.suppress(FileNotFoundError), opened(path) as held:
        os.unlink(os.path.basename(path), dir_fd=held)
        os.fsync(held)
