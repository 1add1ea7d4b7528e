"""Looks at a server's paths as its process sees them, e.g. in a container.

A service or a container has mounts of its own (mount_namespaces(7)), and a process may
have a root of its own (chroot(2)).  /proc/PID/root shows files as the process finds
them, mounts included; all but its own account and root may not look (proc(5)).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Any

from dbcheck.agent.host.data import find_links_in, read_server_names
from dbcheck.agent.host.process import NO_PROCESS
from dbcheck.agent.host.servers import (
    find_account_processes,
    find_server_processes,
    pid_of,
)
from dbcheck.agent.wire import describe_error, find_covering_mount, list_mounts

OWN_PROCESS = "/proc/self"
LINKS_DEEP_MAX = 40  # most links that the kernel follows in a path (path_resolution(7))
COMPARISONS = 3  # several, as a server renames and removes files meanwhile


def compare_with_server_view(
    places: Sequence[tuple[str, str, Sequence[str]]],
) -> dict[str, Any]:
    """Compare *places* as the server sees them with this host's view.

    The data directory is the first place.  seen_otherwise: name of a place, or of its
    files -> the path and what is there, for each that differs.  view_unread: why the
    server's view is not known, "" if it is.
    """
    directory = places[0][1]
    found: dict[str, str] = {}
    try:
        account = os.stat(directory).st_uid
        if processes := list(find_server_processes(directory)):
            found, why = compare_views(processes, places)
        else:
            others = find_account_processes(os.path.realpath(directory), account)
            claimed, why = find_server_elsewhere(others, directory)
            found = {places[0][0]: claimed} if claimed else {}
    except OSError as error:
        why = describe_error(error, directory)
    return {"seen_otherwise": found, "view_unread": why}


def find_server_elsewhere(processes: Iterable[str], directory: str) -> tuple[str, str]:
    """Return the process that may be the server's, or "" and why none of them is.

    Raise OSError if the folder of a process cannot be seen.
    processes: processes that work at the path *directory*, but in another folder than
    this host has there, as in a container.  They may belong to another server.  A copy
    of a server's data has the server's names; but a copy of MySQL's data without
    auto.cnf gets another name.
    """
    here = read_server_names(directory)
    first: dict[tuple[int, int] | None, str] = {}
    for process in processes:
        first.setdefault(read_file_identity(process + "/cwd"), process)
    # None: the process ended.  The directory itself: the process was started only now.
    for identity in (None, read_file_identity(directory)):
        first.pop(identity, None)
    for process in first.values():
        there = read_server_names(process + "/cwd")
        if not (there and here) or not set(here).isdisjoint(there):
            text = f"finds another folder at {directory} than this host does"
            return f"process {pid_of(process)} {text}", ""
    if not first:
        return "", NO_PROCESS
    process_text = f"process {pid_of(next(iter(first.values())))} at {directory}"
    return "", f"{process_text} belongs to another server (its data have another id)"


def compare_views(
    processes: Sequence[str], places: Sequence[tuple[str, str, Sequence[str]]]
) -> tuple[dict[str, str], str]:
    """Compare *places* as these processes see them; raise OSError.

    One process stands for all processes that find the same files.
    """
    found: dict[str, str] = {}
    unread = ""
    own_view = identify_view(OWN_PROCESS)
    seen = set()
    for process in processes:
        try:
            view = identify_view(process)
            if view not in seen and view != own_view:
                differing, why = find_differences(process, places)
                identify_view(process)  # raises if the process ended meanwhile
                found.update(differing)
                unread = unread or why
        except (FileNotFoundError, ProcessLookupError):  # a session may end
            continue
        seen.add(view)
    return found, unread if seen else "the server's processes ended"


def identify_view(process: str) -> tuple[str, int, int]:
    """Identify a process's view of the files: root and mounts; raise OSError."""
    root = os.stat(os.path.join(process, "root", ""))
    return os.readlink(process + "/ns/mnt"), root.st_dev, root.st_ino


def find_differences(
    process: str, places: Sequence[tuple[str, str, Sequence[str]]]
) -> tuple[dict[str, str], str]:
    """Find places where a process sees other files, and why not all is known, or "".

    As compare_with_server_view() does.  A place that this process does not find is left
    out: what it lies on is unknown anyhow.
    """
    found: dict[str, str] = {}
    unread = ""
    for name, path, names in places:
        try:
            if not os.path.isabs(path) or read_file_identity(path) is None:
                continue
            if text := describe_difference(process, path):
                found[name] = text
                continue
            for file in list_place_files(process, path, names):
                if text := describe_difference(process, file):
                    found[f"{name} files"] = text
                    break
        except OSError as error:
            unread = unread or describe_error(error, path)
    return found, unread


def list_place_files(process: str, path: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the paths of a place that may be other files there; raise OSError.

    path: of the place, which is the same folder for the process and this host.  names:
    shell patterns of the files in it that count.  Only links, and what is mounted in
    the folder or further below, may differ: any other name in it is the same file.
    """
    if not names:
        return
    wanted = re.compile("|".join(map(translate, names)))
    for table in (process, OWN_PROCESS):
        folder = resolve_below_root(table + "/root", path)
        points = [mount["point"] for mount in list_mounts(table + "/mountinfo")]
        if not points:
            raise OSError(errno.EACCES, "it cannot be read", table + "/mountinfo")
        for point in points:
            within = os.path.relpath(point, folder)
            first = within.split("/")[0]
            if first not in (os.curdir, os.pardir) and wanted.fullmatch(first):
                yield os.path.join(path, within)
    yield from find_links_in(os.path.realpath(path), wanted)


def describe_difference(process: str, path: str) -> str:
    """Describe what a process finds at *path*, "" if it is the same; raise OSError."""
    text = ""
    for _ in range(COMPARISONS):
        inner = resolve_below_root(process + "/root", path)
        there = read_file_identity(process + "/root" + inner)
        here = read_file_identity(path)
        if there == here:
            return ""
        mount = find_covering_mount(inner, process + "/mountinfo")
        what = "another file or folder" if there else "nothing"
        text = (
            f"process {os.path.basename(process)} finds {what} at {path}: "
            f"{mount['type']} ({mount['source']}) is mounted at {mount['point']} for it"
        )
    return text


def resolve_below_root(root: str, path: str) -> str:
    """Return *path* below *root* without links in it; raise OSError.

    The kernel would follow an absolute link from this process's own root.
    """
    parts, found, followed = path.split("/")[::-1], "", 0
    while parts:
        part = parts.pop()
        if part == "..":
            found = os.path.dirname(found).rstrip("/")
        if part in ("", ".", ".."):
            continue
        try:
            link = os.readlink(f"{root}{found}/{part}")
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise
            found += "/" + part  # it is no link
            continue
        followed += 1
        if followed > LINKS_DEEP_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        found = "" if link.startswith("/") else found
        parts += link.split("/")[::-1]
    return found or "/"


def read_file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of what is at *path*, None if nothing; raise OSError."""
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
            return None
        raise
    return status.st_dev, status.st_ino
