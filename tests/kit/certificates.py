"""Certificates for the tests of TLS, and who vouches for them."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """An authority of certificates; path: its own."""

    path: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, path: Path) -> Authority:
        """Make one that vouches for itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(path.stem)
        made = _certificate(name, key, name, key, _IS_AUTHORITY)
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return cls(path, key, made)

    def vouch(self, folder: Path) -> None:
        """Make server.crt and server.key there, for localhost and not its address."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        made = _certificate(
            _name("localhost"), key, self.certificate.subject, self.key, hosts
        )
        owner = folder.stat()
        pem = serialization.Encoding.PEM
        for name, content in {
            "server.crt": made.public_bytes(pem),
            "server.key": key.private_bytes(
                pem,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        }.items():
            path = folder / name
            path.touch(mode=0o600)
            path.write_bytes(content)
            os.chown(path, owner.st_uid, owner.st_gid)


_IS_AUTHORITY = x509.BasicConstraints(ca=True, path_length=None)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - day).not_valid_after(now + day)
    return builder.add_extension(extension, critical=True).sign(
        issuer_key, hashes.SHA256()
    )
