"""Identifies the server whose data a data directory holds, from the files in it."""

from __future__ import annotations

import glob
import itertools
import os
import re
import struct
from typing import Any

from dbcheck.agent.host.open import open_regular
from dbcheck.agent.wire import describe_error

READ_MAX = 1 << 16  # of each file
MARKED_MAX = 1000  # tables that are looked at for marks
AUTO_CNF = re.compile(rb"^\s*server[-_]uuid\s*=\s*([0-9A-Fa-f-]{36})\s*$", re.MULTILINE)
ARIA_UUID = slice(4, 20)
MARK = re.compile(rb"dbcheck-mark-[0-9a-f]{32}")


def data_names(path: str) -> dict[str, Any]:
    """Return the names that PostgreSQL, MySQL or dbcheck left in the directory *path*.

    They are the fields of model.places.DataNames.  Raise OSError without a directory.
    """
    unreadable: dict[str, str] = {}
    return {
        "empty": is_empty(path),
        "system_identifier": system_identifier(path, unreadable),
        "started_s": started_s(path, unreadable),
        "server_uuid": server_uuid(path, unreadable),
        "marks": marks(path, unreadable),
        "unreadable": unreadable,
    }


def is_empty(path: str) -> bool:
    """Return whether nothing is in a directory; raise OSError if there is none."""
    with os.scandir(path) as entries:
        return next(entries, None) is None


def system_identifier(path: str, unreadable: dict[str, str]) -> str:
    """Return the first field of global/pg_control, a uint64 (catalog/pg_control.h)."""
    key = "system_identifier"
    content = read(os.path.join(path, "global", "pg_control"), key, unreadable)
    if len(content) < 8:
        unreadable.setdefault(key, "global/pg_control is too short")
        return ""
    return str(struct.unpack_from("=Q", content)[0])


def started_s(path: str, unreadable: dict[str, str]) -> int | None:
    """Return the third line of postmaster.pid (utils/pidfile.h)."""
    content = read(os.path.join(path, "postmaster.pid"), "started_s", unreadable)
    lines = content.decode("ascii", "replace").splitlines()
    if len(lines) < 3 or re.fullmatch("[0-9]{1,18}", lines[2].strip()) is None:
        return None
    return int(lines[2])


def server_uuid(path: str, unreadable: dict[str, str]) -> str:
    """Return what auto.cnf names the server (MySQL manual, server_uuid)."""
    content = read(os.path.join(path, "auto.cnf"), "server_uuid", unreadable)
    found = AUTO_CNF.search(content)
    return found.group(1).decode() if found else ""


def names_of_server(path: str) -> list[str]:
    """Return what the server of *path* was named when its data were made.

    Of MariaDB that is the UUID of Aria (CF_UUID_OFFSET, ma_control_file.h).
    """
    control = read(os.path.join(path, "aria_log_control"), "", {})
    aria = control[ARIA_UUID].hex()
    found = [system_identifier(path, {}), server_uuid(path, {}), aria]
    return [name for name in found if name]


def marks(path: str, unreadable: dict[str, str]) -> list[str]:
    """Return the marks in the definitions (.frm) of dbcheck's tables on MariaDB."""
    found = set()
    frms = glob.iglob(os.path.join(glob.escape(path), "*", "marker.frm"))
    for frm in itertools.islice(frms, MARKED_MAX):
        found.update(MARK.findall(read(frm, "marks", unreadable)))
    return sorted(mark.decode() for mark in found)


def read(path: str, key: str, unreadable: dict[str, str]) -> bytes:
    """Return the beginning of a file, b"" with a reason if it cannot be read.

    It may be a link, as to a faster disk, but nothing other than a file in the end.
    """
    try:
        with os.fdopen(open_regular(path, follow=True), "rb") as file:
            return file.read(READ_MAX)
    except OSError as error:
        unreadable[key] = describe_error(error, path)
        return b""
