"""Certificates by which the servers of one cluster know each other, and nobody else.

All of them listen on 127.0.0.1, where every user of this machine may connect to them,
and may listen in place of one that is off.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dbcheck.lab import server_account
from dbcheck.lab.server_account import Account

# Either way, as the clock of a machine may be far off.
_VALID = datetime.timedelta(days=3650)
_PEM = serialization.Encoding.PEM
_HOSTS = x509.SubjectAlternativeName(
    [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.DNSName("localhost"),
    ]
)
# Each of them is both: a node connects to others, which connect to it.
_BOTH_ENDS = x509.ExtendedKeyUsage(
    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
)


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """Paths of one server's Identity, a file for each part."""

    authority: Path
    certificate: Path
    key: Path

    def for_client(self) -> ssl.SSLContext:
        """Return the TLS context of a client that shows this certificate."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True, slots=True)
class Identity:
    """Certificate and key of one server, and the others' authority, in PEM."""

    authority: str
    certificate: str
    key: str = field(repr=False)

    def write(self, folder: Path, account: Account | None = None) -> IdentityFiles:
        """Make *folder*, with a file for each part, for a server of *account*.

        The account alone can read them, and cannot replace them.  Raise OSError.
        """
        server_account.make_folder(folder, None, reader=account)
        files = IdentityFiles(
            folder / "ca.pem", folder / "server.pem", folder / "server.key"
        )
        server_account.make_file(files.authority, account, self.authority)
        server_account.make_file(files.certificate, account, self.certificate)
        server_account.make_file(files.key, account, self.key)
        return files

    @contextlib.contextmanager
    def in_memory(self) -> Iterator[tuple[IdentityFiles, Sequence[int]]]:
        """Give files that are in memory, and the descriptors behind their paths.

        A process reaches them by those paths if it inherits the descriptors.
        """
        with open_in_memory(self.authority, self.certificate, self.key) as held:
            yield IdentityFiles(*map(descriptor_path, held)), held


class Authority:
    """Certificate authority of the servers of one cluster.

    Its key is in the memory of this process alone.
    """

    def __init__(self) -> None:
        """Make one."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _make_name("dbcheck lab")
        extensions = [
            x509.BasicConstraints(ca=True, path_length=0),
            _make_usage_extension(of_authority=True),
        ]
        self._certificate = self._signed(self._name, self._key, extensions)

    def issue_certificate(self, name: str) -> Identity:
        """Return a new certificate for 127.0.0.1 and localhost; *name* is its owner's.

        A server may show it, and a client.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [
            x509.BasicConstraints(ca=False, path_length=None),
            _make_usage_extension(of_authority=False),
            _BOTH_ENDS,
            _HOSTS,
        ]
        made = self._signed(_make_name(name), key, extensions)
        text = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Identity(
            self._certificate.public_bytes(_PEM).decode(),
            made.public_bytes(_PEM).decode(),
            text.decode(),
        )

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[x509.ExtensionType],
    ) -> x509.Certificate:
        """Return a certificate; Python 3.13 demands the two key identifiers."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - _VALID).not_valid_after(now + _VALID)
        for one in extensions:
            critical = isinstance(one, (x509.BasicConstraints, x509.KeyUsage))
            builder = builder.add_extension(one, critical=critical)
        ours = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(
            self._key.public_key()
        )
        builder = builder.add_extension(ours, critical=False)
        builder = builder.add_extension(issuer, critical=False)
        return builder.sign(self._key, hashes.SHA256())


@contextlib.contextmanager
def open_in_memory(*texts: str) -> Iterator[Sequence[int]]:
    """Yield descriptors of files in memory with these texts; see descriptor_path()."""
    with contextlib.ExitStack() as open_files:
        held = []
        for text in texts:
            memory = os.memfd_create("dbcheck-lab")
            file = open_files.enter_context(open(memory, "w", encoding="ascii"))
            file.write(text)
            file.flush()
            held.append(memory)
        yield held


def descriptor_path(descriptor: int) -> Path:
    """Return the path of a file by a descriptor that this process has (proc(5))."""
    return Path(f"/proc/self/fd/{descriptor}")


def _make_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _make_usage_extension(*, of_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not of_authority,
        key_cert_sign=of_authority,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
