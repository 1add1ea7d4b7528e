"""Verifies a host by the key that it shows: by files in the format of known_hosts.

The format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT, and hostfile.c of OpenSSH 9.2.
paramiko's own reader is not used: it fails at a line that it cannot read, and knows no
patterns and no markers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import paramiko
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    SSHCertPublicKeyTypes,
    load_ssh_public_identity,
    load_ssh_public_key,
)

from dbcheck.base import plain, processes
from dbcheck.base.access import find_own_program
from dbcheck.remote.sshread import matches, matches_list

_FILE_BYTES_MAX = 1 << 26  # bytes
_BLANKS = b" \t"
_HASHED_NAME = b"|1|"  # begins a name hashed by HMAC-SHA1, the only kind
_SALT_BYTES = 20
_PARSED_TYPES = (
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

    kind: the type of the key, as "ssh-ed25519".  blob: the key itself (RFC 4253, 6.6).
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

    unread: the lines that name the host and whose key cannot be read.
    """

    name: str
    keys: list[KnownKey] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def add(self, file: Path, number: int, marker: Marker, text: bytes) -> None:
        """Add the key of one line: *text* begins with the type of the key."""
        known = _parse_key(file, number, marker, text)
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


def make_known_hosts_name(host: str, port: int, alias: str | None) -> str:
    """Return the name under which known_hosts has a host."""
    if alias is not None:
        return alias.lower()
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def parse_key_list(file: Path, text: bytes) -> KnownHost:
    """Return the keys of a plain list of public keys, one in a line."""
    known_host = KnownHost(str(file))
    for number, line in enumerate(text.split(b"\n"), 1):
        key = line.strip(_BLANKS + b"\r")
        if key and not key.startswith(b"#"):
            known_host.add(file, number, Marker.NONE, key)
    return known_host


def look_up_host(name: str, files: Iterable[Path]) -> KnownHost:
    """Return the keys in *files* of a host's name, see make_known_hosts_name().

    A missing file has no keys; raise OSError if a file cannot be read.
    """
    known_host = KnownHost(name)
    for file in files:
        try:
            text = plain.read_regular(file, _FILE_BYTES_MAX)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file)) from None
        for number, marker, key in _find_lines(name, text):
            known_host.add(file, number, marker, key)
    return known_host


def _find_lines(name: str, text: bytes) -> Iterator[tuple[int, Marker, bytes]]:
    """Yield the lines for a host: number, marker, and what follows its names."""
    for number, line in enumerate(text.split(b"\n"), 1):
        rest = line.lstrip(_BLANKS)
        marker = Marker.NONE
        if rest.startswith(b"@"):
            word, rest = _split_first_word(rest)
            try:
                marker = Marker(word.decode())
            except ValueError:
                continue  # also a second one, as in hostfile.c: check_markers()
            if rest.startswith(b"@"):
                continue
        names, key = _split_first_word(rest)
        if names and not names.startswith(b"#") and _includes_name(names, name):
            yield number, marker, key


def _split_first_word(text: bytes) -> tuple[bytes, bytes]:
    """Return the first word, and what follows the blanks behind it."""
    word = text.replace(b"\t", b" ").partition(b" ")[0]
    return word, text[len(word) :].lstrip(_BLANKS)


def _includes_name(names: bytes, name: str) -> bool:
    """Return True if a line's names, some as patterns or hashes, include *name*."""
    if not names.startswith(b"|"):
        return matches_list(name, names.decode(errors="surrogateescape").lower())
    salt, _, code = names.removeprefix(_HASHED_NAME).partition(b"|")
    try:
        key, expected = _decode(salt), _decode(code)
    except binascii.Error:
        return False
    if len(key) != _SALT_BYTES or not names.startswith(_HASHED_NAME):
        return False
    ours = hmac.digest(key, name.encode(errors="surrogateescape"), hashlib.sha1)
    return hmac.compare_digest(ours, expected)


def _parse_key(file: Path, number: int, marker: Marker, text: bytes) -> KnownKey | None:
    """Return the key of a line, None if it cannot be read."""
    kind, rest = _split_first_word(text)
    word = _split_first_word(rest)[0].rstrip(b"\r\f\v")
    try:
        blob = _decode(word)
        if kind in _PARSED_TYPES:  # keys of other types are only compared byte by byte
            load_ssh_public_key(kind + b" " + word)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if not blob.startswith(len(kind).to_bytes(4, "big") + kind):
        return None
    return KnownKey(file, number, marker, kind.decode(errors="replace"), blob)


def encode_key(key: SSHCertPublicKeyTypes) -> bytes:
    """Return a public key as it is sent (RFC 4253, 6.6)."""
    text = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return base64.b64decode(text.split()[1])


def _decode(text: bytes) -> bytes:
    return base64.b64decode(text, validate=True)


log = logging.getLogger(__name__)
_CERTIFICATE = "-cert-v01@openssh.com"
_RSA = "ssh-rsa"  # a key of this type signs in one of the ways below
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
_REVOCATION_LIST = b"SSHKRL\n\0"  # PROTOCOL.krl of OpenSSH
_LIST_BYTES_MAX = 1 << 26  # bytes
_KEYGEN_S = 30.0  # seconds


class UnknownHostKey(paramiko.SSHException):
    """A host showed a key, and no key of it is known; the text is the shown key."""


class ChangedHostKey(paramiko.SSHException):
    """A host showed another key than the known one; the text is the shown key.

    known: where the known key stands, and how to remove it.
    """

    def __init__(self, shown: str, known: KnownHost) -> None:
        """known: the lines with keys of that host."""
        super().__init__(shown)
        keys = known.of(Marker.NONE)
        lines = ", ".join(key.place for key in keys)
        command = ("ssh-keygen", "-R", known.name, "-f", str(keys[0].file))
        self.known = f"{lines} (`{shlex.join(command)}`)"


class RefusedHostKey(paramiko.SSHException):
    """A host showed a key that a file revokes, or a certificate that is not valid."""

    hint = "Ask who runs that host for its new key or certificate."


class UnreadableList(RefusedHostKey):
    """A list of revoked keys cannot be read: then no key is trusted, as by ssh(1)."""

    hint = "Correct that file, or name another by RevokedHostKeys in ssh_config."


@dataclass(frozen=True, slots=True)
class Trust:
    """The keys and names by which a host is recognised.

    host:    the keys under its name with its port.
    bare: the keys under its name without the port; they count if there are no others.
    subject: its name in a certificate.
    store:   where to add the key of an unknown host; None: it is refused.
    revoked: further lists of keys to refuse (ssh_config(5), RevokedHostKeys).
    """

    host: KnownHost
    bare: KnownHost
    subject: str
    store: Path | None
    revoked: Sequence[Path]

    def order(self, types: Sequence[str]) -> list[str]:
        """Return the types of keys to ask a host for: first those of its known keys."""
        kinds = {key.kind for key in self.host.of(Marker.NONE)}
        if _RSA in kinds:
            kinds.update(_RSA_SIGNATURES)
        keys = [name for name in types if not name.endswith(_CERTIFICATE)]
        keys.sort(key=lambda name: name not in kinds)
        if not self.host.of(Marker.AUTHORITY) + self.bare.of(Marker.AUTHORITY):
            return keys
        return [f"{name}{_CERTIFICATE}" for name in keys] + keys

    def require(self, key: paramiko.PKey) -> None:
        """Raise one of the errors above unless *key* is the host's.

        As check_host_key() in sshconnect.c of OpenSSH 9.2 does with
        StrictHostKeyChecking, which is not read from the configuration.
        """
        certificate = _find_certificate(key)
        blob = key.asbytes()
        for known in (self.host, self.bare):
            _require_not_in(known, blob)
        for file in self.revoked:
            _require_not_revoked(file, blob, certificate)
        if certificate is not None and self._is_certified(certificate):
            return
        if self.host.find(blob, Marker.NONE):
            return
        shown = f"{key.get_name()} {key.fingerprint}"
        if self.host.of(Marker.NONE):
            raise ChangedHostKey(shown, self.host)
        if self.bare.find(blob, Marker.NONE):
            return
        if self.store is None:
            raise UnknownHostKey(shown)
        _append_line(
            self.store, f"{self.host.name} {key.get_name()} {key.get_base64()}\n"
        )
        log.info("stored the host key of %s in %s", self.host.name, self.store)

    def _is_certified(self, certificate: SSHCertificate) -> bool:
        """Return True if a known certificate authority has signed the host's key."""
        authority = encode_key(certificate.signature_key())
        for known in (self.host, self.bare):
            _require_not_in(known, authority)
        if not any(
            known.find(authority, Marker.AUTHORITY) for known in (self.host, self.bare)
        ):
            return False
        if why := _find_fault(certificate, self.subject):
            raise RefusedHostKey(f"its certificate {why}")
        return True


