"""System V shared memory that killed servers leave behind (shmget(2))."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path

from dbcheck.lab.process import Process

_IPC_RMID = 0


def remove_segments(creators: Iterable[Process]) -> None:
    """Remove the segments that these processes made and that no process uses now.

    A process that had one of their ids before them ended before they started, so
    what it made is older and is left alone.
    """
    started_s = {process.pid: process.started_s() for process in creators}
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        fields = line.split()
        segment, creator, attached = int(fields[1]), int(fields[4]), int(fields[6])
        changed_s = int(fields[13])  # its ctime; a whole second, hence the slack
        ours = creator in started_s and changed_s + 1 >= started_s[creator]
        if ours and not attached:
            ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)  # it may be gone by now
