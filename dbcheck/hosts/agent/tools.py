"""Programs of the target's host that show something, and what they print.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

DENIED = re.compile("permission denied|not permitted|must be root", re.IGNORECASE)
TOOL_TIMEOUT_S = 10
PATHS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def found(name: str) -> str:
    """Return the path of a program, "" if it is not installed."""
    return shutil.which(name, path=PATHS) or ""


def printed(name: str, *arguments: str) -> tuple[str, str]:
    """Return what a program prints, and "" or the reason why it could not do its work.

    smartctl's exit status is a set of bits, of which the first two mean that it could
    not (smartctl(8)).
    """
    program = found(name)
    if not program:
        return "", f"{name} is not installed"
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_TIMEOUT_S,
            env={"PATH": PATHS, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{name}: {type(error).__name__}"
    text = done.stdout.decode(errors="replace")
    failed = done.returncode & 3 if name == "smartctl" else done.returncode
    if failed:
        why = reason(done.stderr.decode(errors="replace"))
        return text, f"{name}: {why or f'exit status {done.returncode}'}"
    return text, ""


def reason(printed_errors: str) -> str:
    """Return the line that says why a program could not do its work, "" without any.

    That is the one that names a missing right, as nvme prints its usage after it, else
    the first: dmsetup's last one says no more than that a command failed.
    """
    lines = [line.strip() for line in printed_errors.splitlines() if line.strip()]
    denied = [each for each in lines if DENIED.search(each)]
    return (denied or lines or [""])[0][:200]
