"""A reader of the witness's log that shares no code with dbcheck's.

It follows the words in dbcheck/agent/witness.py and dbcheck/rows/acks.py alone.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, field

_HEAD = struct.Struct("<4sIIIIQ16s")
_BASE, _ENTRY = struct.Struct("<qq"), struct.Struct("<HIiH")


@dataclass
class RawLog:
    """What a log holds, up to the first frame that is not whole.

    acks:   (session, seq, row id), in order.
    clocks: the witness's clock in each frame, microseconds.
    """

    header: dict[str, object] = field(default_factory=dict)
    acks: list[tuple[int, int, int]] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)


def read_raw(content: bytes) -> RawLog:
    """Read a log."""
    found, at, sha = RawLog(), 0, hashlib.sha256()
    while at + _HEAD.size <= len(content):
        magic, crc, length, kind, count, clock_us, chain = _HEAD.unpack_from(
            content, at
        )
        end = at + _HEAD.size + length
        whole = content[at:end]
        sound = magic == b"\xdbW\x1aL" and end <= len(content)
        if not sound or zlib.crc32(whole[8:]) != crc or chain != sha.digest()[:16]:
            break
        sha.update(whole)
        body = whole[_HEAD.size :]
        if kind == 1:
            found.header = json.loads(body)
        elif kind == 2:
            acks = _acks(body)
            assert len(acks) == count
            found.acks += acks
        found.clocks.append(clock_us)
        at = end
    return found


def _acks(body: bytes) -> list[tuple[int, int, int]]:
    base, _ = _BASE.unpack_from(body)
    return [
        (session, seq, base + distance)
        for session, seq, distance, _ in _ENTRY.iter_unpack(body[_BASE.size :])
    ]
