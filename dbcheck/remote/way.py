"""From the URL of a host to the way there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.remote.address import AS_SSH, SshOptions, parse_ssh_url
from dbcheck.remote.channel import Pipe
from dbcheck.remote.child import run_here

LOCAL = "local:"  # the URL of this host
_HINT = "A host is ssh://[user@]host[:port] or local:."


@dataclass(frozen=True, slots=True)
class Way:
    """How to start a program on one host, see ssh.py and child.py.

    run:   starts a Python there that waits for its program; raises HostError.
    close: ends the connection; run() makes a new one.
    """

    url: str
    run: Callable[[bytes], Pipe]
    close: Callable[[], None] = lambda: None


def way_to(url: str, options: SshOptions = AS_SSH) -> Way:
    """Return the way to *url*: ssh://[user@]host[:port], or "local:" for this host.

    Nothing is connected yet.  Raise UsageError if the URL is invalid.
    """
    if url == LOCAL:
        return Way(url, run_here)
    address, path = parse_ssh_url(url, "a host", _HINT)
    if path.strip("/"):
        raise UsageError(
            f"a path after the host in {url!r}",
            id=ErrorId.HOST_ADDRESS_INVALID,
            hint=_HINT,
        )
    # paramiko takes 100 ms to import, and this host does not need it.
    from dbcheck.remote.ssh import SshHost

    host = SshHost(url, address, options)
    return Way(url, host.run, host.close)
