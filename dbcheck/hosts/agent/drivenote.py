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
from collections.abc import Sequence
from typing import Any

from dbcheck.remote.wire import Refusal, describe_error, host_names


def path_of(folder: str, serials: Sequence[str]) -> str:
    """Return where the note on the drives that have these serials is kept."""
    digest = hashlib.sha256("\0".join(sorted(serials)).encode()).hexdigest()
    return os.path.join(folder, f"drives-{digest[:24]}.json")


def write_note(folder: str, seen: dict[str, Any]) -> None:
    """Store what survey() returned, durably.

    Raise Refusal if that fails, or if *folder* is on one of the drives.
    """
    path = path_of(folder, list(seen["drives"]))
    try:
        store(path, folder, seen)
    except OSError as error:
        raise Refusal("note", describe_error(error, path)) from None


def store(path: str, folder: str, seen: dict[str, Any]) -> None:
    """Write the note; raise OSError, or Refusal if *folder* is on one of the drives."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.stat(folder)
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    for mount in seen["mounts"]:
        if mount["device"] == device:
            text = f"{folder} is on the drives that are to be cut ({mount['point']})"
            raise Refusal("note", text)
    note = {"boot_id": host_names()["boot_id"], "seen": seen}
    with open(path + ".new", "w") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    sync(folder)


def read_note(folder: str, serials: Sequence[str]) -> dict[str, Any]:
    """Return what was stored, None if nothing was; same_boot: since the host started.

    Raise OSError, or Refusal if it cannot be read.
    """
    path = path_of(folder, serials)
    try:
        with open(path) as file:
            note = json.load(file)
        same = note["boot_id"] == host_names()["boot_id"]
        return {"seen": note["seen"], "same_boot": same}
    except FileNotFoundError:
        return {"seen": None, "same_boot": True}
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal("note", f"{path} is damaged: {error!r}") from None


def remove_note(folder: str, serials: Sequence[str]) -> None:
    """Delete it, and the folder if it is empty then."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path_of(folder, serials))
        sync(folder)
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def sync(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
