"""The content that every operation writes: a pure function of seed and key.

Nothing about a row needs to be remembered, so an ack is a key, an id and a time,
and anyone who holds the seed can judge a stored run again.

Sizes and Payloads compute the sizes and payloads of many keys at once, in arrays.  They
equal those of Schedule to the bit; the tests compare the two.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import struct
import threading
import zlib
from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from dbcheck.rows.acks import Ints, Row

BLOCK_BYTES = 16  # of AES

EPOCH_MAX = 2**62

RowValues = tuple[int, int, int, int, bytes, int]  # of a Row, but for its id

_SIZE_DRAW = struct.Struct("<QQQ")
_KEY_PART = struct.Struct("<QQQQ")
_CIPHER_KEY = struct.Struct("<QQ")
_EPOCH_DRAW = struct.Struct("<Q?Q")
_COUNTER = struct.Struct(">HHIQ")  # session, part, seq, place of the block in the row


def draw_epoch(seed: int, *, control: bool, used: Container[int]) -> int:
    """Return the first epoch that *seed* decides and that is not among *used*.

    Only for a server whose whole history is known: a seed that is used again on the
    same drive would make the same rows, and rows that the drive kept of the first run
    would hide that it lost the equal rows of the second.

    control: draw the epoch of a control, which differs from that of a cut.
    """
    digests = (
        hashlib.sha256(_EPOCH_DRAW.pack(seed, control, number)).digest()
        for number in itertools.count()
    )
    epochs = (int.from_bytes(digest[:8]) % EPOCH_MAX + 1 for digest in digests)
    return next(epoch for epoch in epochs if epoch not in used)


def make_cipher(seed: int, epoch: int) -> AES128:
    """Return the block cipher whose key stream fills the rows of *epoch*."""
    return AES128(hashlib.sha256(_CIPHER_KEY.pack(seed, epoch)).digest()[:16])


@dataclass(frozen=True, slots=True)
class Schedule:
    """The operations of one cycle.

    seed:          0..2^63-1, decides every size, and with the epoch every byte.
    epoch:         the number of the run, see rows.acks.Key.
    payload_bytes: sizes to draw from, each 1..1048576; empty for the classic shape.
    """

    seed: int
    epoch: int
    payload_bytes: tuple[int, ...]

    def row(self, session: int, seq: int) -> Row:
        """Return the row that operation (session, seq) inserts."""
        return Row(0, *self.values(session, seq))

    def values(self, session: int, seq: int, part: int = 0) -> RowValues:
        """Return the row of the operation, or another part, without its id.

        Called for each commit, so it is fast.

        The payload is the key stream of AES in counter mode (NIST SP 800-38A, 6.5),
        indistinguishable from random, so no layer below can shrink or share the rows.
        Each row of an epoch has counters of its own; Payloads computes many rows at
        once.  The checksum is the CRC-32 of the key, the part and the payload.
        """
        sizes, epoch = self.payload_bytes, self.epoch
        if not sizes:
            return epoch, session, seq, part, b"", 0
        size = sizes[0]
        if len(sizes) > 1:
            operation = _SIZE_DRAW.pack(self.seed, session, seq)
            size = sizes[zlib.crc32(operation) % len(sizes)]
        stream_seed, stream_epoch, stream = _streams.latest
        if stream_epoch != epoch or stream_seed != self.seed:
            stream = _streams.change(self.seed, epoch)
        stream.reset_nonce(_COUNTER.pack(session, part, seq, 0))
        content = stream.update(bytes(size))
        key = _KEY_PART.pack(epoch, session, seq, part)
        checksum = zlib.crc32(content, zlib.crc32(key))
        return epoch, session, seq, part, content, checksum


class _Streams(threading.local):
    """The latest key stream of the thread; a new one takes longer than a payload.

    latest: the seed and the epoch of the stream, and the stream.
    """

    latest: tuple[int, int, CipherContext]

    def __init__(self) -> None:
        self.change(0, 0)

    def change(self, seed: int, epoch: int) -> CipherContext:
        """Return the stream of *seed* and *epoch*, which is then the latest."""
        stream = Cipher(make_cipher(seed, epoch), CTR(bytes(BLOCK_BYTES))).encryptor()
        self.latest = seed, epoch, stream
        return stream


_streams = _Streams()


Sums = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_WORD_BYTES = 8
_CHUNK_BYTES = 1 << 17  # stays in a core's own cache


def compute_crc32_of_words(*words: Ints | int) -> Sums:
    """Return for each row the CRC-32 of its 64-bit words, little-endian.

    words: columns, none of them empty, or numbers that all rows share; at least one is
           a column.

    CRC-32 is affine over GF(2): how the sum changes with a byte depends only on which
    bits of the byte change and on its place.  So a column of bytes takes one look into
    a table, and none if all rows share the byte.
    """
    firsts = [word if isinstance(word, int) else int(word[0]) for word in words]
    content = b"".join(first.to_bytes(_WORD_BYTES, "little") for first in firsts)
    columns = [word for word in words if not isinstance(word, int)]
    sums = np.full(len(columns[0]), zlib.crc32(content), np.uint32)
    for number, (word, first) in enumerate(zip(words, firsts, strict=True)):
        if isinstance(word, int):
            continue
        changed_bits = (word ^ first).astype("<i8").view(np.uint8)
        bytes_left = (len(words) - number) * _WORD_BYTES
        for byte in range(_WORD_BYTES):
            patterns = changed_bits[byte::_WORD_BYTES]
            if patterns.any():
                sums ^= _compute_changes_of_crc(bytes_left - byte - 1)[patterns]
    return sums


@functools.cache
def _compute_changes_of_crc(bytes_after: int) -> Sums:
    """Return how each pattern of changed bits changes the CRC-32.

    bytes_after: how many bytes follow the changed byte.
    """
    zeros = bytes(bytes_after)
    unchanged = zlib.crc32(bytes(1) + zeros)
    changes = [
        zlib.crc32(bytes((pattern,)) + zeros) ^ unchanged for pattern in range(256)
    ]
    return np.array(changes, np.uint32)


class Sizes:
    """Sizes of the payloads of one schedule, in bytes."""

    def __init__(self, schedule: Schedule) -> None:
        """Compute for *schedule*, which has payloads."""
        self._seed = schedule.seed
        self._sizes = np.array(schedule.payload_bytes, np.int64)

    def of(self, session: Ints, seq: Ints) -> Ints:
        """Return the size of each operation's payload."""
        if self._sizes.size == 1 or not session.size:
            return np.full(session.size, self._sizes[0])
        draws = compute_crc32_of_words(self._seed, session, seq)
        return self._sizes[draws % self._sizes.size]


