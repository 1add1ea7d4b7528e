"""The end of a server's log, from a remembered place on.

The server's account may put anything where its log was.  So a log is a file and no
link, and no more of it is read than it held when it was opened.  A link from kubelet's
folder of a pod to a file that Docker keeps is followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from itertools import islice
from typing import IO, Any

from dbcheck.agent.host.container import (
    View,
    find_container_log,
    find_log_folder,
    read_docker_link,
)
from dbcheck.agent.host.journal import JOURNAL, mark_journal, read_journal_since
from dbcheck.agent.host.open import list_names, open_regular
from dbcheck.agent.host.process import find_error_file
from dbcheck.agent.host.servers import find_server_processes
from dbcheck.agent.wire import Refusal

PACKED_ENDINGS = (".gz", ".xz", ".bz2", ".zst")
# Prefix of a data directory, used instead of a log's path: the server's standard error
# goes to a file, or to the journal of its service.
STDERR = "stderr:"
COLLECTOR = "collector:"  # see model.host
END_BYTES = 4096  # the bytes before a mark show whether the file continues from there
LINE_BYTES_MAX = 4096  # a longer line is a dump
SCAN_BYTES_MAX = 1 << 28  # most bytes read of all logs, dumps included
ENTRIES_MAX = 200_000  # most entries of a log's folder that are listed


def mark_log(path: str) -> dict[str, list[int]]:
    """Note the present end of the log: in the journal, or in files.

    path: the log, or a folder of logs, as PostgreSQL's collector writes them, or
          JOURNAL or STDERR and a data directory, or COLLECTOR and both.
    """
    if path.startswith(COLLECTOR):
        directory, folder = parse_collector(path)
        found = mark_files(folder)
        # The standard error may be kept nowhere.
        with contextlib.suppress(Refusal, OSError):
            found.update(mark_log(STDERR + directory))
        return found
    if path.startswith(STDERR):
        directory = path[len(STDERR) :]
        file = find_error_file(directory)
        # Sessions are in the container of the first process, and all of /proc is read.
        for process in () if file else islice(find_server_processes(directory), 1):
            file = find_container_log(process)
        return mark_files(file) if file else mark_journal(directory)
    if path.startswith(JOURNAL):
        return mark_journal(path[len(JOURNAL) :])
    return mark_files(path)


def find_log(path: str, process: int) -> str:
    """Return this host's path of a log that a process has at *path*; raise OSError.

    path: as in mark_log().  process: see container.View.of().
    """
    view = View.of(process)
    if path.startswith(COLLECTOR):
        directory, folder = parse_collector(path)
        return f"{COLLECTOR}{view.find(directory)}/{view.find(folder)}"
    for prefix in (STDERR, JOURNAL):
        if path.startswith(prefix):
            return prefix + view.find(path[len(prefix) :])
    return view.find(path)


def parse_collector(path: str) -> tuple[str, str]:
    """Return the data directory and the collector's folder that COLLECTOR names."""
    directory, _, folder = path[len(COLLECTOR) :].partition("//")
    return directory, "/" + folder


def mark_files(path: str) -> dict[str, list[int]]:
    """Return inode, size, time and the CRC of the end of each file of a log, by path.

    The files are made durable first: else a cut could take their last lines, and later
    lines would stand in the same place.
    """
    found = {}
    for file in list_log_files(path):
        with os.fdopen(open_regular(read_docker_link(file) or file), "rb") as stream:
            os.fsync(stream.fileno())
            status = os.fstat(stream.fileno())
            end = checksum_end(stream, status.st_size)
        found[file] = [status.st_ino, status.st_size, status.st_mtime_ns, end]
    return found


def checksum_end(stream: IO[bytes], size: int) -> int:
    """Return the CRC-32 of the last bytes of *stream* before *size*."""
    start = max(0, size - END_BYTES)
    stream.seek(start)
    return zlib.crc32(stream.read(size - start))


