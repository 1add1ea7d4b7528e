"""Whether anything listens at the address of a server, whatever it would answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable

_CONNECT_S = 2.0


def accepts(endpoints: Iterable[tuple[str, int]]) -> bool:
    """Return whether a connection to one of these hosts and ports is accepted.

    Of a socket file ("") that is not known, so it counts as accepted: whoever asks
    must not take the server for one that is off.
    """
    for host, port in endpoints:
        if not host:
            return True
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), _CONNECT_S).close()
            return True
    return False
