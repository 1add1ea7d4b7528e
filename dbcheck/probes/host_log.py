"""The end of a server's log, from a remembered place on.

This file is sent to the target's host, see host_agent.py: Python 3.8, no more than
the standard library and remote/wire.py.
"""

from __future__ import annotations

import os
import stat
from typing import IO, Any

from dbcheck.probes.host_journal import JOURNAL, mark_journal, since_journal

PACKED = (".gz", ".xz", ".bz2", ".zst")
LINE_BYTES_MAX = 4096  # what is longer is a dump


def mark(path: str) -> dict[str, list[int]]:
    """Return where the log ends now: in the journal, or in files.

    path: the log, or a folder of logs, as PostgreSQL's collector writes them, or
          JOURNAL and a data directory.
    """
    return mark_journal(path) if path.startswith(JOURNAL) else mark_files(path)


def mark_files(path: str) -> dict[str, list[int]]:
    """Return inode and size of each file of a log, by its path.

    What is there is made durable, or a cut could take it and later lines would
    stand where it was.
    """
    found = {}
    for file in files(path):
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
            status = os.fstat(fd)
        finally:
            os.close(fd)
        found[file] = [status.st_ino, status.st_size]
    return found


def since(path: str, marks: dict[str, list[int]], limit: int) -> dict[str, Any]:
    """Return what came after *marks*, oldest file first, at most *limit* bytes.

    Long lines are cut: MySQL dumps a damaged page a hundred times, 48 KiB each, before
    it says that it ends itself (buf0buf.cc, Buf_fetch::read_page).
    A file that was renamed since is known by its inode.  truncated: there was more.
    rewound: a file is shorter than it was, and was read from its start.
    """
    if path.startswith(JOURNAL):
        return since_journal(marks, limit)
    known = {mark[0]: mark[1] for mark in marks.values()}
    text = b""
    rewound = False
    for file in sorted(files(path), key=lambda file: os.stat(file).st_mtime_ns):
        status = os.stat(file)
        start = known.get(status.st_ino, 0)
        if start > status.st_size:
            start, rewound = 0, True
        with open(file, "rb") as stream:
            stream.seek(start)
            text += _lines(stream, limit + 1 - len(text))
    return {
        "text": text[:limit].decode("utf-8", "replace"),
        "truncated": len(text) > limit,
        "rewound": rewound,
    }


def _lines(stream: IO[bytes], room: int) -> bytes:
    """Return what *stream* has left, *room* bytes at most, with long lines cut."""
    kept = []
    while room > 0:
        line = stream.readline(LINE_BYTES_MAX)
        if not line:
            break
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(LINE_BYTES_MAX)
        if rest is not line and rest:
            line += b"\n"
        kept.append(line[:room])
        room -= len(line)
    return b"".join(kept)


def files(path: str) -> list[str]:
    """Return the log and what was rotated out of it, or all files of a folder.

    Raise OSError if *path* is not there.
    """
    if not stat.S_ISDIR(os.stat(path).st_mode):
        folder, name = os.path.split(path)
        names = [each for each in os.listdir(folder) if each.startswith(name)]
    else:
        folder, names = path, os.listdir(path)
    paths = [os.path.join(folder, each) for each in names if not each.endswith(PACKED)]
    return [each for each in paths if stat.S_ISREG(os.lstat(each).st_mode)]
