"""How every test waits: for a condition, and never for a time."""

from __future__ import annotations

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
