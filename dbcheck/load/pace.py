"""When the next operation may be sent, if the load has a rate."""

from __future__ import annotations

_BEHIND_US = 1_000_000  # a load that was held up for longer does not make up for it


class Pace:
    """Grants operations at an even rate, from *began_us* on; 0 grants them all."""

    def __init__(self, rate: float, began_us: int) -> None:
        self._interval_us = 1e6 / rate if rate else 0.0
        self._due_us = float(began_us)

    def granted(self, now_us: int, wanted: int) -> int:
        """Return how many of *wanted* operations may be sent now, and count them."""
        if not self._interval_us:
            return wanted
        self._due_us = max(self._due_us, now_us - _BEHIND_US)
        if self._due_us > now_us:
            return 0
        due = int((now_us - self._due_us) / self._interval_us) + 1
        granted = min(wanted, due)
        self._due_us += granted * self._interval_us
        return granted

    def wait_s(self, now_us: int) -> float:
        """Return how long it is until the next operation is granted."""
        return max(0.0, (self._due_us - now_us) / 1e6) if self._interval_us else 0.0
