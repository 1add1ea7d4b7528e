"""Rows as each server sends them, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from dbcheck.rows.acks import Row

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER = b"\xff\xff"
MYSQL_TYPES = (8, 8, 3, 8, 2, 252, 8)
MYSQL_END = b"\xfe\0\0\2\0"
_PART_BYTES = 0xFFFFFF


def copied(row: Row) -> bytes:
    """Return *row* as a message of PostgreSQL's binary COPY."""
    row_id, epoch, session, seq, part, payload, checksum = row
    values = (
        *(struct.pack("!q", value) for value in (row_id, epoch)),
        struct.pack("!i", session),
        struct.pack("!q", seq),
        struct.pack("!h", part),
        payload,
        struct.pack("!q", checksum),
    )
    sized = (struct.pack("!i", len(value)) + value for value in values)
    return struct.pack("!h", len(values)) + b"".join(sized)


def copy_of(rows: Iterable[Row]) -> list[bytes]:
    """Return all messages of a COPY; the header comes with the first row."""
    messages = [*map(copied, rows), COPY_TRAILER]
    return [COPY_HEADER + messages[0], *messages[1:]]


def binary(row: Row) -> bytes:
    """Return *row* as the body of a packet of MySQL's binary protocol."""
    row_id, epoch, session, seq, part, payload, checksum = row
    return b"".join(
        (
            bytes(3),
            struct.pack("<qqiqh", row_id, epoch, session, seq, part),
            _length(len(payload)),
            payload,
            struct.pack("<q", checksum),
        )
    )


def packets(body: bytes, number: int) -> bytes:
    """Return a body in as many packets as it takes."""
    parts = range(0, len(body) + 1, _PART_BYTES)
    return b"".join(
        len(part).to_bytes(3, "little") + bytes(((number + place) % 256,)) + part
        for place, at in enumerate(parts)
        if (part := body[at : at + _PART_BYTES]) or at
    )


def result_of(rows: Iterable[Row], end: bytes = MYSQL_END) -> bytes:
    """Return the packets of all rows, and that of their end."""
    return b"".join(
        packets(body, number) for number, body in enumerate([*map(binary, rows), end])
    )


def _length(value: int) -> bytes:
    if value < 0xFB:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + struct.pack("<H", value)
    if value < 1 << 24:
        return b"\xfd" + struct.pack("<I", value)[:3]
    return b"\xfe" + struct.pack("<q", value)
