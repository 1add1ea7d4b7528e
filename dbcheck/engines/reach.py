"""Whether anything listens at the address of a server, whatever it would answer."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable

from dbcheck.base.errors import DbcheckError

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
    resolve, a client without free descriptors, one address of several that a firewall
    of this machine forbids.
    """
    try:
        return any(_accepts(host, port) for host, port in endpoints())
    except DbcheckError:
        return True


def _accepts(host: str, port: int) -> bool:
    if not host:
        return True
    place = (host, port)
    try:
        socket.create_connection(place, _CONNECT_S, all_errors=True).close()
    except ExceptionGroup as errors:  # one for each address of the host
        return not all(map(_is_off, errors.exceptions))
    except (OSError, UnicodeError):
        pass
    return True


def _is_off(error: Exception) -> bool:
    """Return whether an attempt to connect failed as at a host that is off."""
    # Where it is Python's own limit, it has no number.
    return isinstance(error, TimeoutError) or getattr(error, "errno", None) in _OFF
