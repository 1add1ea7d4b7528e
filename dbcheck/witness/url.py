"""Opens a witness by its URL."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded
from dbcheck.remote import address
from dbcheck.remote.address import AS_SSH, SshOptions
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import AgentWitness, FileWitness, SshWitness

_HINT = (
    "A witness is ssh://[user@]host[:port]/folder, where /~/ is the user's home, or "
    "file:FOLDER, where ~/ is yours."
)


def open_witness(
    url: str,
    *,
    limits: WindowLimits | None = None,
    volatile: bool = False,
    options: SshOptions = AS_SSH,
) -> AgentWitness:
    """Return the witness that *url* names, connected to nothing yet.

    volatile accepts a folder in memory: for a lab alone.  The options are for ssh.
    Raise UsageError if the URL is invalid.
    """
    if url.startswith("file:"):
        return FileWitness(
            url, _parse_local_folder(url), limits=limits, volatile=volatile
        )
    host, path = address.parse_ssh_url(url, "a witness", _HINT)
    return SshWitness(
        url,
        host,
        _parse_remote_folder(url, path),
        options=options,
        limits=limits,
        volatile=volatile,
    )


def _parse_local_folder(url: str) -> Path:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError(
            "the URL of a witness cannot be read",
            id=ErrorId.WITNESS_URL_INVALID,
            hint=_HINT,
        ) from None
    if parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"not a folder, or more than that: {address.strip_login(url)!r}",
            id=ErrorId.WITNESS_URL_INVALID,
            hint=_HINT,
        )
    try:
        folder = expanded(_parse_folder(url, unquote(parts.path)))
    except LookupError as error:
        raise UsageError(
            f"no folder in {url!r}: {error.args[0]}",
            id=ErrorId.WITNESS_URL_INVALID,
            hint=_HINT,
        ) from None
    return Path(os.path.abspath(folder))


def _parse_remote_folder(url: str, path: str) -> str:
    folder = os.path.normpath(_parse_folder(url, path))
    if folder == "/":
        raise UsageError(
            f"no folder in {url!r}", id=ErrorId.WITNESS_URL_INVALID, hint=_HINT
        )
    return folder


def _parse_folder(url: str, path: str) -> str:
    if not path or not path.isprintable():
        raise UsageError(
            f"no folder in {url!r}", id=ErrorId.WITNESS_URL_INVALID, hint=_HINT
        )
    return path
