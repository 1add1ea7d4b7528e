"""TCP ports for the lab's servers, which keep theirs while their power is off."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from dbcheck.errors import LabError

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")  # ip(7)
_LOWEST, _HIGHEST = 10_000, 65_535  # below are the ports that services are known by
_TRIES = 100


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing is bound to now.

    The kernel gives none like it to a connection: a server that comes back after a
    cut finds its port free.  (Where the kernel may give any, any is returned.)
    Raise LabError if there is none.
    """
    choice = candidates(_RANGE.read_text())
    for port in random.SystemRandom().sample(choice, min(_TRIES, len(choice))):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise LabError(
        "no free TCP port for a server of the lab",
        hint=f"Look with `ss -tan` who uses those from {_LOWEST} to {_HIGHEST}.",
    )


def candidates(ephemeral: str) -> list[int]:
    """Return the ports to choose from; *ephemeral* is "first last", as in _RANGE."""
    first, last = map(int, ephemeral.split())
    every = range(_LOWEST, _HIGHEST + 1)
    return [port for port in every if not first <= port <= last] or list(every)
