"""Checks that a server answers, and that it is the one that was meant.

A load balancer, a proxy or a name with several addresses may lead one connection to a
server and the next to another.  So each connection that matters is checked itself.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, OtherServer
from dbcheck.model.server import ServerFacts
from dbcheck.server_log.startlog import NAMES

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


@dataclass(frozen=True, slots=True)
class Answering:
    """What a server reports about itself over one connection.

    started_us, identity: as in ServerFacts; of the latter what is known here.
    standby: it follows another server.
    """

    started_us: int
    standby: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)


def require_same(target: str, server: ServerFacts, found: Answering) -> None:
    """Raise OtherServer if *found* is not the same process of the same *server*.

    target: how error messages name the address that leads to it.
    """
    if why := _difference(server, found):
        raise OtherServer(
            f"two connections to {target} reached different servers ({why}): there is a"
            " load balancer or proxy in between, or the server restarted",
            id=ErrorId.DIFFERENT_SERVERS_ANSWER,
            hint="Connect to the server directly, without a load balancer or proxy.",
        )


def _difference(server: ServerFacts, found: Answering) -> str:
    """Return in what they differ, "" if in nothing that is known of both."""
    for name in sorted(server.identity.keys() & found.identity.keys()):
        now, before = found.identity[name], server.identity[name]
        if now != before:
            return f"{name} is {now} instead of {before}"
    apart_us = found.started_us - server.started_us
    if abs(apart_us) > 2 * server.started_error_us:
        later = "later" if apart_us > 0 else "earlier"
        return f"it started {abs(apart_us) / 1e6:.6g} s {later}"
    return "it is a standby" if found.standby and not server.may_follow else ""


def accepts(endpoints: Callable[[], Iterable[tuple[str, int]]]) -> bool:
    """Return whether one of these addresses accepts a connection.

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
    """Return whether a connection failed because the host is off or the port closed."""
    # Where it is Python's own limit, it has no number.
    return isinstance(error, TimeoutError) or getattr(error, "errno", None) in _OFF


def log_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of the settings that a server's log names when it starts."""
    return {name: settings[name] for name in NAMES if settings.get(name)}
