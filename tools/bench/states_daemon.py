"""The daemon of a lab, which notes where the time of each crash state goes.

`states` starts it in the place of the product's own.  It appends a line of JSON for
each state to the file that the variable TIMES names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from typing import IO, Any
from unittest.mock import patch

from dbcheck.lab.daemon import serve
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.storage import filesystem
from dbcheck.lab.storage.drive import DriveStorage
from tools.bench.parts import Parts

TIMES = "DBCHECK_BENCH_TIMES"
KILL, UNMOUNT, DETACH = "kill the server", "unmount", "detach the loop device"
SHOW, ATTACH, MOUNT = "the drive shows the state", "attach the loop device", "mount"
RECOVER, REST = "start the server, until it takes queries", "the rest in the lab"
_TIMED = (
    (DatabaseServer, "kill", KILL),
    (filesystem, "umount", UNMOUNT),
    (filesystem.LoopDevice, "detach", DETACH),
    (DriveStorage, "hold", SHOW),
    (filesystem, "attach", ATTACH),
    (filesystem, "mount", MOUNT),
    (DatabaseServer, "begin", RECOVER),
)


class _Noted:
    """Notes each state of the lab."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._parts = file, Parts()
        self._drives: list[DriveProcess] = []
        self._shown: dict[str, float] = {}

    def install(self, stack: contextlib.ExitStack) -> None:
        """Time the parts until *stack* is closed."""
        for owner, attribute, name in _TIMED:
            stack.enter_context(self._parts.timing(owner, attribute, name))
        start, hold, show = DriveProcess.start, DriveStorage.hold, serve.Daemon.show

        def started(*given: Any, **named: Any) -> DriveProcess:
            self._drives.append(start(*given, **named))
            return self._drives[-1]

        def held(*given: Any, **named: Any) -> None:
            hold(*given, **named)
            self._shown = self._used()

        def noted(*given: Any, **named: Any) -> Any:
            before = self._used()
            self._parts.taken()
            with self._parts.part(REST):
                answer = show(*given, **named)
            line = {"before": before, "shown": self._shown, "s": self._parts.taken()}
            self._file.write(json.dumps(line) + "\n")
            return answer

        stack.enter_context(patch.object(DriveProcess, "start", started))
        stack.enter_context(patch.object(DriveStorage, "hold", held))
        stack.enter_context(patch.object(serve.Daemon, "show", noted))

    def _used(self) -> dict[str, float]:
        """Return what all drives were asked so far, and their CPU seconds."""
        sums = {"cpu_s": 0.0}
        for drive in self._drives:
            sums["cpu_s"] += _cpu_s(drive.pid)
            for name, count in dataclasses.asdict(
                drive.call(DriveServer.counters)
            ).items():
                sums[name] = sums.get(name, 0) + count
        return sums


def _cpu_s(pid: int) -> float:
    """Return the CPU time of another process so far (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def main() -> None:
    """Be the daemon until the lab ends."""
    with (
        open(os.environ[TIMES], "a", buffering=1) as file,
        contextlib.ExitStack() as stack,
    ):
        _Noted(file).install(stack)
        serve.main()


if __name__ == "__main__":
    main()
