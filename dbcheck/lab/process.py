"""Processes that are not taken for later ones of their id, and their shared memory.

System V shared memory that killed servers leave behind (shmget(2)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError


class Process(NamedTuple):
    """One process, distinguished from a later one of its id by its start time.

    start_ticks: field 22 of /proc/PID/stat (proc(5)), in clock ticks since boot.
    """

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process that has this id now, or None; a zombie is none."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Return True if this very process still runs."""
        return Process.of(self.pid) == self

    def started_s(self) -> float:
        """Return its start in seconds since the epoch."""
        lines = Path("/proc/stat").read_text().splitlines()
        booted_s = next(int(line.split()[1]) for line in lines if "btime" in line)
        return booted_s + self.start_ticks / os.sysconf("SC_CLK_TCK")

    def kill(self, timeout_s: float = 5) -> None:
        """Send SIGKILL and wait until the process is gone; raise LabError if not."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _await_end(self.pid, descriptor, timeout_s)
        finally:
            os.close(descriptor)


def kill_group(leader: int, timeout_s: float = 5) -> None:
    """Send SIGKILL to a process group; return once none of its processes runs.

    Until then one of them may still write.  leader: a child of ours that was not
    waited for.  Raise LabError after timeout_s seconds for one of them.
    """
    # No child that is forked meanwhile is missed: the kernel begins a fork anew that a
    # signal to the group interrupts (copy_process() in kernel/fork.c).
    os.killpg(leader, signal.SIGKILL)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if os.getpgid(pid) != leader:
                continue
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            _await_end(pid, descriptor, timeout_s)
        finally:
            os.close(descriptor)


class User(NamedTuple):
    """A process that uses files; pid: as this process sees it."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


def find_users(folder: Path) -> list[User]:
    """Return the processes with a file, root, program or cwd in *folder*.

    Those of this namespace and of the namespaces within it, see pid_namespaces(7).
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end at any moment
            links = [process / name for name in ("cwd", "root", "exe")]
            for more in ("fd", "map_files"):
                links += (process / more).iterdir()
            if any(_leads_into(folder, link) for link in links):
                name = (process / "comm").read_text().strip()
                found.append(User(int(process.name), name))
    return found


def _leads_into(folder: Path, link: Path) -> bool:
    try:
        return Path(os.readlink(link)).is_relative_to(folder)
    except OSError:
        return False


def _await_end(pid: int, descriptor: int, timeout_s: float) -> None:
    """Wait until a killed process has ended; raise LabError if it does not.

    descriptor: its pidfd.  Process.alive() would not do: a process is a zombie while
    its other threads still end.
    """
    if not select.select([descriptor], [], [], timeout_s)[0]:
        raise LabError(
            f"process {pid} does not end after SIGKILL",
            id=ErrorId.PROCESSES_DO_NOT_END,
            hint="Wait until it has ended, then run `dbcheck lab down`.",
        )


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
        found = list(_find_segments(started_s))
        for segment, in_use in found:
            if not in_use:  # it may be gone by now
                ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)
        if not any(in_use for _, in_use in found) or time.monotonic() > deadline:
            return
        time.sleep(_EVERY_S)


def _find_segments(started_s: Mapping[int, float]) -> Iterator[tuple[int, bool]]:
    """Yield each of these processes' segments, and whether a process uses it."""
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        fields = line.split()
        segment, creator, attached = int(fields[1]), int(fields[4]), int(fields[6])
        changed_s = int(fields[13])  # its ctime; a whole second, hence the slack
        if creator in started_s and changed_s + 1 >= started_s[creator]:
            yield segment, attached > 0
