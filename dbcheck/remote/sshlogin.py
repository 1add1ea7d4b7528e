"""Logs in over SSH with keys: those of the agent, and those in files.

As ssh(1) does (ssh_config(5), IdentityFile, IdentitiesOnly, IdentityAgent): first what
the agent has of the files' keys, then what else it has, then the files themselves.
paramiko asks but the agent of SSH_AUTH_SOCK, and offers all that this one has.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    SSHCertificate,
    load_ssh_public_identity,
)
from paramiko.agent import AgentKey, AgentSSH
from paramiko.message import Message

from dbcheck.base import plain
from dbcheck.remote.hostkeys import encode_key

_KINDS = (paramiko.RSAKey, paramiko.ECDSAKey, paramiko.Ed25519Key)
_TYPES = (b"ssh-", b"ecdsa-", b"sk-")
# What paramiko raises for a file that is not what it expects, or an agent's answer.
_UNREADABLE = (ValueError, IndexError, struct.error, UnsupportedAlgorithm)
_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END = b"-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"  # PROTOCOL.key of OpenSSH


class LockedKey(paramiko.PasswordRequiredException):
    """A passphrase locks the only key that is left; the text names its file."""


class BadKey(paramiko.SSHException):
    """A file that is to hold a private key holds none; the text names it."""


class _Agent(AgentSSH):
    """An agent at a socket of a given name."""

    def __init__(self, path: Path, limit_s: float) -> None:
        """Ask it for its keys; raise OSError, SSHException."""
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(limit_s)
        try:
            self._socket.connect(str(path))
            self._connect(self._socket)  # type: ignore[attr-defined]
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that dbcheck may offer to a host.

    files:        they may not exist, or hold public keys, of which the agent has the
                  other half.
    certificates: of those keys (ssh_config(5), CertificateFile); if there are none,
                  those that lie beside the files.
    agent:        its socket.
    files_only:   offer no key of the agent's that is not among *files*.
    """

    files: Sequence[Path]
    certificates: Sequence[Path] = ()
    agent: Path | None = None
    files_only: bool = False


def log_in(
    transport: paramiko.Transport, user: str, keys: Keys, limit_s: float
) -> None:
    """Log in with one of *keys*; raise LockedKey, BadKey, SSHException, EOFError."""
    refused: paramiko.SSHException | None = None
    locked: Path | None = None
    beside = [Path(f"{file}-cert.pub") for file in keys.files]
    certificates = _read_certificates(keys.certificates or beside)
    with ExitStack() as stack:
        in_agent = _list_agent_keys(keys.agent, stack, limit_s)
        named = [blob for file in keys.files if (blob := _read_public_key(file))]
        unnamed = [key for key in in_agent if key.asbytes() not in named]
        chosen = [key for blob in named for key in in_agent if key.asbytes() == blob]
        for key in chosen + ([] if keys.files_only else unnamed):
            try:
                return _offer(transport, user, key, certificates)
            except paramiko.SSHException as error:
                refused = _raise_if_final(transport, error)
        tried = [key.asbytes() for key in chosen]
        for file in keys.files:
            try:
                own = _read_private_key(file)
                if own is not None and own.asbytes() not in tried:
                    return _offer(transport, user, own, certificates)
            except paramiko.PasswordRequiredException:
                locked = locked if _read_public_key(file) in tried else file
            except paramiko.AuthenticationException as error:
                refused = _raise_if_final(transport, error)
            except paramiko.SSHException as error:  # of the key, not of the host
                refused = refused or error
    if locked is not None:
        raise LockedKey(str(locked))
    raise refused or paramiko.AuthenticationException("there is no key to log in with")


def _offer(
    transport: paramiko.Transport,
    user: str,
    key: paramiko.PKey,
    certificates: Sequence[tuple[bytes, Path]],
) -> None:
    """Log in with a certificate of *key*, or with itself; raise SSHException."""
    own = [path for blob, path in certificates if blob == key.asbytes()]
    for path in own:
        key.load_certificate(str(path))
        try:
            return _ask(transport, user, key)
        except paramiko.SSHException as error:
            _raise_if_final(transport, error)
    if own:
        key.public_blob = None
    return _ask(transport, user, key)


def _ask(transport: paramiko.Transport, user: str, key: paramiko.PKey) -> None:
    if left := transport.auth_publickey(user, key):
        raise paramiko.BadAuthenticationType("more than a key is asked for", left)


def _read_certificates(files: Sequence[Path]) -> list[tuple[bytes, Path]]:
    """Return the certificates that can be read, each with the key that it is of."""
    found = []
    for file in files:
        with contextlib.suppress(OSError, *_UNREADABLE):
            shown = load_ssh_public_identity(plain.read_regular(file, plain.SECRET_MAX))
            if isinstance(shown, SSHCertificate):
                found.append((encode_key(shown.public_key()), file))
    return found


def _raise_if_final(
    transport: paramiko.Transport, error: paramiko.SSHException
) -> paramiko.SSHException:
    """Raise *error* if no other key can be offered; else return it."""
    if isinstance(error, paramiko.BadAuthenticationType) or not transport.is_active():
        raise error
    return error


def _list_agent_keys(
    agent: Path | None, stack: ExitStack, limit_s: float
) -> list[AgentKey]:
    """Return the keys of the agent; none if it does not answer, as for ssh(1)."""
    if agent is not None:
        with contextlib.suppress(OSError, paramiko.SSHException, *_UNREADABLE):
            asked = _Agent(agent, limit_s)
            stack.callback(asked.close)
            return list(asked.get_keys())
    return []


def _read_private_key(file: Path) -> paramiko.PKey | None:
    """Return the key in a file, None if there is none.

    Raise BadKey for a file that holds no private key, PasswordRequiredException.
    """
    try:
        plain.require_regular(file, plain.SECRET_MAX)
    except OSError:
        return None
    failed = paramiko.SSHException(f"no private key in {file}")
    for kind in _KINDS:
        try:
            return kind.from_private_key_file(str(file))
        except paramiko.PasswordRequiredException:
            raise
        except paramiko.SSHException as error:
            failed = error
        except (OSError, *_UNREADABLE):
            continue
    raise BadKey(f"{file}: {failed}")


def _read_public_key(file: Path) -> bytes:
    """Return the public half of the key in a file, b"" if it cannot be had.

    From the file, also a locked one, or from the one beside it with .pub.
    """
    for path in (file, Path(f"{file}.pub")):
        with contextlib.suppress(OSError, *_UNREADABLE):
            if blob := _parse_public_key(plain.read_regular(path, plain.SECRET_MAX)):
                return blob
    return b""


def _parse_public_key(text: bytes) -> bytes:
    if text.startswith(_BEGIN):
        body = base64.b64decode(text.removeprefix(_BEGIN).partition(_END)[0])
        if not body.startswith(_MAGIC):
            return b""
        parts = Message(body.removeprefix(_MAGIC))
        for _ in ("cipher", "how to make its key", "options of that"):
            parts.get_string()
        return parts.get_string() if parts.get_int() == 1 else b""
    words = text.split()
    is_public = len(words) > 1 and words[0].startswith(_TYPES)
    return base64.b64decode(words[1]) if is_public else b""
