"""Data directories: whose data one holds, and where its files lie."""

from __future__ import annotations

import errno
import glob
import itertools
import os
import re
import struct
import time
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any

from dbcheck.agent.host.container import (
    OWN,
    View,
    find_contained_servers,
    read_hostname,
    shares_folder,
)
from dbcheck.agent.host.mounts import Mounted
from dbcheck.agent.host.open import open_regular
from dbcheck.agent.host.servers import PROCESSES, find_server_processes
from dbcheck.agent.wire import describe_error

ENTRIES_MAX = 200_000  # most entries of a folder that are listed
LINKS_MAX = 1000  # most links of a folder that are followed
# The next change of a folder whose ctime is older than this gives it a new ctime: the
# timestamps of every local filesystem have smaller steps.  A network filesystem takes
# its server's time, whose clock may be behind by more.
SETTLED_NS = 3_000_000_000


class OutlyingFiles:
    """Where files of certain names in one folder lie on other devices than the folder.

    away:   path -> st_dev of a folder that holds such files, one for each device that
            is not the folder's own.  The path is the file's own if the file itself is
            a mount point (a bind mount), and no other mount shows its folder.
    unseen: why some files could not be looked at, "" if all were.
    """

    def __init__(self, folder: str, names: Sequence[str], view: View = OWN) -> None:
        """Look at the folder, which must be there; *names*: shell patterns.

        folder: as the process of *view* has it.
        """
        self.away: dict[str, int] = {}
        self.unseen = ""
        if not names:
            return
        wanted = re.compile("|".join(map(translate, names)))
        try:
            here, inner = view.find(folder), view.resolve(folder)
            own = os.stat(here).st_dev
            leading_away = [
                *find_mounts_in(inner, view.read_mounts(), wanted),
                *map(os.path.basename, find_links_in(here, wanted)),
            ]
        except OSError as error:
            self.unseen = describe_error(error, folder)
            return
        seen = {own}
        for name in sorted(leading_away):
            path = os.path.join(inner, name)
            try:
                holder = view.find_containing_folder(path)
                device = os.stat(holder).st_dev
            except OSError as error:
                if os.path.lexists(os.path.join(here, name)):  # not removed just now
                    self.unseen = describe_error(error, path)
                continue
            if device not in seen:
                seen.add(device)
                self.away[holder] = device


def find_mounts_in(
    folder: str, mounts: Iterable[Mounted], wanted: re.Pattern[str]
) -> list[str]:
    """List the names of mounts directly in the folder that match *wanted*."""
    return [
        os.path.basename(mount.point)
        for mount in mounts
        if os.path.dirname(mount.point) == folder
        and wanted.fullmatch(os.path.basename(mount.point))
    ]


def find_links_in(folder: str, wanted: re.Pattern[str]) -> tuple[str, ...]:
    """Return the links in the folder whose name matches *wanted*.

    A folder that was not changed is not listed anew.  A folder that was changed just
    now is listed anew: its times may stay the same when it is changed again.
    Raise OSError, also if there are too many files to list, or links to follow.
    """
    status = os.stat(folder)
    # Anybody may set st_mtime, and put a folder in the place of another.
    version = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    settled = status.st_ctime_ns < time.time_ns() - SETTLED_NS
    return (scan_links if settled else scan_links.__wrapped__)(folder, wanted, version)


@lru_cache(maxsize=64)
def scan_links(
    folder: str, wanted: re.Pattern[str], version: tuple[int, ...]
) -> tuple[str, ...]:
    """Scan for find_links_in(), cached until *version* of the folder changes."""
    found = []
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= ENTRIES_MAX:
                raise OSError(0, f"more than {ENTRIES_MAX} files", folder)
            if entry.is_symlink() and wanted.fullmatch(entry.name):
                found.append(entry.path)
            if len(found) > LINKS_MAX:
                raise OSError(0, f"more than {LINKS_MAX} links", folder)
    return tuple(found)


READ_BYTES_MAX = 1 << 16  # most bytes that are read of a file
# Files that PostgreSQL removes when its recovery is over (PostgreSQL 18 manual, 19.5.5
# Archive Recovery).
RECOVERY_FILES = ("standby.signal", "recovery.signal")
MARKED_MAX = 1000  # most tables "marker", one in each database, that are searched
AUTO_CNF = re.compile(rb"^\s*server[-_]uuid\s*=\s*([0-9A-Fa-f-]{36})\s*$", re.MULTILINE)
ARIA_UUID = slice(4, 20)  # of aria_log_control
# On MariaDB a mark, a random word, is the comment of a column in dbcheck's table
# "marker", so the table's definition (.frm) holds it (engines.mysql.facts.mark_data).
MARK = re.compile(rb"dbcheck-mark-[0-9a-f]{32}")


