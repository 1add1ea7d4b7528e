"""From the URL of a witness to the witness."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from dbcheck.errors import UsageError
from dbcheck.witness.base import AgentWitness
from dbcheck.witness.window import WindowLimits

_HINT = (
    "A witness is ssh://[user@]host[:port]/folder, where /~/ is the user's home, or "
    "file:FOLDER."
)


def open_witness(
    url: str,
    *,
    limits: WindowLimits | None = None,
    volatile: bool = False,
    accept_new_host_key: bool | None = None,
    identity_file: Path | None = None,
    known_hosts: Path | None = None,
    config_file: Path | None = None,
) -> AgentWitness:
    """Return the witness that *url* names, connected to nothing yet.

    volatile accepts a folder in memory: for a lab alone.  The last four are for
    ssh, see SshOptions; a lab names an empty config_file, /dev/null.  Raise
    UsageError if the URL makes no sense.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only when asked for
    except ValueError:  # whose words may hold a part of a password
        raise UsageError("the URL of the witness cannot be read", hint=_HINT) from None
    if parts.password is not None:  # say nothing that could show it
        raise UsageError(
            "a witness's URL must hold no password",
            hint="Log in with a key; `ssh-add` unlocks one.",
        )
    if parts.scheme == "file":
        from dbcheck.witness.file import FileWitness

        return FileWitness(url, _local(url, parts), limits=limits, volatile=volatile)
    if parts.scheme != "ssh":
        shown = url.rpartition("@")[2]  # before it, there may be a password
        raise UsageError(f"not a witness: {shown!r}", hint=_HINT)
    # paramiko takes 100 ms to import, and a file witness does not need it.
    from dbcheck.remote.sshconnect import USER_CONFIG, Address, SshOptions
    from dbcheck.witness.ssh import SshWitness

    if not parts.hostname:
        raise UsageError(f"no host in {url!r}", hint=_HINT)
    return SshWitness(
        url,
        Address(parts.hostname, unquote(parts.username or "") or None, parts.port),
        _remote(url, parts),
        options=SshOptions(
            accept_new_host_key=accept_new_host_key,
            identity_file=identity_file,
            known_hosts=known_hosts,
            config_file=config_file or USER_CONFIG,
        ),
        limits=limits,
        volatile=volatile,
    )


def _local(url: str, parts: SplitResult) -> Path:
    if parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"not a folder: {url!r}", hint=_HINT)
    return Path(os.path.abspath(_folder(url, parts)))


def _remote(url: str, parts: SplitResult) -> str:
    if parts.query or parts.fragment:
        raise UsageError(f"not a folder: {url!r}", hint=_HINT)
    folder = os.path.normpath(_folder(url, parts))
    if folder == "/":
        raise UsageError(f"no folder in {url!r}", hint=_HINT)
    return folder


def _folder(url: str, parts: SplitResult) -> str:
    folder = unquote(parts.path)
    if not folder or not folder.isprintable():
        raise UsageError(f"no folder in {url!r}", hint=_HINT)
    return folder