def _require_not_in(known: KnownHost, blob: bytes) -> None:
    if revoked := known.find(blob, Marker.REVOKED):
        raise RefusedHostKey(f"its key is revoked in {revoked.place}")


def _find_certificate(key: paramiko.PKey) -> SSHCertificate | None:
    """Return the certificate that the host showed, None if it showed a key alone."""
    shown = key.public_blob
    if shown is None:
        return None
    try:
        text = f"{shown.key_type} {base64.b64encode(shown.key_blob).decode()}"
        identity = load_ssh_public_identity(text.encode())
        if isinstance(identity, SSHCertificate) and encode_key(
            identity.public_key()
        ) == (key.asbytes()):
            return identity
    except (ValueError, UnsupportedAlgorithm):
        pass
    raise RefusedHostKey("its certificate cannot be read")


def _find_fault(certificate: SSHCertificate, subject: str) -> str:
    """Return the fault of a host's certificate, "" if it has none.

    As sshkey_cert_check_host() in sshkey.c of OpenSSH 10.5: a certificate without a
    list of hosts is none, and patterns are allowed.
    """
    hosts = [name.decode(errors="replace") for name in certificate.valid_principals]
    if certificate.type is not SSHCertificateType.HOST:
        return "is for a user and not for a host"
    if not certificate.valid_after <= time.time() < certificate.valid_before:
        return "is not valid at this time"
    if not any(matches(subject, host) for host in hosts):
        return f"is not for {subject}"
    if certificate.critical_options:
        return "has an option that dbcheck does not know"
    signer = certificate.signature_key()
    if isinstance(signer, RSAPublicKey):
        # The signature is the last string, after its type.  SHA-1 is refused, as by the
        # default of CASignatureAlgorithms.
        rest = certificate.public_bytes().split()[1]
        size = (signer.key_size + 7) // 8 + 4
        signed_by = base64.b64decode(rest)[:-size]
        if not any(signed_by.endswith(name.encode()) for name in _RSA_SIGNATURES):
            return "is signed with SHA-1"
    try:
        certificate.verify_cert_signature()
    except (InvalidSignature, ValueError):
        return "has a wrong signature"
    return ""


def _require_not_revoked(
    file: Path, blob: bytes, certificate: SSHCertificate | None
) -> None:
    """Raise RefusedHostKey if a list revokes a key, or cannot be read."""
    try:
        text = plain.read_regular(file, _LIST_BYTES_MAX)
    except OSError as error:
        raise UnreadableList(
            f"the revoked keys in {file} cannot be read ({error.strerror})"
        ) from None
    blobs = [blob]
    if certificate is not None:
        blobs.append(encode_key(certificate.signature_key()))
    if text.startswith(_REVOCATION_LIST):
        shown = certificate.public_bytes() if certificate else _format_line(blob)
        is_revoked = _is_revoked(file, shown)
    else:
        revoked_keys = parse_key_list(file, text)
        if revoked_keys.unread:
            raise UnreadableList(
                f"the revoked key in {revoked_keys.unread[0]} cannot be read"
            )
        is_revoked = any(revoked_keys.find(key, Marker.NONE) for key in blobs)
    if is_revoked:
        raise RefusedHostKey(f"its key is revoked in {file}")


def _is_revoked(file: Path, public: bytes) -> bool:
    """Ask ssh-keygen(1) whether a key revocation list has a key."""
    with tempfile.NamedTemporaryFile() as key_file:
        key_file.write(public + b"\n")
        key_file.flush()
        try:
            done = subprocess.run(
                [
                    find_own_program("ssh-keygen") or "",
                    "-Q",
                    "-f",
                    str(file),
                    key_file.name,
                ],
                env=processes.make_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_KEYGEN_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            raise UnreadableList(
                f"the revoked keys in {file} can be read by ssh-keygen alone, which"
                " cannot be run"
            ) from None
    return done.returncode != 0


def _format_line(blob: bytes) -> bytes:
    size = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + size] + b" " + base64.b64encode(blob)


def _append_line(file: Path, line: str) -> None:
    """Append a line to a list of keys, which may not exist yet."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = file.read_bytes() if file.exists() else b""
    start = "\n" if text and not text.endswith(b"\n") else ""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with open(os.open(file, flags, 0o600), "a") as opened:
        opened.write(start + line)
