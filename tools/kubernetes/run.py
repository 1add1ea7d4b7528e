"""Runs commands, and starts programs that go on when this one has ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dbcheck.lab.process import Process

_LINES = 8
_STEP_S = 0.2
# The program has the id of the shell's child, which it replaces (setsid(1)).
_IN_BACKGROUND = 'setsid "$@" >&2 & echo $!'


class ClusterError(Exception):
    """The cluster, or a part of it, cannot be built, started or ended."""


def run(
    command: Sequence[str],
    variables: Mapping[str, str] | None = None,
    *,
    text: str = "",
    timeout_s: float = 300.0,
) -> str:
    """Return the output of a command; raise ClusterError with its last lines.

    variables: besides the environment's.  text: what it reads.
    """
    named = " ".join(command[:4])
    try:
        done = subprocess.run(
            command,
            env=os.environ | (variables or {}),
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{named}: {error}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()[-_LINES:]
        raise ClusterError("\n".join([f"{named}: status {done.returncode}", *lines]))
    return done.stdout


def start(command: Sequence[str], log: Path, variables: Mapping[str, str]) -> Process:
    """Start a program that outlives this one, as a child of init, and writes to *log*.

    variables: besides the environment's.
    """
    with log.open("ab") as stream:
        shell = subprocess.run(
            ["sh", "-c", _IN_BACKGROUND, "sh", *command],
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )
    if found := Process.of(int(shell.stdout)):
        return found
    raise ClusterError(f"{command[0]} ended at once, see {log}")


def wait_until(what: str, is_so: Callable[[], bool], timeout_s: float) -> None:
    """Wait until *is_so* returns True; raise ClusterError after *timeout_s*."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {timeout_s:g} s")
        time.sleep(_STEP_S)
