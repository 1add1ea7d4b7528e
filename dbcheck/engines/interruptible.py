"""Waits for a driver in C so that an interrupt can end it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class StillRunning(TimeoutError):
    """A call that was severed, and is left in its *thread*, since it did not end."""

    def __init__(self, limit_s: float, thread: threading.Thread) -> None:
        super().__init__(f"it did not end within {limit_s:g} s")
        self.thread = thread


def interruptible(
    call: Callable[[], T], sever: Callable[[], None], limit_s: float | None = None
) -> T:
    """Return what *call* returns, raise what it raises; *sever* if an interrupt comes.

    Raise StillRunning after limit_s, unless that is None.

    A signal's handler runs in the main thread between two steps of Python, so not while
    libpq waits there for an answer.  So *call* runs in a thread of its own; once it is
    severed, it is not waited for.  No signal interrupts another thread, so there it is
    called as it is unless it has a limit.
    """
    if limit_s is None and threading.current_thread() is not threading.main_thread():
        return call()
    outcome: Future[T] = Future()
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)
        ended.put(None)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        ended.get(timeout=limit_s)
    except queue.Empty:
        sever()
        assert limit_s is not None
        raise StillRunning(limit_s, thread) from None
    except BaseException:
        sever()
        raise
    return outcome.result()
