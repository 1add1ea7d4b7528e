"""What systemd's journal holds of a database server's messages.

This file is sent to the target's host, see host_agent.py: Python 3.8, no more than
the standard library and remote/wire.py.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import time
from typing import Any

from dbcheck.remote.wire import Refusal

JOURNAL = "journal:"  # and a data directory: where a server logs to standard error
UNIT = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)
JOURNALCTL_TIMEOUT_S = 60


def mark_journal(path: str, processes: str = "/proc") -> dict[str, list[int]]:
    """Return the server's unit, and from which second on its journal is to be read.

    Raise Refusal if the server is no systemd service, or the journal holds nothing of
    it that we may see.
    """
    unit = unit_of(path[len(JOURNAL) :], processes)
    if not unit:
        raise Refusal("journal", "the server is not known as a service of systemd")
    if not journalctl(unit, "--lines=1", 1)[0]:
        raise Refusal("journal", "the journal shows no message of " + unit)
    return {unit: [math.ceil(time.time()), 0]}


def unit_of(directory: str, processes: str) -> str:
    """Return the service whose process works in *directory*, "" if none is found.

    PostgreSQL, MySQL and MariaDB all change to their data directory (proc(5), cwd;
    systemd names a service's cgroup after it).
    """
    wanted = os.path.realpath(directory)
    for name in os.listdir(processes):
        folder = os.path.join(processes, name)
        try:
            if not name.isdigit() or os.readlink(folder + "/cwd") != wanted:
                continue
            with open(folder + "/cgroup") as file:
                found = UNIT.search(file.read())
        except OSError:  # it ended, or is another account's
            continue
        if found:
            return found.group(1)
    return ""


def since_journal(marks: dict[str, list[int]], limit: int) -> dict[str, Any]:
    """Return the service's messages since then, see host_log.since()."""
    ((unit, (start_s, _)),) = marks.items()
    text, truncated = journalctl(unit, "--since=@" + str(start_s), limit)
    return {
        "text": text.decode("utf-8", "replace"),
        "truncated": truncated,
        "rewound": False,
    }


def journalctl(unit: str, option: str, limit: int) -> tuple[bytes, bool]:
    """Return at most *limit* bytes of a service's messages, and whether it was more.

    Raise Refusal if journalctl(1) does not run.
    """
    program = shutil.which("journalctl")
    if program is None:
        raise Refusal("journal", "journalctl is not installed")
    match = "_SYSTEMD_UNIT=" + unit
    command = [program, "--quiet", "--no-pager", "--output=cat", option, match]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=JOURNALCTL_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refusal("journal", "journalctl: " + type(error).__name__) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise Refusal("journal", f"journalctl: {said or done.returncode}")
    return done.stdout[:limit], len(done.stdout) > limit
