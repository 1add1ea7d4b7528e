"""What every operation writes: a pure function of the seed and the key.

Nothing about a row needs to be remembered, so an ack is a key, an id and a time,
and anyone who holds the seed can judge a stored run again.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import zlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dbcheck.core.history import Key, Row

BLOCK_BYTES = 16  # of AES

_SEED_KEY_PART = struct.Struct("<QQQQQ")
_KEY_PART = struct.Struct("<QQQQ")
_SEED_BYTES = _SEED_KEY_PART.size - _KEY_PART.size
_SEED_EPOCH = struct.Struct("<QQ")
_COUNTER = struct.Struct(">HHIQ")  # session, part, seq, place of the block in the row


def payload(seed: int, key: Key, part: int, size: int) -> bytes:
    """Return *size* incompressible bytes that only (seed, key, part) decide.

    The key stream of AES in counter mode (NIST SP 800-38A, 6.5) is indistinguishable
    from random, so no layer below can shrink or share the rows.  Each row of an epoch
    has counters of its own, and core.expected computes many rows at once.
    """
    stream = _ciphers.stream(seed, key.epoch)
    stream.reset_nonce(_COUNTER.pack(key.session, part, key.seq, 0))
    return stream.update(bytes(size))


def cipher(seed: int, epoch: int) -> AES128:
    """Return the block cipher whose key stream fills the rows of *epoch*."""
    return AES128(hashlib.sha256(_SEED_EPOCH.pack(seed, epoch)).digest()[:16])


def checksum(key: Key, part: int, content: bytes) -> int:
    """Return the CRC-32 (0..2^32-1) of the key, the part and the payload."""
    return zlib.crc32(content, zlib.crc32(_KEY_PART.pack(*key, part)))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The operations of one cycle.

    seed:          0..2^63-1, decides every size and byte.
    epoch:         see Key.
    payload_bytes: sizes to draw from, each 1..131072; empty for the classic shape.
    """

    seed: int
    epoch: int
    payload_bytes: tuple[int, ...]

    def row(self, session: int, seq: int) -> Row:
        """Return the row that operation (session, seq) inserts."""
        sizes, epoch = self.payload_bytes, self.epoch
        if not sizes:
            return Row(0, epoch, session, seq, 0, b"", 0)
        # As payload() and checksum() say, in half the time: this is what a load does.
        name = _SEED_KEY_PART.pack(self.seed, epoch, session, seq, 0)
        size = sizes[zlib.crc32(name) % len(sizes) if len(sizes) > 1 else 0]
        stream = _ciphers.stream(self.seed, epoch)
        stream.reset_nonce(_COUNTER.pack(session, 0, seq, 0))
        content = stream.update(bytes(size))
        check = zlib.crc32(content, zlib.crc32(name[_SEED_BYTES:]))
        return Row(0, epoch, session, seq, 0, content, check)


class _Ciphers(threading.local):
    """The thread's latest key stream: a new one takes longer than a payload does."""

    def __init__(self) -> None:
        self._of: tuple[int, int] | None = None
        self._stream: CipherContext

    def stream(self, seed: int, epoch: int) -> CipherContext:
        if self._of != (seed, epoch):
            block = cipher(seed, epoch)
            self._stream = Cipher(block, CTR(bytes(BLOCK_BYTES))).encryptor()
            self._of = seed, epoch
        return self._stream


_ciphers = _Ciphers()
