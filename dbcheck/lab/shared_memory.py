"""System V shared memory that killed servers leave behind (shmget(2))."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dbcheck.lab.process import Process

_IPC_RMID = 0
# How long a segment may stay in use by a process that has ended, and the time between
# two looks at it.  A reader of /proc keeps it for as long as one read takes, also on a
# busy host; what another process uses for longer is in use, and left alone.
_IN_USE_S = 2.0
_EVERY_S = 0.01


def remove_segments(creators: Iterable[Process]) -> None:
    """Remove the segments that these processes made and that no process uses now.

    A process that had one of their ids before them ended before they started, so
    what it made is older and is left alone.  Whoever reads /proc/PID/cmdline of a
    process that ends keeps its memory for a moment (proc(5)), so one that is in use is
    looked at again for up to _IN_USE_S.
    """
    started_s = {process.pid: process.started_s() for process in creators}
    deadline = time.monotonic() + _IN_USE_S
    while True:
        found = list(_made_by(started_s))
        for segment, in_use in found:
            if not in_use:  # it may be gone by now
                ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)
        if not any(in_use for _, in_use in found) or time.monotonic() > deadline:
            return
        time.sleep(_EVERY_S)


def _made_by(started_s: Mapping[int, float]) -> Iterator[tuple[int, bool]]:
    """Yield each of these processes' segments, and whether a process uses it."""
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        fields = line.split()
        segment, creator, attached = int(fields[1]), int(fields[4]), int(fields[6])
        changed_s = int(fields[13])  # its ctime; a whole second, hence the slack
        if creator in started_s and changed_s + 1 >= started_s[creator]:
            yield segment, attached > 0
