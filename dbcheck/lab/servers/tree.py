"""Finds the processes of one server, freezes them, and kills them.

A process is a server's if it executes the server's program file and its working folder
is the server's data folder.  Parentage does not show it: PostgreSQL's children have
sessions of their own, and lose their parent when it is killed.  Where another program
starts the server, every process that works in the folder belongs to it.
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
    """A server process that the lab started, and all that it forked.

    process: the first process, which the lab started; it is reaped here.
    program: the file that the processes execute, None for any.
    folder:  the server's data folder, by its path for the server.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], program: Path | None, folder: Path
    ) -> None:
        self._process = process
        self._program = str(program.resolve()) if program else ""
        self._folder = str(folder.resolve())
        # Every container has such a folder, and this process may see other containers.
        self._namespace = _read_namespace(process.pid) or _read_namespace("self")
        self._dying: dict[int, int] = {}  # pid -> pid file descriptor

    def pids(self) -> list[int]:
        """Return the processes that live now, the first process first."""
        living = [pid for pid in _list_processes() if self._is_of_server(pid)]
        first = self._process.pid
        if self._process.poll() is None and first not in living:
            living.append(first)  # it does not execute the program yet
        return sorted(living, key=lambda pid: (pid != first, pid))

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
        request is answered: wait_gone() waits for the ends.
        """
        first = self._process.pid
        if self._process.poll() is None:
            _send_signal(first, signal.SIGSTOP)  # a stopped process cannot fork
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

    def _is_of_server(self, pid: int) -> bool:
        """Return True if *pid* is a process of the server, and no zombie.

        It works in the folder, and executes the program or is in the session of the
        first process, as the scripts are by which a node of Galera copies its data.
        """
        try:
            if os.readlink(f"/proc/{pid}/cwd") != self._folder:
                return False
            if _read_namespace(pid) != self._namespace:
                return False
            executed = os.readlink(f"/proc/{pid}/exe")
            return executed == self._program or (
                not self._program or os.getsid(pid) == self._process.pid
            )
        except OSError:  # it has ended, or is another account's
            return False


def _read_namespace(pid: int | str) -> str:
    """Return which pid namespace a process is in, "" if it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _list_processes() -> Iterator[int]:
    """Yield every process id; raise LabError if /proc is another pid namespace's."""
    if os.readlink("/proc/self") != str(os.getpid()):
        raise LabError(
            "/proc shows the processes of another pid namespace",
            id=ErrorId.PROC_OF_OTHER_NAMESPACE,
            hint="Mount a fresh /proc in the namespace that the lab runs in.",
        )
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
