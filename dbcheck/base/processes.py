"""Starts child processes, and passes messages between processes of this machine.

The working directory may belong to another user, so no child imports or runs a file
from there.  A child inherits no secret that it does not need.

A message is its length, four bytes in network order, and then its bytes.
multiprocessing.connection would do the same, but takes 15 ms to import, a sixth of the
time in which the process of a lab's drive starts, and waits without limit for the rest
of a message.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Self

PYTHON = sys.executable
LIBPQ_PASSWORD = "PGPASSWORD"
# Variables from which dbcheck, libpq and MySQL's clients read the password.
_PASSWORD_VARIABLES = frozenset({"DBCHECK_PASSWORD", LIBPQ_PASSWORD, "MYSQL_PWD"})
_IF_PARENT_IS_ALIVE = '[ "$PPID" = "$0" ] && exec "$@"'
_other_secret_variables: set[str] = set()
_switch_variables: set[str] = set()


def make_module_command(name: str, *arguments: str, python: str = "") -> list[str]:
    """Return the command line that runs a module of dbcheck's own, or of *python*'s.

    -P, as `python -m` otherwise imports from the working directory first.
    Not -I: dbcheck may have been found by PYTHONPATH, or in the user's own packages.
    """
    return [python or PYTHON, "-P", "-m", name, *arguments]


def make_standalone_command(code: str, python: str = PYTHON) -> list[str]:
    """Return the command line that runs *code*, which needs the standard library alone.

    -I and -S: nothing of the environment, the working directory or site-packages.
    """
    return [python, "-I", "-S", "-c", code]


def withhold_variable(variable: str, *, of_switch: bool = False) -> None:
    """Note that a variable holds a secret: of the database, or of a power switch."""
    (_switch_variables if of_switch else _other_secret_variables).add(variable)


def list_switch_variables() -> frozenset[str]:
    """Return the variables that hold only secrets of power switches."""
    return frozenset(_switch_variables - _other_secret_variables - _PASSWORD_VARIABLES)


def list_secret_values() -> set[str]:
    """Return the values of the variables that hold secrets."""
    names = _PASSWORD_VARIABLES | _other_secret_variables | _switch_variables
    return {value for name in names if (value := os.environ.get(name))}


def make_environment(keep: Container[str] = ()) -> dict[str, str]:
    """Return our environment without the variables that hold secrets.

    keep: the secret variables that the child needs.
    """
    secret = _PASSWORD_VARIABLES | _other_secret_variables | _switch_variables
    kept = {k: v for k, v in os.environ.items() if k not in secret or k in keep}
    return {**kept, "PATH": make_search_path()}


def die_with_parent(command: Sequence[str], parent: int | None = None) -> list[str]:
    """Return *command* such that it is killed when the thread that starts it ends.

    The kernel clears the death signal (prctl(2), PR_SET_PDEATHSIG) when the account
    changes, so setpriv sets it afterwards; the shell then checks whether the parent
    ended in between.  The command runs under the id of the process that is started.
    parent: this process's id for the command, if it is in another pid namespace.
    """
    setpriv = ("setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", _IF_PARENT_IS_ALIVE)
    return [*setpriv, str(os.getpid() if parent is None else parent), *command]


def make_search_path() -> str:
    """Return PATH without folders that depend on the working directory ("", ".")."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    absolute = [folder for folder in folders if os.path.isabs(folder)]
    return os.pathsep.join(absolute) or os.defpath


MESSAGE_BYTES_MAX = 1 << 28
_LENGTH = struct.Struct("!I")
_READ_BYTES = 1 << 16


class NotAMessage(Exception):
    """A message is too long: another program is at the other end."""


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
        """Return one end, and the other end for a child process, see inherited()."""
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
        """Return the descriptor, which is readable once a message or the end comes."""
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
        received = bytearray()
        while len(received) < wanted:
            self._socket.settimeout(_left_s(deadline_s))
            try:
                part = self._socket.recv(min(_READ_BYTES, wanted - len(received)))
            except ConnectionResetError:  # the other end closed with something unread
                part = b""
            if not part:
                raise EOFError
            received += part
        return bytes(received)


def _left_s(deadline_s: float | None) -> float | None:
    if deadline_s is None:
        return None
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
