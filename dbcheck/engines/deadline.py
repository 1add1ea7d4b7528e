"""A limit on how long a server may stay silent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def deadline(seconds: float, sever: Callable[[], None]) -> Iterator[threading.Event]:
    """Call *sever*, from another thread, if the body takes longer than *seconds*.

    The drivers know no timeout of their own for an answer; a power cut sends
    nothing, so without this a reader would wait for ever.  Yield what is set once the
    time is over, before *sever* is called.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        sever()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        timer.join()
