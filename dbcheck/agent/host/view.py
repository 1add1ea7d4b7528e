"""Compares what a server's processes find at its paths with what this host has there.

See container.py.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Any

from dbcheck.agent.host.container import OWN, View, identify_view, read_identity_of
from dbcheck.agent.host.data import find_links_in, read_server_names
from dbcheck.agent.host.process import NO_PROCESS
from dbcheck.agent.host.servers import (
    find_account_processes,
    find_server_processes,
    pid_of,
)
from dbcheck.agent.wire import describe_error, find_covering_mount

COMPARISONS = 3  # several, as a server renames and removes files meanwhile


def compare_with_server_view(
    places: Sequence[tuple[str, str, Sequence[str]]], view: View = OWN
) -> dict[str, Any]:
    """Compare *places* as each process of the server sees them with *view*.

    The data directory is the first place.  seen_otherwise: name of a place, or of its
    files -> the path and what is there, for each that differs.  view_unread: why the
    server's view is not known, "" if it is.
    """
    directory = places[0][1]
    found: dict[str, str] = {}
    try:
        here = view.find(directory)
        account = os.stat(here).st_uid
        if processes := list(find_server_processes(here)):
            found, why = compare_views(processes, places, view)
        else:
            others = find_account_processes(here, account)
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
    processes: Sequence[str],
    places: Sequence[tuple[str, str, Sequence[str]]],
    view: View,
) -> tuple[dict[str, str], str]:
    """Compare *places* as these processes see them; raise OSError.

    One process stands for all processes that find the same files.
    """
    found: dict[str, str] = {}
    unread = ""
    known = identify_view(view.folder)
    seen = set()
    for process in processes:
        try:
            its_own = identify_view(process)
            if its_own not in seen and its_own != known:
                differing, why = find_differences(process, places, view)
                identify_view(process)  # raises if the process ended meanwhile
                found.update(differing)
                unread = unread or why
        except (FileNotFoundError, ProcessLookupError):  # a session may end
            continue
        seen.add(its_own)
    return found, unread if seen else "the server's processes ended"


def find_differences(
    process: str,
    places: Sequence[tuple[str, str, Sequence[str]]],
    view: View = OWN,
) -> tuple[dict[str, str], str]:
    """Find places where a process sees other files, and why not all is known, or "".

    As compare_with_server_view() does.  A place that is not there in *view* is left
    out: what it lies on is unknown anyhow.
    """
    its_own = View(process)
    found: dict[str, str] = {}
    unread = ""
    for name, path, names in places:
        try:
            if not os.path.isabs(path) or view.identify(path) is None:
                continue
            if text := describe_difference(its_own, path, view):
                found[name] = text
                continue
            for file in list_place_files(its_own, path, names, view):
                if text := describe_difference(its_own, file, view):
                    found[f"{name} files"] = text
                    break
        except OSError as error:
            unread = unread or describe_error(error, path)
    return found, unread


def list_place_files(
    its_own: View, path: str, names: Sequence[str], view: View
) -> Iterator[str]:
    """Yield the paths of a place that may be other files there; raise OSError.

    path: of the place, which is the same folder in both views.  names: shell patterns
    of the files in it that count.  Only links, and what is mounted in the folder or
    further below, may differ: any other name in it is the same file.
    """
    if not names:
        return
    wanted = re.compile("|".join(map(translate, names)))
    for each in (its_own, view):
        folder = each.resolve(path)
        points = [mount.point for mount in each.read_mounts()]
        if not points:
            raise OSError(errno.EACCES, "it cannot be read", each.folder + "/mountinfo")
        for point in points:
            within = os.path.relpath(point, folder)
            first = within.split("/")[0]
            if first not in (os.curdir, os.pardir) and wanted.fullmatch(first):
                yield os.path.join(path, within)
    for link in find_links_in(view.find(path), wanted):
        yield os.path.join(path, os.path.basename(link))


def describe_difference(its_own: View, path: str, view: View) -> str:
    """Describe what a process finds at *path*, "" if it is the same; raise OSError."""
    text = ""
    for _ in range(COMPARISONS):
        there, here = its_own.identify(path), view.identify(path)
        if there == here:
            return ""
        inner = its_own.resolve(path)
        mount = find_covering_mount(inner, its_own.folder + "/mountinfo")
        what = "another file or folder" if there else "nothing"
        text = (
            f"process {os.path.basename(its_own.folder)} finds {what} at {path}: "
            f"{mount['type']} ({mount['source']}) is mounted at {mount['point']} for it"
        )
    return text


def read_file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of what is at *path*, None if nothing; raise OSError."""
    try:
        return read_identity_of(os.stat(path))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
            return None
        raise
