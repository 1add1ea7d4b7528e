"""Counts of writes and flushes of block devices, from the kernel.

What the fields mean is in model/flushes.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any

BLOCK = "/sys/class/block"
DEVICES_MAX = 64
NAME = re.compile(r"[A-Za-z0-9!._-]{1,64}")  # of a block device in /sys
STAT_BYTES_MAX = 4096


class Devices:
    """The counters of some block devices, held open: each read takes microseconds."""

    def __init__(self, names: list[str]) -> None:
        """Open those of *names* that are there."""
        self._open: dict[str, tuple[int, bool]] = {}
        for name in names[:DEVICES_MAX]:
            if not NAME.fullmatch(name):
                continue
            folder = os.path.join(BLOCK, name)
            with contextlib.suppress(OSError):
                counted = queues(folder)
                stat = os.open(os.path.join(folder, "stat"), os.O_RDONLY | os.O_CLOEXEC)
                self._open[name] = (stat, counted)

    def read(self) -> dict[str, Any]:
        """Return the host's monotonic clock in microseconds, and the fields of each.

        A device that is gone by now is left out.
        """
        devices = []
        for name, (stat, is_counted) in self._open.items():
            with contextlib.suppress(OSError, ValueError):
                text = os.pread(stat, STAT_BYTES_MAX, 0)
                fields = [int(field) for field in text.split()]
                devices.append({"name": name, "stat": fields, "queues": is_counted})
        return {"at_us": time.monotonic_ns() // 1000, "devices": devices}

    def close(self) -> None:
        """Close them all."""
        for stat, _ in self._open.values():
            os.close(stat)
        self._open.clear()


def queues(folder: str) -> bool:
    """Say whether the kernel queues requests of a device, and counts them.

    It counts none where queue/iostats is 0 (Documentation/ABI/stable/sysfs-block).
    """
    with open(os.path.join(folder, "queue", "iostats")) as file:
        return os.path.isdir(os.path.join(folder, "mq")) and file.read(1) != "0"
