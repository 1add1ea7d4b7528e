"""The measurements of either side."""

from __future__ import annotations

import resource
from typing import NamedTuple


class Speed(NamedTuple):
    """commits/s, and what each cost the client's processes: user and system time."""

    commits_per_s: float
    cpu_us: float


def cpu_s(whose: int) -> float:
    """Return the CPU time so far of this process or of its ended children."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime
