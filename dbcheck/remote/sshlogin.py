"""Logs in over SSH with keys: those of the agent, and those in files.

Keys are offered in the order of ssh(1) (ssh_config(5), IdentityFile, IdentitiesOnly,
IdentityAgent): first the agent's keys that are also in the files, then the agent's
other keys, then the keys that only the files have.  paramiko by itself would ask the
agent of SSH_AUTH_SOCK alone, and offer all of its keys.
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

_KEY_CLASSES = (paramiko.RSAKey, paramiko.ECDSAKey, paramiko.Ed25519Key)
_KEY_TYPE_PREFIXES = (b"ssh-", b"ecdsa-", b"sk-")
# Errors of paramiko for a file, or an answer of an agent, that it does not expect.
_UNREADABLE = (ValueError, IndexError, struct.error, UnsupportedAlgorithm)
_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END = b"-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"  # PROTOCOL.key of OpenSSH


class LockedKey(paramiko.PasswordRequiredException):
    """A passphrase locks a key, and no other logs in; the text names the key's file."""


class BadKey(paramiko.SSHException):
    """A file that should hold a private key holds none; the text names the file."""


class _Agent(AgentSSH):
    """The agent that listens at the socket *path*."""

    def __init__(self, path: Path, limit_s: float) -> None:
        """Ask the agent for its keys; raise OSError, SSHException."""
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

    files:        the files of keys.  A file may be missing, or hold the public half of
                  a key whose private half the agent has.
    certificates: the files of the keys' certificates (ssh_config(5), CertificateFile);
                  without any, those that lie beside *files*.
    agent:        the socket of the agent, None for no agent.
    files_only:   offer no key of the agent that is not among *files*.
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
        in_files = [blob for file in keys.files if (blob := _read_public_key(file))]
        others = [key for key in in_agent if key.asbytes() not in in_files]
        in_both = [
            key for blob in in_files for key in in_agent if key.asbytes() == blob
        ]
        for key in in_both + ([] if keys.files_only else others):
            try:
                return _offer(transport, user, key, certificates)
            except paramiko.SSHException as error:
                refused = _raise_if_final(transport, error)
        tried = [key.asbytes() for key in in_both]
        for file in keys.files:
            try:
                private = _read_private_key(file)
                if private is not None and private.asbytes() not in tried:
                    return _offer(transport, user, private, certificates)
            except paramiko.PasswordRequiredException:
                locked = locked if _read_public_key(file) in tried else file
            except paramiko.AuthenticationException as error:
                refused = _raise_if_final(transport, error)
            except paramiko.SSHException as error:  # the key is bad, not the host
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
    """Log in with a certificate of *key*, or with the key; raise SSHException."""
    of_key = [path for blob, path in certificates if blob == key.asbytes()]
    for path in of_key:
        key.load_certificate(str(path))
        try:
            return _authenticate(transport, user, key)
        except paramiko.SSHException as error:
            _raise_if_final(transport, error)
    if of_key:
        key.public_blob = None
    return _authenticate(transport, user, key)


def _authenticate(transport: paramiko.Transport, user: str, key: paramiko.PKey) -> None:
    if further_methods := transport.auth_publickey(user, key):
        raise paramiko.BadAuthenticationType(
            "more than a key is asked for", further_methods
        )


def _read_certificates(files: Sequence[Path]) -> list[tuple[bytes, Path]]:
    """Return the files that hold certificates, each with the key that it certifies."""
    certificates = []
    for file in files:
        with contextlib.suppress(OSError, *_UNREADABLE):
            public = load_ssh_public_identity(
                plain.read_regular(file, plain.SECRET_MAX)
            )
            if isinstance(public, SSHCertificate):
                certificates.append((encode_key(public.public_key()), file))
    return certificates


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
            connected = _Agent(agent, limit_s)
            stack.callback(connected.close)
            return list(connected.get_keys())
    return []


def _read_private_key(file: Path) -> paramiko.PKey | None:
    """Return the key in a file, None if there is none.

    Raise BadKey for a file that holds no private key, PasswordRequiredException.
    """
    try:
        plain.require_regular(file, plain.SECRET_MAX)
    except OSError:
        return None
    failure = paramiko.SSHException(f"no private key in {file}")
    for kind in _KEY_CLASSES:
        try:
            return kind.from_private_key_file(str(file))
        except paramiko.PasswordRequiredException:
            raise
        except paramiko.SSHException as error:
            failure = error
        except (OSError, *_UNREADABLE):
            continue
    raise BadKey(f"{file}: {failure}")


def _read_public_key(file: Path) -> bytes:
    """Return the public half of the key in a file, b"" if it cannot be read.

    It is read from *file*, even if a passphrase locks that, or from the file of the
    same name with .pub.
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
        # Skipped: the cipher, the function that makes its key, that function's options.
        for _ in ("cipher", "how to make its key", "options of that"):
            parts.get_string()
        return parts.get_string() if parts.get_int() == 1 else b""
    words = text.split()
    is_public = len(words) > 1 and words[0].startswith(_KEY_TYPE_PREFIXES)
    return base64.b64decode(words[1]) if is_public else b""
