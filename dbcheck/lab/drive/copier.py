"""Writes what a drive holds at one moment into a file, beside the drive's other work.

fork(2) gives a child the drive's memory as it is at that moment, whatever the drive is
asked from then on.  The child writes it, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator, Sequence

from dbcheck.lab import syscalls
from dbcheck.lab.drive.model import Drive

_PIECE_BYTES = 1 << 16


class DriveCopier:
    """Copies one drive, once at a time.

    unwanted: descriptors that a child must not keep open: the kernel would not notice
    the end of the drive.
    handed: over which the file comes that is written to; None if none can come.
    """

    def __init__(
        self, drive: Drive, unwanted: Sequence[int], handed: socket.socket | None
    ) -> None:
        self._drive, self._unwanted, self._handed = drive, unwanted, handed
        self._child: int | None = None
        self._written = False

    @contextlib.contextmanager
    def handed_file(self) -> Iterator[int]:
        """Give the file that was handed; raise ValueError if none came."""
        if self._handed is None:
            raise ValueError("no file for a copy can be handed to this drive")
        _, files, _, _ = socket.recv_fds(self._handed, 1, 1)
        if not files:
            raise ValueError("no file for a copy came")
        try:
            yield files[0]
        finally:
            os.close(files[0])

    def begin(self, file: int) -> None:
        """Copy what the drive holds now into *file*.

        Raise ValueError if a copy is being written.
        """
        if self._child is not None:
            raise ValueError("the drive is being copied already")
        parent = os.getpid()
        self._written = False
        self._child = os.fork()
        if self._child == 0:
            self._write(file, parent)

    def is_complete(self) -> bool:
        """Return whether the copy is written; raise ValueError if that failed."""
        if self._child is not None:
            ended, status = os.waitpid(self._child, os.WNOHANG)
            if not ended:
                return False
            self._child = None
            self._written = status == 0
        if not self._written:
            raise ValueError("the copy was not written: its disk may be full")
        return True

    def give_up(self) -> None:
        """End what writes a copy."""
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = None

    def _write(self, file: int, parent: int) -> None:
        """Write the copy, without its zeros, in the child; end the child."""
        status = 1
        with contextlib.suppress(BaseException):
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                for descriptor in self._unwanted:
                    os.close(descriptor)
                for offset, content in self._drive.list_pieces(_PIECE_BYTES):
                    _write_all(file, content, offset)
                os.ftruncate(file, self._drive.spec.size_bytes)
                status = 0
        os._exit(status)


def _write_all(file: int, content: bytes, offset: int) -> None:
    while content:
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written
