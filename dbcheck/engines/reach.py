"""Whether anything listens at the address of a server, whatever it would answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import sqlalchemy.engine

_CONNECT_S = 2.0


def accepts(url: sqlalchemy.engine.URL, default_port: int) -> bool:
    """Return whether a connection to one of the hosts of *url* is accepted.

    Of a path to a socket that is not known, so it counts as accepted: whoever asks
    must not take the server for one that is off.
    """
    for host, port in _addresses(url, default_port):
        if host.startswith("/"):
            return True
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), _CONNECT_S).close()
            return True
    return False


def _addresses(
    url: sqlalchemy.engine.URL, default_port: int
) -> Iterator[tuple[str, int]]:
    """Yield what libpq and MySQL's driver would connect to."""
    query = url.query
    for name in ("unix_socket", "hostaddr", "host"):
        found = query.get(name, ())
        for text in (found,) if isinstance(found, str) else found:
            for one in text.split(","):
                host, _, port = one.partition(":")
                yield host, int(port) if port.isdigit() else url.port or default_port
    if url.host or not query:
        yield url.host or "localhost", url.port or default_port
