"""What a row holds, by its definition: slow, and apart from dbcheck's own code."""

from __future__ import annotations

import hashlib
import struct
import zlib

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dbcheck.rows.acks import Key


def payload(seed: int, key: Key, part: int, size: int) -> bytes:
    """Return *size* bytes of the key stream that seed, key and part decide."""
    secret = hashlib.sha256(struct.pack("<QQ", seed, key.epoch)).digest()[:16]
    counter = struct.pack(">HHIQ", key.session, part, key.seq, 0)
    return Cipher(AES128(secret), CTR(counter)).encryptor().update(bytes(size))


def checksum(key: Key, part: int, content: bytes) -> int:
    """Return the CRC-32 (0..2^32-1) of the key, the part and the payload."""
    return zlib.crc32(struct.pack("<QQQQ", *key, part) + content)
