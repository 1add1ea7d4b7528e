"""What the schedule computes for many keys at once, in arrays instead of row by row.

Everything here equals rows.schedule to the bit; the tests compare the two.
"""

from __future__ import annotations

import functools
import zlib

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dbcheck.rows.schedule import BLOCK_BYTES, Schedule, cipher

Ints = npt.NDArray[np.int64]
Sums = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_WORD_BYTES = 8
_CHUNK_BYTES = 1 << 17  # stays in a core's own cache


def crc32_of_words(*words: Ints | int) -> Sums:
    """Return for each row the CRC-32 of its 64-bit words, little-endian.

    A word is a column, or a number that all rows share; one at least is a column, and
    none is empty.  CRC-32 is affine over GF(2): what another byte changes depends on
    the bits that are other and on their place alone, so a column of bytes takes one
    look into a table, and none if all rows share the byte.
    """
    firsts = [word if isinstance(word, int) else int(word[0]) for word in words]
    content = b"".join(first.to_bytes(_WORD_BYTES, "little") for first in firsts)
    columns = [word for word in words if not isinstance(word, int)]
    sums = np.full(len(columns[0]), zlib.crc32(content), np.uint32)
    for place, (word, first) in enumerate(zip(words, firsts, strict=True)):
        if isinstance(word, int):
            continue
        others = (word ^ first).astype("<i8").view(np.uint8)
        behind = (len(words) - place) * _WORD_BYTES
        for at in range(_WORD_BYTES):
            bits = others[at::_WORD_BYTES]
            if bits.any():
                sums ^= _changes(behind - at - 1)[bits]
    return sums


@functools.cache
def _changes(behind: int) -> Sums:
    """Return what each pattern of bits changes, *behind* bytes before the end."""
    zeros = bytes(behind)
    none = zlib.crc32(bytes(1) + zeros)
    changes = [zlib.crc32(bytes((bits,)) + zeros) ^ none for bits in range(256)]
    return np.array(changes, np.uint32)


class Sizes:
    """How many bytes the payloads of one schedule have."""

    def __init__(self, schedule: Schedule) -> None:
        """Compute for *schedule*, which has payloads."""
        self._seed = schedule.seed
        self._sizes = np.array(schedule.payload_bytes, np.int64)

    def of(self, session: Ints, seq: Ints) -> Ints:
        """Return the size of each operation's payload."""
        if self._sizes.size == 1 or not session.size:
            return np.full(session.size, self._sizes[0])
        draws = crc32_of_words(self._seed, session, seq)
        return self._sizes[draws % self._sizes.size]


class Payloads:
    """The payloads of one schedule that have one size.

    rows_max: how many are computed at once, at most.
    """

    def __init__(self, schedule: Schedule, size: int) -> None:
        """Compute for *schedule*, which has payloads of *size* bytes."""
        self._size = size
        self.rows_max = rows_at_once(size)
        blocks = -(-size // BLOCK_BYTES)
        self._counters = np.empty((self.rows_max, blocks, 2), ">u8")
        self._counters[:, :, 1] = np.arange(blocks)
        self._stream = np.empty(self._counters.nbytes + BLOCK_BYTES - 1, np.uint8)
        # A key stream is its counters enciphered, so one call makes those of many rows.
        block = cipher(schedule.seed, schedule.epoch)
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


def rows_at_once(size: int) -> int:
    """Return how many rows with payloads of *size* bytes a core's own cache holds."""
    return max(1, _CHUNK_BYTES // max(1, size))
