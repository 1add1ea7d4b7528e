"""How long to wait for an answer that comes in pieces."""

from __future__ import annotations

import time
from collections.abc import Callable

SLOWEST_BYTES_PER_S = 4 << 10  # a tenth of a slow line over a satellite


class Patience:
    """The time that may still be spent on waiting for one answer.

    A byte now and then would keep the reader waiting for ever if each restarted the
    wait.  So each gives back no more time than it takes at SLOWEST_BYTES_PER_S.  Only
    waiting counts: a reader may take as long as it likes.
    """

    def __init__(
        self, most_s: float, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Allow for *most_s* seconds without anything."""
        self.most_s = most_s
        self.received = 0
        self._left_s = most_s
        self._now = now

    def wait(self, take: Callable[[float], int]) -> None:
        """Call *take*, which waits for so many seconds and returns how much came.

        Raise TimeoutError if the time is over.
        """
        began_s = self._now()
        received = take(self._left_s)
        self.received += received
        gained_s = received / SLOWEST_BYTES_PER_S - (self._now() - began_s)
        self._left_s = min(self.most_s, self._left_s + gained_s)
        if self._left_s <= 0:
            raise TimeoutError
