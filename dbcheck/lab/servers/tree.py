"""The processes of one server: found, frozen and killed by pid file descriptor.

A server is known by what it runs and where: its program file and its working
folder, which is its data folder.  Parentage would not do: PostgreSQL's children
have sessions of their own, and lose their parent when it is killed.  Where another
program starts the server, whatever works in the folder belongs to it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError


class ServerTree:
    """A server process that we started, and all that it forked.

    process: the first process, as started by us; it is reaped here.
    program: the file that it executes, None for any; folder: its data folder.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], program: Path | None, folder: Path
    ) -> None:
        self._process = process
        self._program = str(program.resolve()) if program else ""
        self._folder = str(folder.resolve())
        self._dying: dict[int, int] = {}  # pid -> pid file descriptor

    def pids(self) -> list[int]:
        """Return the processes that live now, the first one first."""
        found = [pid for pid in _list_processes() if self._is_ours(pid)]
        first = self._process.pid
        if self._process.poll() is None and first not in found:
            found.append(first)  # not yet executing the program
        return sorted(found, key=lambda pid: (pid != first, pid))

    def freeze(self) -> None:
        """Stop every process where it is; connections stay open and get no answer."""
        frozen: set[int] = set()
        while fresh := [pid for pid in self.pids() if pid not in frozen]:
            for pid in fresh:
                _send_signal(pid, signal.SIGSTOP)
            frozen.update(fresh)

    def thaw(self) -> None:
        """Resume frozen processes."""
        for pid in self.pids():
            _send_signal(pid, signal.SIGCONT)

    def kill_now(self) -> None:
        """Send SIGKILL to every process, and return without waiting for their end.

        A process that sleeps in a request to a dead drive ends only once that
        request is answered, so the waiting is wait_gone()'s.
        """
        first = self._process.pid
        if self._process.poll() is None:
            _send_signal(first, signal.SIGSTOP)  # it can fork no more
        while fresh := [pid for pid in self.pids() if pid not in self._dying]:
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    self._dying[pid] = os.pidfd_open(pid)
                if pid != first:
                    _send_signal(pid, signal.SIGKILL)
        if self._process.poll() is None:
            _send_signal(first, signal.SIGKILL)

    def wait_gone(self, timeout_s: float) -> None:
        """Return once every process that kill_now() hit is gone, and reap the first.

        Raise LabError after timeout_s seconds.
        """
        deadline = time.monotonic() + timeout_s
        for pid, handle in list(self._dying.items()):
            poller = select.poll()
            poller.register(handle, select.POLLIN)
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise LabError(
                    f"server process {pid} still runs {timeout_s:g} s after SIGKILL",
                    id=ErrorId.PROCESSES_DO_NOT_END,
                    hint="It waits for its drive; end the drive, then try again.",
                )
            os.close(self._dying.pop(pid))
        self._process.wait()

    def _is_ours(self, pid: int) -> bool:
        """Return True if *pid*, no zombie, is the server's.

        It works in the folder, and executes the program or is of its session, as the
        scripts are by which a node of Galera copies its data.
        """
        try:
            if os.readlink(f"/proc/{pid}/cwd") != self._folder:
                return False
            executed = os.readlink(f"/proc/{pid}/exe")
            return executed == self._program or (
                not self._program or os.getsid(pid) == self._process.pid
            )
        except OSError:  # gone, or another account's
            return False


def _list_processes() -> Iterator[int]:
    """Yield every process id; raise LabError if /proc numbers them otherwise."""
    if os.readlink("/proc/self") != str(os.getpid()):
        raise LabError(
            "/proc shows the processes of another pid namespace",
            id=ErrorId.PROC_OF_OTHER_NAMESPACE,
            hint="Mount a fresh /proc in the namespace that the lab runs in.",
        )
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that is gone already is what was wanted."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
