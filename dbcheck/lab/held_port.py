"""TCP ports for the lab's servers, kept for them while their power is off."""

from __future__ import annotations

import random
import socket
import weakref
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")  # ip(7)
_LOWEST, _HIGHEST = 10_000, 65_535  # below are the ports that services are known by
_TRIES = 100


class HeldPort:
    """A TCP port of 127.0.0.1 that is kept for one server as long as this object lives.

    A socket is bound to the port and never listens, so a connection is refused until
    the server listens.  While the port is lent, its address may be used again
    (SO_REUSEADDR, socket(7)) by any server, also another user's, that sets the same
    option, as PostgreSQL, mysqld, mariadbd, Galera, rsync, sshd and asyncio do.  A
    process that looks for a free port, as another lab does, finds this one taken, and
    the kernel gives it to no connection.

    number: the number of the port.
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
        self._set_reuse(1)

    def keep(self) -> None:
        """Let no server take the port; a server that has it already keeps it."""
        self._set_reuse(0)

    def _set_reuse(self, reuse: int) -> None:
        """Set SO_REUSEADDR, which the kernel looks at when another socket is bound.

        The value at that moment counts, and not the value at which this socket was
        bound, which let nobody else have the port (Linux 6.1, inet_csk_bind_conflict).
        """
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)


def _bind_socket() -> socket.socket:
    """Return a socket that is the only one on its port: it has no SO_REUSEADDR yet."""
    candidates = list_candidates(_EPHEMERAL_RANGE.read_text())
    for port in random.SystemRandom().sample(candidates, min(_TRIES, len(candidates))):
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
    """Return the ports to choose from, without those that the kernel gives clients.

    ephemeral: the kernel's ports as "FIRST LAST".  If they are all, return all ports.
    """
    first, last = map(int, ephemeral.split())
    ports = range(_LOWEST, _HIGHEST + 1)
    return [port for port in ports if not first <= port <= last] or list(ports)
