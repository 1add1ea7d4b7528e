"""Adds up how long each part of some work takes, without the parts inside of it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import patch


class Parts:
    """Times the parts of one thread's work."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """now: the clock, in seconds."""
        self._now = now
        self._inner_s = [0.0]  # what parts inside took, of each part that is open
        self._found: dict[str, float] = {}

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time as that part's, but for what inner parts take of it."""
        began = self._now()
        self._inner_s.append(0.0)
        try:
            yield
        finally:
            took_s = self._now() - began
            own_s = took_s - self._inner_s.pop()
            self._inner_s[-1] += took_s
            self._found[name] = self._found.get(name, 0.0) + own_s

    def taken(self) -> dict[str, float]:
        """Return the seconds of each part since the last call."""
        found, self._found = self._found, {}
        return found

    def timing(self, owner: object, attribute: str, name: str) -> Any:
        """Return a patch that counts each call of a function as a part."""
        function: Callable[..., Any] = getattr(owner, attribute)

        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            with self.part(name):
                return function(*given, **named)

        return patch.object(owner, attribute, timed)


def differences(readings: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return by how much each count grew from one reading to the next."""
    return [
        {name: after[name] - before[name] for name in before}
        for before, after in pairwise(readings)
    ]
