"""Random writes of several threads at once, by fio(1), where it is installed."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from dbcheck.agent.host.timing import open_unnamed
from dbcheck.agent.host.tools import PATHS, found

FILE_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 16384  # of InnoDB's pages
TIME_MAX_S = 20
MORE_S = 20  # that fio may take to begin and to end
TEXT_BYTES_MAX = 1 << 20


def fileio(ask: dict[str, Any]) -> dict[str, str]:
    """Return what fio prints as JSON, or why it could not be run.

    folder: where the file is, which has no name.  at_once: threads that each write and
    flush a block, or blocks in flight that are never flushed.  flushed: which of both.
    time_s: for how long.
    """
    program = found("fio")
    if not program:
        return {"text": "", "why": "fio is not installed"}
    at_once, time_s = int(ask["at_once"]), min(int(ask["time_s"]), TIME_MAX_S)
    kind = ["--ioengine=libaio", f"--iodepth={at_once}"]
    if ask["flushed"]:
        kind = ["--ioengine=psync", "--fdatasync=1", f"--numjobs={at_once}"]
    file = open_unnamed(ask["folder"])
    try:
        for place in range(0, FILE_BYTES, CHUNK_BYTES):
            os.pwrite(file, os.urandom(CHUNK_BYTES), place)
        os.fsync(file)
        command = [
            program,
            "--name=dbcheck",
            f"--filename=/proc/{os.getpid()}/fd/{file}",
            f"--size={FILE_BYTES}",
            "--allow_file_create=0",
            "--rw=randwrite",
            f"--bs={BLOCK_BYTES}",
            "--direct=1",
            "--thread",
            "--group_reporting",
            "--time_based",
            f"--runtime={time_s}",
            "--output-format=json",
            *kind,
        ]
        return outcome(command, time_s + MORE_S)
    finally:
        os.close(file)


def outcome(command: list[str], timeout_s: int) -> dict[str, str]:
    """Return what fio prints, or the reason why it failed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            cwd="/",
            env={"PATH": PATHS, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"text": "", "why": f"fio: {type(error).__name__}"}
    if done.returncode or len(done.stdout) > TEXT_BYTES_MAX:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = lines[0][:200] if lines else f"exit status {done.returncode}"
        return {"text": "", "why": f"fio: {why}"}
    return {"text": done.stdout.decode(errors="replace"), "why": ""}
