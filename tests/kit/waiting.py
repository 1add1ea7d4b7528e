"""How every test waits: for a condition, and never for a time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Wait for *condition*; fail if it does not come true.

    The limit is far beyond what even a busy machine takes: it ends what hangs.
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.01)


def await_end(process: subprocess.Popen[bytes], timeout_s: float = 60) -> int:
    """Return the exit status of *process*; kill it and fail if it does not end."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
