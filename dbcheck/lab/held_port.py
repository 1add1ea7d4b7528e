"""TCP ports for the lab's servers, which keep theirs while their power is off."""

from __future__ import annotations

import random
import socket
import weakref
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")  # ip(7)
_LOWEST, _HIGHEST = 10_000, 65_535  # below are the ports that services are known by
_TRIES = 100


class HeldPort:
    """A TCP port of 127.0.0.1 that is kept for one server as long as this lives.

    A socket is bound to it and never listens, so a connection is refused until the
    server listens.  While the port is lent, its address may be used again
    (SO_REUSEADDR, socket(7)), which lets in a server that allows the same, as
    PostgreSQL, mysqld, mariadbd, Galera, rsync, sshd and asyncio do, and any other
    user's that does.  Whoever looks for a port that is free, as another lab does, finds
    this one taken, and the kernel gives it to no connection.

    number: of the port.
    """

    def __init__(self, *, lent: bool = True) -> None:
        """Take a port that nothing is bound to; raise LabError if there is none."""
        self._socket = _bind_socket()
        self.number: int = self._socket.getsockname()[1]
        if lent:
            self.lend()
        weakref.finalize(self, self._socket.close)

    def lend(self) -> None:
        """Let a server have the port."""
        self._allow(1)

    def keep(self) -> None:
        """Let nobody have the port any more, but for a server that has it."""
        self._allow(0)

    def _allow(self, reuse: int) -> None:
        """Set what the kernel asks whenever another socket is to have the address.

        It goes by what is set then, and not as the port was taken: nobody was allowed
        to use it again then (Linux 6.1, inet_csk_bind_conflict).
        """
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)


def _bind_socket() -> socket.socket:
    """Return a socket that alone is bound to a port, as SO_REUSEADDR is not yet set."""
    choice = list_candidates(_RANGE.read_text())
    for port in random.SystemRandom().sample(choice, min(_TRIES, len(choice))):
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
            continue
        return probe
    raise LabError(
        "no free TCP port for a server of the lab",
        id=ErrorId.NO_FREE_PORT,
        hint=f"`ss -tan` shows which processes use ports {_LOWEST} to {_HIGHEST}.",
    )


def list_candidates(ephemeral: str) -> list[int]:
    """Return the ports to choose from; *ephemeral* is "first last", as in _RANGE."""
    first, last = map(int, ephemeral.split())
    every = range(_LOWEST, _HIGHEST + 1)
    return [port for port in every if not first <= port <= last] or list(every)
