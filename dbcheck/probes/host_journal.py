"""What systemd's journal holds of a database server's messages.

This file is sent to the target's host, see host_agent.py: Python 3.8, no more than
the standard library and remote/wire.py.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import time
from typing import Any

from dbcheck.probes.host_process import of_server
from dbcheck.remote.wire import Refusal, lines

JOURNAL = "journal:"  # and a data directory: its server logs by way of syslog
UNIT = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)
JOURNALCTL_TIMEOUT_S = 60


def mark_journal(directory: str) -> dict[str, list[int]]:
    """Return the server's unit, and from which second on its journal is to be read.

    Raise Refusal if the server is no systemd service, or the journal holds nothing of
    it that we may see.
    """
    unit = unit_of(directory)
    if not unit:
        raise Refusal("journal", "the server is not known as a service of systemd")
    if not journalctl(unit, "--lines=1", 1)[0]:
        raise Refusal("journal", "the journal shows no message of " + unit)
    return {unit: [math.ceil(time.time()), 0]}


def unit_of(directory: str) -> str:
    """Return the service of the server that works in *directory*, "" if none is found.

    systemd names a service's cgroup after it.
    """
    for folder in of_server(directory):
        found = UNIT.search("".join(lines(folder + "/cgroup")))
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