class Payloads:
    """The payloads of one schedule that have one size.

    rows_max: how many payloads are computed at once, at most.
    """

    def __init__(self, schedule: Schedule, size: int) -> None:
        """Compute for *schedule*, which has payloads of *size* bytes."""
        self._size = size
        self.rows_max = count_rows_at_once(size)
        blocks = -(-size // BLOCK_BYTES)
        self._counters = np.empty((self.rows_max, blocks, 2), ">u8")
        self._counters[:, :, 1] = np.arange(blocks)
        self._stream = np.empty(self._counters.nbytes + BLOCK_BYTES - 1, np.uint8)
        # A key stream is its enciphered counters, so one call makes the streams of many
        # rows.
        block = make_cipher(schedule.seed, schedule.epoch)
        self._cipher = Cipher(block, ECB()).encryptor()

    def of(self, session: Ints, part: Ints, seq: Ints) -> Bytes:
        """Return the payloads of the operations' parts, one in each line.

        The next call overwrites them.
        """
        counters = self._counters[: len(session)]
        counters[:, :, 0] = (session << 48 | part << 32 | seq)[:, None]
        self._cipher.update_into(counters.data.cast("B"), self._stream.data)
        lines = self._stream[: counters.nbytes].reshape(len(session), -1)
        return lines[:, : self._size]


def count_rows_at_once(size: int) -> int:
    """Count the rows with payloads of *size* bytes that fit a core's own cache."""
    return max(1, _CHUNK_BYTES // max(1, size))