def find_data(path: str) -> dict[str, Any]:
    """Find the directories at *path*: on this host, and in containers with a server.

    found: a list of process (the first of the server in the container, 0 for this
    host's own directory), names (of the data, see read_data_names()) and hostname (of
    the container or this host, "" if unknown).  Raise OSError if none is found.
    A container may have this host's own directory; then it counts as the container's.
    Root sees each server.  So if root sees one in a container, this host's own
    directory counts only if a server works in it; else it may be a copy, or the data of
    a server that is down.
    """
    found = []
    failure: OSError | None = None
    contained, hidden = find_contained_servers(path)
    sees_all = os.geteuid() == 0 and not hidden
    own = not any(shares_folder(process, path) for process in contained) and (
        not (contained and sees_all) or any(find_server_processes(path))
    )
    for process in [0, *contained] if own else contained:
        try:
            names = read_data_names(f"{PROCESSES}/{process}/cwd" if process else path)
            hostname = read_hostname(process)
            found.append({"process": process, "names": names, "hostname": hostname})
        except OSError as error:  # there is none, or the process ended
            failure = error
    if failure and not found:
        raise OSError(errno.EACCES, hidden, path) if hidden else failure
    return {"found": found}


def read_data_names(path: str) -> dict[str, Any]:
    """Return the identifiers of the data in the directory *path*.

    The keys are the fields of model.places.DataNames, which says what each holds.
    Raise OSError if there is no such directory.
    """
    unreadable: dict[str, str] = {}
    return {
        "empty": is_empty(path),
        "system_identifier": read_system_identifier(path, unreadable),
        "started_s": read_started_s(path, unreadable),
        "is_standby": is_in_recovery(path),
        "server_uuid": read_server_uuid(path, unreadable),
        "marks": read_marks(path, unreadable),
        "unreadable": unreadable,
    }


def is_empty(path: str) -> bool:
    """Return True if nothing is in a directory; raise OSError if there is none."""
    with os.scandir(path) as entries:
        return next(entries, None) is None


def read_system_identifier(path: str, unreadable: dict[str, str]) -> str:
    """Return the first field of global/pg_control, a uint64 (catalog/pg_control.h)."""
    key = "system_identifier"
    content = read_beginning(
        os.path.join(path, "global", "pg_control"), key, unreadable
    )
    if len(content) < 8:
        unreadable.setdefault(key, "global/pg_control is too short")
        return ""
    return str(struct.unpack_from("=Q", content)[0])


def read_started_s(path: str, unreadable: dict[str, str]) -> int | None:
    """Return the third line of postmaster.pid (utils/pidfile.h)."""
    content = read_beginning(
        os.path.join(path, "postmaster.pid"), "started_s", unreadable
    )
    lines = content.decode("ascii", "replace").splitlines()
    if len(lines) < 3 or re.fullmatch("[0-9]{1,18}", lines[2].strip()) is None:
        return None
    return int(lines[2])


def is_in_recovery(path: str) -> bool:
    """Return True if the PostgreSQL of a directory follows another, or an archive."""
    return any(os.path.lexists(os.path.join(path, name)) for name in RECOVERY_FILES)


def read_server_uuid(path: str, unreadable: dict[str, str]) -> str:
    """Read the server's UUID in auto.cnf (MySQL manual, server_uuid)."""
    content = read_beginning(os.path.join(path, "auto.cnf"), "server_uuid", unreadable)
    found = AUTO_CNF.search(content)
    return found.group(1).decode() if found else ""


def read_server_names(path: str) -> list[str]:
    """Read the names that the server of *path* got when its data were made.

    MariaDB has the UUID of Aria (CF_UUID_OFFSET, ma_control_file.h).
    """
    control = read_beginning(os.path.join(path, "aria_log_control"), "", {})
    aria = control[ARIA_UUID].hex()
    found = [read_system_identifier(path, {}), read_server_uuid(path, {}), aria]
    return [name for name in found if name]


def read_marks(path: str, unreadable: dict[str, str]) -> list[str]:
    """Return the marks in the definitions (.frm) of dbcheck's tables on MariaDB."""
    found = set()
    frms = glob.iglob(os.path.join(glob.escape(path), "*", "marker.frm"))
    for frm in itertools.islice(frms, MARKED_MAX):
        found.update(MARK.findall(read_beginning(frm, "marks", unreadable)))
    return sorted(mark.decode() for mark in found)


def read_beginning(path: str, key: str, unreadable: dict[str, str]) -> bytes:
    """Return the beginning of a file, b"" with a reason if it cannot be read.

    The path may be a link, as to a faster disk, that leads to a regular file.
    """
    try:
        with os.fdopen(open_regular(path, follow=True), "rb") as file:
            return file.read(READ_BYTES_MAX)
    except OSError as error:
        unreadable[key] = describe_error(error, path)
        return b""
