"""A database server's messages in systemd's journal.

This file is sent to the target's host, see serve.py: Python 3.8, no more than
the standard library and remote/wire.py.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from dbcheck.hosts.agent.process import of_server
from dbcheck.remote.wire import Refusal, lines

JOURNAL = "journal:"  # and a data directory: its server logs by way of syslog
UNIT = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)
JOURNALCTL_TIMEOUT_S = 60


def mark_journal(directory: str) -> dict[str, list[int]]:
    """Return the server's unit, and from which second on its journal is to be read.

    Raise Refusal if the server is not a systemd service, or this user may see none
    of its messages.
    """
    unit = unit_of(directory)
    if not unit:
        raise Refusal("journal", "the server does not run as a systemd service")
    if not journalctl(unit, "--lines=1", 1)[0]:
        raise Refusal("journal", "the journal has no message of " + unit)
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
        printed, failure = beginning(command, limit + 1, JOURNALCTL_TIMEOUT_S)
    except OSError as error:
        raise Refusal("journal", "journalctl: " + type(error).__name__) from None
    if failure:
        raise Refusal("journal", "journalctl: " + failure)
    return printed[:limit], len(printed) > limit


def beginning(
    command: Sequence[str], limit: int, timeout_s: float
) -> tuple[bytes, str]:
    """Return what a program prints, *limit* bytes at most, and why it failed, or "".

    A journal holds as much as any account had logged, so the program is ended once it
    has printed that much.  Raise OSError if it cannot be run.
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=null, stdout=pipe, stderr=pipe) as running:
        assert running.stdout and running.stderr
        late = threading.Timer(timeout_s, running.kill)
        late.start()
        try:
            printed = running.stdout.read(limit)
            if len(printed) == limit:
                running.kill()
                return printed, ""
            printed_error = (
                running.stderr.read(1000).decode(errors="replace").strip()[:200]
            )
            code = running.wait()
        finally:
            late.cancel()
            running.kill()
    if code < 0:
        return printed, f"ended after {timeout_s:.0f} s"
    return printed, (printed_error or str(code)) if code else ""
