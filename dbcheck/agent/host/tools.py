"""Programs of the target's host that show something, and what they print."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

DENIED = re.compile("permission denied|not permitted|must be root", re.IGNORECASE)
TOOL_TIMEOUT_S = 10
LINE_MAX = 200
# Where Broadcom's, Dell's and HPE's packages put their programs, in no PATH.
VENDORS = (
    *("/opt/MegaRAID/storcli", "/opt/MegaRAID/perccli"),
    *("/opt/MegaRAID/storcli2", "/opt/MegaRAID/perccli2"),
    *("/opt/smartstorageadmin/ssacli/bin", "/opt/hp/hpssacli/bld"),
)
PATHS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *VENDORS))


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
        why = reason(done.stderr.decode(errors="replace")) or reason_in_output(text)
        return text, f"{name}: {why or f'exit status {done.returncode}'}"
    return text, ""


def reason_in_output(text: str) -> str:
    """Return why a program could not do its work, by what it prints, "" if unknown.

    smartctl has a list of messages in its JSON, with their severity (smartctl(8),
    --json), and prints nothing else; nvme has an error there (nvme-cli 2,
    nvme-print-json.c), and storcli a description of each controller's status.  ssacli
    has lines.
    """
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError):
        lines = (each for each in text.splitlines() if each.startswith("Error"))
        return short(next(lines, ""))
    try:
        if "smartctl" in shown:
            messages = list(shown["smartctl"]["messages"])
            errors = (each for each in messages if each.get("severity") == "error")
            return short(next(errors, messages[0])["string"])
        if "Controllers" in shown:
            return short(shown["Controllers"][0]["Command Status"]["Description"])
        return short(shown["error"])
    except (LookupError, TypeError, AttributeError):
        return ""


def short(text: str) -> str:
    """Return the first line of a text, not too long."""
    return text.strip().splitlines()[0][:LINE_MAX] if text.strip() else ""


def reason(printed_errors: str) -> str:
    """Return the line that says why a program could not do its work, "" without any.

    That is the one that names a missing right, as nvme prints its usage after it, else
    the first: dmsetup's last one says no more than that a command failed.
    """
    lines = [line.strip() for line in printed_errors.splitlines() if line.strip()]
    denied = [each for each in lines if DENIED.search(each)]
    return short((denied or lines or [""])[0])
