"""Limits on a server's answer: how long it may take, and how many bytes it may have."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

_LOOK_S = 0.05  # between two looks at how much came
_AGAIN_S = 1.0  # between two attempts to sever what continues
# tcpi_bytes_received in struct tcp_info of Linux (include/uapi/linux/tcp.h), whose
# fields keep their places.
_RECEIVED = struct.Struct("=128xQ")
T = TypeVar("T")


class Overrun:
    """Whether the server was cut off, and why.

    is_late: it took too long.  is_flood: it sent too much.
    """

    is_late = is_flood = False


@contextlib.contextmanager
def deadline(
    seconds: float,
    sever: Callable[[], None],
    count: Callable[[], int] | None = None,
    most: int = 0,
) -> Iterator[Overrun]:
    """Call *sever*, from another thread, if the body goes beyond a limit.

    seconds: how long it may take.  The drivers know no timeout of their own for an
    answer; a power cut sends nothing, so without this a reader would wait for ever.
    most: how many bytes may come meanwhile, if *count* returns how many came so far, as
    received() does.  libpq holds an answer whole, whatever its size.

    Yield which limit was exceeded; it is set before *sever* is called, again and again
    while the body continues: what it breaks may not be there yet.
    """
    overrun, done = Overrun(), threading.Event()
    before = count() if count else 0

    def watch() -> None:
        end_s = time.monotonic() + seconds
        while not done.wait(_wait_s(end_s, often=count is not None)):
            overrun.is_flood = count() - before > most if count else False
            overrun.is_late = time.monotonic() >= end_s
            if overrun.is_flood or overrun.is_late:
                break
        else:
            return
        sever()
        while not done.wait(_AGAIN_S):
            sever()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield overrun
    finally:
        done.set()
        thread.join()


def received(wire: socket.socket | None) -> int:
    """Return how many bytes came over a TCP connection so far, 0 if that is unknown.

    Only Linux reports it, and only for TCP.
    """
    if wire is None or sys.platform != "linux":
        return 0
    try:
        found = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
        return int(_RECEIVED.unpack(found)[0])
    except (OSError, struct.error):  # no TCP, or a kernel of before 4.1
        return 0


def _wait_s(end_s: float, *, often: bool) -> float:
    left_s = max(0.0, end_s - time.monotonic())
    return min(left_s, _LOOK_S) if often else left_s


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
