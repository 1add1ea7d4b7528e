"""Certificates by which the servers of one cluster recognise each other.

All servers listen on 127.0.0.1, where every user of this machine may connect to them,
and may listen in place of a server that is off.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dbcheck.lab import server_account
from dbcheck.lab.server_account import Account

# Before now and after now, as the clock of a machine may be far off.
_VALID_FOR = datetime.timedelta(days=3650)
_PEM = serialization.Encoding.PEM
# Each server is a client as well: the nodes of a cluster connect to each other.
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
    """Certificate and key of one server, and its cluster's authority, in PEM."""

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
        """Yield paths of files in memory, and the descriptors behind those paths.

        A process can open the paths if it inherits the descriptors.
        """
        with open_in_memory(self.authority, self.certificate, self.key) as descriptors:
            yield IdentityFiles(*map(descriptor_path, descriptors)), descriptors


class Authority:
    """Certificate authority of the servers of one cluster.

    Its key is in the memory of this process alone.
    """

    def __init__(self) -> None:
        """Make a new key and a certificate of the authority itself."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _make_name("dbcheck lab")
        extensions = [
            x509.BasicConstraints(ca=True, path_length=0),
            _make_usage_extension(of_authority=True),
        ]
        self._certificate = self._sign_certificate(self._name, self._key, extensions)

    def issue_certificate(self, name: str, *addresses: str) -> Identity:
        """Return a new certificate for 127.0.0.1 and localhost; *name* is its owner's.

        addresses: others that it is for, of IP.
        Its owner may show it as a server and as a client.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [
            x509.BasicConstraints(ca=False, path_length=None),
            _make_usage_extension(of_authority=False),
            _BOTH_ENDS,
            _make_host_names(addresses),
        ]
        certificate = self._sign_certificate(_make_name(name), key, extensions)
        key_text = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Identity(
            self._certificate.public_bytes(_PEM).decode(),
            certificate.public_bytes(_PEM).decode(),
            key_text.decode(),
        )

    def _sign_certificate(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[x509.ExtensionType],
    ) -> x509.Certificate:
        """Return a certificate that the authority has signed.

        Python 3.13 demands that it identifies its own key and the authority's.
        """
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - _VALID_FOR).not_valid_after(
            now + _VALID_FOR
        )
        for extension in extensions:
            critical = isinstance(extension, (x509.BasicConstraints, x509.KeyUsage))
            builder = builder.add_extension(extension, critical=critical)
        key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        authority_key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(
            self._key.public_key()
        )
        builder = builder.add_extension(key_id, critical=False)
        builder = builder.add_extension(authority_key_id, critical=False)
        return builder.sign(self._key, hashes.SHA256())


@contextlib.contextmanager
def open_in_memory(*texts: str) -> Iterator[Sequence[int]]:
    """Yield, for each text, the descriptor of a file in memory that holds it."""
    with contextlib.ExitStack() as open_files:
        descriptors = []
        for text in texts:
            descriptor = os.memfd_create("dbcheck-lab")
            file = open_files.enter_context(open(descriptor, "w", encoding="ascii"))
            file.write(text)
            file.flush()
            descriptors.append(descriptor)
        yield descriptors


def descriptor_path(descriptor: int) -> Path:
    """Return a path of the file that is open as *descriptor* (proc(5))."""
    return Path(f"/proc/self/fd/{descriptor}")


def _make_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _make_host_names(addresses: Iterable[str]) -> x509.SubjectAlternativeName:
    ips = map(ipaddress.ip_address, ("127.0.0.1", *addresses))
    return x509.SubjectAlternativeName(
        [*map(x509.IPAddress, ips), x509.DNSName("localhost")]
    )


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
