"""Data directories: whose data one holds, and where its files lie."""

from __future__ import annotations

import glob
import itertools
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any

from dbcheck.agent.host.open import open_regular
from dbcheck.agent.wire import describe_error, read_lines, unescape

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

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        """Look at the folder, which must be there; *names*: shell patterns."""
        self.away: dict[str, int] = {}
        self.unseen = ""
        if not names:
            return
        wanted = re.compile("|".join(map(translate, names)))
        mounts = list(read_mount_table())
        try:
            own = os.stat(folder).st_dev
            paths_leading_away = [
                *find_mounts_in(folder, mounts, wanted),
                *find_links_in(folder, wanted),
            ]
        except OSError as error:
            self.unseen = describe_error(error, folder)
            return
        seen = {own}
        for path in sorted(paths_leading_away):
            try:
                holder = find_containing_folder(path, mounts)
                device = os.stat(holder).st_dev
            except OSError as error:
                if os.path.lexists(path):  # it was not removed just now
                    self.unseen = describe_error(error, path)
                continue
            if device not in seen:
                seen.add(device)
                self.away[holder] = device


def read_mount_table() -> Iterator[tuple[str, str, str]]:
    """Yield point, device ("8:1") and root of each mount (proc(5), mountinfo)."""
    for line in read_lines("/proc/self/mountinfo"):
        fields = line.split()
        yield unescape(fields[4]), fields[2], unescape(fields[3])


def find_mounts_in(
    folder: str, mounts: Sequence[tuple[str, str, str]], wanted: re.Pattern[str]
) -> list[str]:
    """List the mounts directly in the folder whose name matches *wanted*."""
    return [
        point
        for point, _, _ in mounts
        if os.path.dirname(point) == folder
        and wanted.fullmatch(os.path.basename(point))
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


def find_containing_folder(path: str, mounts: Sequence[tuple[str, str, str]]) -> str:
    """Return the folder that *path* leads to, or that its file lies in.

    Raise OSError if the link is broken, or leads to neither a file nor a folder.
    """
    real = os.path.realpath(path)
    mode = os.stat(real).st_mode
    if stat.S_ISDIR(mode):
        return real
    if not stat.S_ISREG(mode):
        raise OSError(0, "neither a file nor a folder", real)
    if any(point == real for point, _, _ in mounts):
        return find_folder_of_mounted_file(real, mounts)
    return os.path.dirname(real)


def find_folder_of_mounted_file(
    file: str, mounts: Sequence[tuple[str, str, str]]
) -> str:
    """Return the folder of a file that is mounted alone, else the file itself.

    Its filesystem may be mounted elsewhere too, and then shows the file's folder.
    """
    device, inner = [(dev, root) for point, dev, root in mounts if point == file][-1]
    for point, dev, root in mounts:
        if dev != device or point == file:
            continue
        within = os.path.relpath(inner, root)
        there = os.path.join(point, within)
        if within.startswith(os.pardir) or within == os.curdir:
            continue
        folder = os.path.dirname(there)
        try:
            same = os.path.samefile(there, file)
            if same and os.stat(folder).st_dev == os.stat(file).st_dev:
                return folder
        except OSError:  # another mount covers it
            continue
    return file


READ_BYTES_MAX = 1 << 16  # most bytes that are read of a file
MARKED_MAX = 1000  # most tables "marker", one in each database, that are searched
AUTO_CNF = re.compile(rb"^\s*server[-_]uuid\s*=\s*([0-9A-Fa-f-]{36})\s*$", re.MULTILINE)
ARIA_UUID = slice(4, 20)  # of aria_log_control
# On MariaDB a mark, a random word, is the comment of a column in dbcheck's table
# "marker", so the table's definition (.frm) holds it (engines.mysql.facts.mark_data).
MARK = re.compile(rb"dbcheck-mark-[0-9a-f]{32}")


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
