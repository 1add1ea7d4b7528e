"""Finds the way to a host by its URL; agents on this host die with the client."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.remote.address import AS_SSH, SshOptions, parse_ssh_url
from dbcheck.remote.channel import Pipe, make_bootstrap

log = logging.getLogger(__name__)

_GRACE_S = 2.0
_READ_BYTES = 1 << 16
LOCAL = "local:"  # the URL of this host
HERE = "this machine"  # how messages name it
_HINT = "A host is ssh://[user@]host[:port] or local:."


def run_here(program: bytes, python: str = processes.PYTHON) -> ChildPipe:
    """Start *python*, which waits for *program*; raise HostError if it cannot run."""
    return ChildPipe(
        processes.make_standalone_command(make_bootstrap(len(program)), python)
    )


class ChildPipe:
    """The standard streams of a child process; see channel.Pipe."""

    def __init__(self, command: list[str]) -> None:
        """Start *command*; raise HostError if that cannot be run."""
        self._errors = tempfile.TemporaryFile()  # closed in close()  # noqa: SIM115
        try:
            # Its own session: Ctrl-C is for the client, which must end the run.
            self._child = subprocess.Popen(
                command,
                env=processes.make_environment(),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise HostError(
                f"cannot run an agent: {command[0]}: {error.strerror}",
                id=ErrorId.AGENT_NOT_STARTED,
                hint="Install that program on this machine, or give its full path.",
            ) from error
        assert self._child.stdin and self._child.stdout
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        # A file is closed only while no other thread is using it.
        self._sending, self._receiving = threading.Lock(), threading.Lock()

    def send(self, data: bytes) -> None:
        with self._sending:
            if self._stdin.closed:
                raise BrokenPipeError("the agent has ended")
            view = memoryview(data)
            while view:
                view = view[os.write(self._stdin.fileno(), view) :]

    def receive(self, timeout_s: float | None) -> bytes:
        with self._receiving:
            if self._stdout.closed:
                return b""
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            if not poll.poll(None if timeout_s is None else timeout_s * 1000):
                raise TimeoutError
            return os.read(self._stdout.fileno(), _READ_BYTES)

    def finish(self) -> None:
        with self._sending:
            self._stdin.close()

    def close(self) -> None:
        if not self._end_child():
            return  # its streams may still be in use
        with self._sending, self._receiving:
            for file in (self._stdin, self._stdout, self._errors):
                with contextlib.suppress(OSError):
                    file.close()

    def is_alive(self) -> bool:
        """Return True if the agent still runs."""
        return self._child.poll() is None

    def stderr_text(self) -> str:
        """Return the agent's standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired, OSError, ValueError):
            self._child.wait(_GRACE_S)
            self._errors.seek(0)
            return self._errors.read(_READ_BYTES).decode(errors="replace")
        return ""

    def _end_child(self) -> bool:
        """Close the streams of the child, or kill it; return whether it ended."""
        grace_s = _GRACE_S
        for lock, file in (self._sending, self._stdin), (self._receiving, self._stdout):
            if lock.acquire(blocking=False):
                file.close()
                lock.release()
            elif file is self._stdin:
                grace_s = 0  # it does not even read
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(grace_s)
            return True
        self._child.kill()
        try:
            self._child.wait(_GRACE_S)
            return True
        except subprocess.TimeoutExpired:  # in the kernel, on a disk that hangs
            log.warning("cannot end an agent: process %s hangs", self._child.pid)
            return False


@dataclass(frozen=True, slots=True)
class Way:
    """The way to start a program on one host, over SSH or as a child.

    run:   starts a Python there that waits for its program; raises HostError.
    close: ends the connection; run() makes a new one.
    """

    url: str
    run: Callable[[bytes], Pipe]
    close: Callable[[], None] = lambda: None


def find_way(url: str, options: SshOptions = AS_SSH) -> Way:
    """Return the way to *url*: ssh://[user@]host[:port], or "local:" for this host.

    Nothing is connected yet.  Raise UsageError if the URL is invalid.
    """
    if url == LOCAL:
        return Way(url, run_here)
    address, path = parse_ssh_url(url, "a host", _HINT)
    if path.strip("/"):
        raise UsageError(
            f"a path after the host in {url!r}",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint=_HINT,
        )
    # paramiko takes 100 ms to import, and this host does not need it.
    from dbcheck.remote.ssh import SshHost

    host = SshHost(url, address, options)
    return Way(url, host.run, host.close)
