"""The keys by which hosts are known: files in the format of known_hosts.

sshd(8), SSH_KNOWN_HOSTS FILE FORMAT, and hostfile.c of OpenSSH 9.2.  paramiko's own
reader fails at one line that it cannot read, knows no patterns and no markers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertPublicKeyTypes,
    load_ssh_public_key,
)

from dbcheck.base import plain
from dbcheck.remote.sshread import matches_list

_FILE_MAX = 1 << 26  # bytes
_BLANKS = b" \t"
_HASHED = b"|1|"  # HMAC-SHA1, the only kind
_SALT_BYTES = 20
_CHECKED = (
    *(b"ssh-rsa", b"ssh-ed25519"),
    *(b"ecdsa-sha2-nistp%d" % bits for bits in (256, 384, 521)),
)


class Marker(StrEnum):
    """The marker in front of a line: none for a host's own key."""

    NONE = ""
    AUTHORITY = "@cert-authority"
    REVOKED = "@revoked"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """The key in one line.

    kind: its type, as "ssh-ed25519".  blob: the key itself (RFC 4253, 6.6).
    """

    file: Path
    line: int
    marker: Marker
    kind: str
    blob: bytes

    @property
    def place(self) -> str:
        """Return its file and line, for errors."""
        return f"{self.file}, line {self.line}"


@dataclass(slots=True)
class KnownHost:
    """The keys that files have for one host, under one name.

    unread: the lines that name it and whose key cannot be read.
    """

    name: str
    keys: list[KnownKey] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def add(self, file: Path, number: int, marker: Marker, text: bytes) -> None:
        """Take the key of one line: *text* begins with its type."""
        known = _key(file, number, marker, text)
        if known is None:
            self.unread.append(f"{file}, line {number}")
        else:
            self.keys.append(known)

    def of(self, marker: Marker) -> list[KnownKey]:
        """Return the keys with that marker."""
        return [key for key in self.keys if key.marker is marker]

    def find(self, blob: bytes, marker: Marker) -> KnownKey | None:
        """Return the line with that key and marker."""
        return next((key for key in self.of(marker) if key.blob == blob), None)


def name_of(host: str, port: int, alias: str | None) -> str:
    """Return the name under which known_hosts has a host."""
    if alias is not None:
        return alias.lower()
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def listed(file: Path, text: bytes) -> KnownHost:
    """Return the keys of a plain list of public keys, one in a line."""
    found = KnownHost(str(file))
    for number, line in enumerate(text.split(b"\n"), 1):
        key = line.strip(_BLANKS + b"\r")
        if key and not key.startswith(b"#"):
            found.add(file, number, Marker.NONE, key)
    return found


def look_up(name: str, files: Iterable[Path]) -> KnownHost:
    """Return what *files* say about a host by its name, see name_of().

    A file that does not exist says nothing; raise OSError for one that cannot be read.
    """
    found = KnownHost(name)
    for file in files:
        try:
            text = plain.read(file, _FILE_MAX)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file)) from None
        for number, marker, key in _keys_of(name, text):
            found.add(file, number, marker, key)
    return found


def _keys_of(name: str, text: bytes) -> Iterator[tuple[int, Marker, bytes]]:
    """Yield the lines for a host: number, marker, and what follows its names."""
    for number, line in enumerate(text.split(b"\n"), 1):
        rest = line.lstrip(_BLANKS)
        marker = Marker.NONE
        if rest.startswith(b"@"):
            word, rest = _divided(rest)
            try:
                marker = Marker(word.decode())
            except ValueError:
                continue  # also a second one, as in hostfile.c: check_markers()
            if rest.startswith(b"@"):
                continue
        names, key = _divided(rest)
        if names and not names.startswith(b"#") and _names(names, name):
            yield number, marker, key


def _divided(text: bytes) -> tuple[bytes, bytes]:
    """Return the first word, and what follows the blanks behind it."""
    word = text.replace(b"\t", b" ").partition(b" ")[0]
    return word, text[len(word) :].lstrip(_BLANKS)


def _names(names: bytes, name: str) -> bool:
    """Say whether a line's names, which may be patterns or hashed, include *name*."""
    if not names.startswith(b"|"):
        return matches_list(name, names.decode(errors="surrogateescape").lower())
    salt, _, code = names.removeprefix(_HASHED).partition(b"|")
    try:
        key, expected = _decoded(salt), _decoded(code)
    except binascii.Error:
        return False
    if len(key) != _SALT_BYTES or not names.startswith(_HASHED):
        return False
    ours = hmac.digest(key, name.encode(errors="surrogateescape"), hashlib.sha1)
    return hmac.compare_digest(ours, expected)


def _key(file: Path, number: int, marker: Marker, text: bytes) -> KnownKey | None:
    """Return the key of a line, None if it cannot be read."""
    kind, rest = _divided(text)
    word = _divided(rest)[0].rstrip(b"\r\f\v")
    try:
        blob = _decoded(word)
        if kind in _CHECKED:  # others are compared byte by byte all the same
            load_ssh_public_key(kind + b" " + word)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if not blob.startswith(len(kind).to_bytes(4, "big") + kind):
        return None
    return KnownKey(file, number, marker, kind.decode(errors="replace"), blob)


def blob_of(key: SSHCertPublicKeyTypes) -> bytes:
    """Return a public key as it is sent (RFC 4253, 6.6)."""
    text = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return base64.b64decode(text.split()[1])


def _decoded(text: bytes) -> bytes:
    return base64.b64decode(text, validate=True)