def read_since(path: str, marks: dict[str, list[int]], limit: int) -> dict[str, Any]:
    """Read the log after *marks*, oldest file first, at most *limit* bytes.

    Long lines are cut: MySQL dumps a damaged page a hundred times, 48 KiB each, before
    it reports that it ends itself (buf0buf.cc, Buf_fetch::read_page).
    A file that was renamed since is known by its inode.  truncated: there was more, or
    the file that was written to last is gone.  rewound: a file does not continue what
    it held, as if it was truncated in place, and was read from its start.
    early: with COLLECTOR, what went to standard error since.
    Raise OSError, or Refusal if there is no such log.
    """
    if path.startswith(COLLECTOR):
        return read_collected_since(*parse_collector(path), marks, limit)
    if path.startswith((JOURNAL, STDERR)):
        if not all(map(os.path.isabs, marks)):
            return read_journal_since(marks, limit)
        # The others were rotated out of it, or are of other starts of the container.
        file = min(marks, key=len)
        folder = find_log_folder(file)
        if folder != file:
            return read_logs_of_pods(path[len(STDERR) :], folder, marks, limit)
        path = folder
    known = {mark[0]: mark for mark in marks.values()}
    newest = max(marks.values(), key=lambda mark: mark[2:3], default=None)
    text, unread = b"", SCAN_BYTES_MAX
    rewound, seen = False, set()
    for file in sorted(
        list_log_files(path), key=lambda file: os.stat(file).st_mtime_ns
    ):
        with os.fdopen(open_regular(read_docker_link(file) or file), "rb") as stream:
            status = os.fstat(stream.fileno())
            mark = known.get(status.st_ino, [0, 0])
            start = mark[1]
            if not 0 <= start <= status.st_size or mark[3:] not in (
                [],
                [checksum_end(stream, start)],
            ):
                start, rewound = 0, True
            stream.seek(start)
            size = status.st_size - start
            text += _read_lines(stream, limit + 1 - len(text), min(size, unread))
            unread -= size
        seen.add(status.st_ino)
    gone = newest is not None and newest[0] not in seen
    return {
        "text": text[:limit].decode("utf-8", "replace"),
        "truncated": len(text) > limit or gone or unread < 0,
        "rewound": rewound,
    }


def read_collected_since(
    directory: str, folder: str, marks: dict[str, list[int]], limit: int
) -> dict[str, Any]:
    """Read a collector's folder and standard error as read_since() does."""
    inside = {
        file: mark for file, mark in marks.items() if os.path.dirname(file) == folder
    }
    outside = {file: mark for file, mark in marks.items() if file not in inside}
    if outside and not inside and not os.path.isdir(folder):
        # It held nothing to read, as pipes, and was an emptyDir of a pod that is gone.
        found = {"text": "", "truncated": False, "rewound": False}
    else:
        found = read_since(folder, inside, limit)
    if outside:
        try:
            early = read_since(STDERR + directory, outside, limit)
        except (Refusal, OSError):  # there was one at the mark
            return {**found, "truncated": True}
        found["early"] = early["text"]
        found["truncated"] |= early["truncated"]
        found["rewound"] |= early["rewound"]
    return found


def read_logs_of_pods(
    directory: str, folder: str, marks: dict[str, list[int]], limit: int
) -> dict[str, Any]:
    """Read the log of a pod, and that of the pod that was made in its place, if any.

    What the old pod logged goes with it, at a moment that kubelet chooses.
    """
    found = {"text": "", "truncated": True, "rewound": False}
    if os.path.isdir(folder):
        found = read_since(folder, marks, limit)
    new = find_log_of_server(directory)
    if new not in ("", folder):
        later = read_since(new, {}, limit)
        found["text"] += later["text"]
        found["truncated"] |= later["truncated"]
    return found


def find_log_of_server(directory: str) -> str:
    """Return the log of a server's container, "" if there is none or it is unclear.

    Sessions are in the container of the first process, and all of /proc is read.
    """
    with contextlib.suppress(Refusal):
        for process in islice(find_server_processes(directory), 1):
            return find_container_log(process)
    return ""


def _read_lines(stream: IO[bytes], room: int, size: int) -> bytes:
    """Return the next *size* bytes, *room* bytes at most, with long lines cut."""

    def read_piece() -> bytes:
        nonlocal size
        found = stream.readline(max(0, min(LINE_BYTES_MAX, size)))
        size -= len(found)
        return found

    kept = []
    while room > 0:
        line = read_piece()
        if not line:
            break
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = read_piece()
        if rest is not line and rest:
            line += b"\n"
        kept.append(line[:room])
        room -= len(line)
    return b"".join(kept)


def list_log_files(path: str) -> list[str]:
    """Return the log and what was rotated out of it, or all files of a folder.

    Raise OSError if *path* is not there, or Refusal if it is no regular file or folder.
    """
    folder, name = path, ""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        folder, name = os.path.split(path)
    names = list_names(folder, folder, ENTRIES_MAX)
    paths = [
        os.path.join(folder, entry)
        for entry in names
        if entry.startswith(name) and not entry.endswith(PACKED_ENDINGS)
    ]
    found = [file for file in paths if is_log_file(file)]
    if name and not found:
        raise Refusal("log", f"{path} is a link, or not a regular file")
    return found


def is_log_file(path: str) -> bool:
    """Return True for a regular file, or for a link that read_docker_link() follows."""
    with contextlib.suppress(FileNotFoundError):  # Docker removed it
        return stat.S_ISREG(os.lstat(read_docker_link(path) or path).st_mode)
    return False
