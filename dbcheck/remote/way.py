"""From the URL of a host to the way there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dbcheck.errors import UsageError
from dbcheck.remote.channel import Pipe
from dbcheck.remote.child import run_here

LOCAL = "local:"  # the URL of this host


@dataclass(frozen=True, slots=True)
class Way:
    """How to start a program on one host, see ssh.py and child.py.

    run:   starts a Python there that waits for its program; raises HostError.
    close: ends the connection; run() makes a new one.
    """

    url: str
    run: Callable[[bytes], Pipe]
    close: Callable[[], None] = lambda: None


def way_to(
    url: str,
    *,
    accept_new_host_key: bool | None = None,
    identity_file: Path | None = None,
    known_hosts: Path | None = None,
    config_file: Path | None = None,
) -> Way:
    """Return the way to *url*: ssh://[user@]host[:port], or "local:" for this host.

    Nothing is connected yet.  The options are those of sshconnect.SshOptions.
    Raise UsageError if the URL makes no sense.
    """
    if url == LOCAL:
        return Way(url, run_here)
    kind, _, address = url.partition("://")
    if kind != "ssh":
        shown = url.rpartition("@")[2]  # before it, there may be a password
        raise UsageError(
            f"not a host: {shown!r}",
            hint="A host is ssh://[user@]host[:port] or local:.",
        )
    # paramiko takes 100 ms to import.
    from dbcheck.remote.ssh import SshHost
    from dbcheck.remote.sshconnect import USER_CONFIG, Address, SshOptions

    options = SshOptions(
        accept_new_host_key=accept_new_host_key,
        identity_file=identity_file,
        known_hosts=known_hosts,
        config_file=config_file or USER_CONFIG,
    )
    host = SshHost(url, Address.parse(address.rstrip("/")), options)
    return Way(url, host.run, host.close)
