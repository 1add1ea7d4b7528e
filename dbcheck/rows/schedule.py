"""What every operation writes: a pure function of the seed and the key.

Nothing about a row needs to be remembered, so an ack is a key, an id and a time,
and anyone who holds the seed can judge a stored run again.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
import threading
import zlib
from collections.abc import Container
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dbcheck.rows.history import Row

BLOCK_BYTES = 16  # of AES

EPOCH_MAX = 2**62

RowValues = tuple[int, int, int, int, bytes, int]  # of a Row, but for its id

_SEED_OPERATION = struct.Struct("<QQQ")
_KEY_PART = struct.Struct("<QQQQ")
_SEED_EPOCH = struct.Struct("<QQ")
_EPOCH = struct.Struct("<Q?Q")
_COUNTER = struct.Struct(">HHIQ")  # session, part, seq, place of the block in the row


def epoch_of(seed: int, *, control: bool, used: Container[int]) -> int:
    """Return the first epoch that *seed* decides and that is not among *used*.

    Only for a server whose whole history is known: a seed that is used again on the
    same drive would make the same rows, and those that the drive had kept of the first
    run would stand in for those that it lost of the second.
    control: of a control, whose epochs are others.
    """
    digests = (
        hashlib.sha256(_EPOCH.pack(seed, control, number)).digest()
        for number in itertools.count()
    )
    epochs = (int.from_bytes(digest[:8]) % EPOCH_MAX + 1 for digest in digests)
    return next(epoch for epoch in epochs if epoch not in used)


def cipher(seed: int, epoch: int) -> AES128:
    """Return the block cipher whose key stream fills the rows of *epoch*."""
    return AES128(hashlib.sha256(_SEED_EPOCH.pack(seed, epoch)).digest()[:16])


@dataclass(frozen=True, slots=True)
class Schedule:
    """The operations of one cycle.

    seed:          0..2^63-1, decides every size, and with the epoch every byte.
    epoch:         see Key.
    payload_bytes: sizes to draw from, each 1..1048576; empty for the classic shape.
    """

    seed: int
    epoch: int
    payload_bytes: tuple[int, ...]

    def row(self, session: int, seq: int) -> Row:
        """Return the row that operation (session, seq) inserts."""
        return Row(0, *self.values(session, seq))

    def values(self, session: int, seq: int, part: int = 0) -> RowValues:
        """Return that row, or another part, without its id; called for each commit.

        The payload is the key stream of AES in counter mode (NIST SP 800-38A, 6.5),
        indistinguishable from random, so no layer below can shrink or share the rows.
        Each row of an epoch has counters of its own; rows.expected computes many rows
        at once.  The checksum is the CRC-32 of the key, the part and the payload.
        """
        sizes, epoch = self.payload_bytes, self.epoch
        if not sizes:
            return epoch, session, seq, part, b"", 0
        size = sizes[0]
        if len(sizes) > 1:
            name = _SEED_OPERATION.pack(self.seed, session, seq)
            size = sizes[zlib.crc32(name) % len(sizes)]
        of_seed, of_epoch, stream = _streams.latest
        if of_epoch != epoch or of_seed != self.seed:
            stream = _streams.change(self.seed, epoch)
        stream.reset_nonce(_COUNTER.pack(session, part, seq, 0))
        content = stream.update(bytes(size))
        key = _KEY_PART.pack(epoch, session, seq, part)
        check = zlib.crc32(content, zlib.crc32(key))
        return epoch, session, seq, part, content, check


class _Streams(threading.local):
    """The thread's latest key stream: a new one takes longer than a payload does.

    latest: its seed, its epoch and the stream.
    """

    latest: tuple[int, int, CipherContext]

    def __init__(self) -> None:
        self.change(0, 0)

    def change(self, seed: int, epoch: int) -> CipherContext:
        """Return the stream of *seed* and *epoch*, which is then the latest."""
        stream = Cipher(cipher(seed, epoch), CTR(bytes(BLOCK_BYTES))).encryptor()
        self.latest = seed, epoch, stream
        return stream


_streams = _Streams()
