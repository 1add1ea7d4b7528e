"""Messages between processes of this machine, over stream sockets.

A message is its length, four bytes in network order, and so many bytes.  As
multiprocessing.connection, but that takes 15 ms to import, a sixth of what the process
of a lab's drive takes to start, and waits without limit for the rest of a message.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Self

MESSAGE_BYTES_MAX = 1 << 28
_LENGTH = struct.Struct("!I")
_READ_BYTES = 1 << 16


class NotAMessage(Exception):
    """What came is too long for a message: another program is at the other end."""


class Channel:
    """One end of a connection.

    timeout_s limits a call as a whole; None waits as long as it takes.  One thread may
    send while another receives if neither has a limit.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Take over *connection*."""
        self._socket = connection

    @classmethod
    def pair(cls) -> tuple[Self, socket.socket]:
        """Return an end, and the other one for a child process, see inherited()."""
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    @classmethod
    def inherited(cls, descriptor: int) -> Self:
        """Return the end that the parent process has passed on."""
        connection = socket.socket(fileno=descriptor)
        connection.set_inheritable(False)
        return cls(connection)

    @classmethod
    def to(cls, path: Path, timeout_s: float) -> Self:
        """Connect to the socket at *path*; raise TimeoutError or another OSError."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    def fileno(self) -> int:
        """Return the descriptor, readable once a message or the end comes."""
        return self._socket.fileno()

    def send(self, message: bytes, timeout_s: float | None = None) -> None:
        """Send *message*; raise TimeoutError or another OSError."""
        self._socket.settimeout(timeout_s)
        self._socket.sendall(_LENGTH.pack(len(message)) + message)

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Return the next message.

        Raise EOFError if the other end is closed, TimeoutError, another OSError, or
        NotAMessage.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline_s))
        if length > MESSAGE_BYTES_MAX:
            raise NotAMessage
        return self._read(length, deadline_s)

    def close(self) -> None:
        """Close this end; idempotent."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, wanted: int, deadline_s: float | None) -> bytes:
        data = bytearray()
        while len(data) < wanted:
            self._socket.settimeout(_left_s(deadline_s))
            try:
                part = self._socket.recv(min(_READ_BYTES, wanted - len(data)))
            except ConnectionResetError:  # closed with something unread
                part = b""
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def _left_s(deadline_s: float | None) -> float | None:
    if deadline_s is None:
        return None
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
