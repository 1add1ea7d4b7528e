"""Whether anything listens at the address of a server, whatever it would answer."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable

from dbcheck.errors import DbcheckError

_CONNECT_S = 2.0
# What connect(2) meets at a host that is off, or has no such server.
_OFF = frozenset(
    {
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ETIMEDOUT,
    }
)


def accepts(endpoints: Callable[[], Iterable[tuple[str, int]]]) -> bool:
    """Return whether a connection to one of these hosts and ports is accepted.

    Whoever asks must not take the server for one that is off, so what is not known
    counts as accepted: a socket file (""), endpoints() that fails, a name that does not
    resolve, a client without free descriptors.
    """
    try:
        return any(_accepts(host, port) for host, port in endpoints())
    except DbcheckError:
        return True


def _accepts(host: str, port: int) -> bool:
    if not host:
        return True
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except TimeoutError:  # which has no number where it is Python's own limit
        return False
    except (OSError, UnicodeError) as error:
        return not (isinstance(error, OSError) and error.errno in _OFF)
    return True
