"""A limit on how long a server may stay silent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def deadline(seconds: float, sever: Callable[[], None]) -> Iterator[None]:
    """Call *sever*, from another thread, if the body takes longer than *seconds*.

    The drivers know no timeout of their own for an answer; a power cut sends
    nothing, so without this a reader would wait for ever.
    """
    timer = threading.Timer(seconds, sever)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
