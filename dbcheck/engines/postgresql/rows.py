"""Rows out of PostgreSQL's binary COPY, many at once.

The layout is that of the PostgreSQL 17 manual, COPY, "Binary Format"; its 53.2.6 says
that the server sends a message for each row.  Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbcheck.engines.link import ProtocolViolation
from dbcheck.rows.survivors import INTACT, RECORD, RowBatch, items_at

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(4)  # no flags
_HEADER = _SIGNATURE + bytes(4)  # no extension
_TRAILER = b"\xff\xff"  # instead of a number of fields

# A row up to its payload, and behind it.  Each value has its length before it, and a
# NULL has -1.
_FIELDS = (
    ("row_id", ">i8"),
    ("epoch", ">i8"),
    ("session", ">i4"),
    ("seq", ">i8"),
    ("part", ">i2"),
)
_HEAD = np.dtype(
    [
        ("fields", ">i2"),
        *(
            column
            for name, kind in _FIELDS
            for column in ((f"{name}_bytes", ">i4"), (name, kind))
        ),
        ("payload_bytes", ">i4"),
    ]
)
_TAIL = np.dtype([("checksum_bytes", ">i4"), ("checksum", ">i8")])
_FIXED = {
    "fields": len(_FIELDS) + 2,
    **{f"{name}_bytes": np.dtype(kind).itemsize for name, kind in _FIELDS},
}


class CopyParser:
    """Follows a COPY from its header to its trailer."""

    def __init__(self) -> None:
        self._began = self._ended = False

    def parse(self, messages: list[bytes]) -> RowBatch | None:
        """Return the rows of the next messages, None if there are none.

        messages: [] at the end.  Raise ProtocolViolation if they are not a COPY of the
        table.
        """
        if not messages:
            if not self._ended:
                raise ProtocolViolation("COPY ended without a trailer")
            return None
        if self._ended:
            raise ProtocolViolation("data after the COPY trailer")
        if not self._began:
            if not messages[0].startswith(_HEADER):
                raise ProtocolViolation("unexpected COPY header")
            first = messages[0][len(_HEADER) :]
            messages = [first, *messages[1:]] if first else messages[1:]
            self._began = True
        if messages and messages[-1] == _TRAILER:
            messages = messages[:-1]
            self._ended = True
        return _batch_of(messages) if messages else None


def _batch_of(messages: Sequence[bytes]) -> RowBatch:
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    if sizes.min() < _HEAD.itemsize + _TAIL.itemsize:
        raise ProtocolViolation("a COPY message is too short for a row")
    content = np.frombuffer(b"".join(messages), np.uint8)
    begins = np.cumsum(sizes) - sizes
    heads = items_at(content, begins, _HEAD)
    payloads = sizes - (_HEAD.itemsize + _TAIL.itemsize)
    tails = items_at(content, begins + _HEAD.itemsize + payloads, _TAIL)
    right = (heads["payload_bytes"] == payloads) & (tails["checksum_bytes"] == 8)
    for name, value in _FIXED.items():
        right &= heads[name] == value
    if not right.all():
        raise ProtocolViolation("a COPY message is not a row of the table")
    records = np.empty(len(messages), RECORD)
    for name, _ in _FIELDS:
        records[name] = heads[name]
    records["checksum"] = tails["checksum"]
    records["content"] = INTACT
    return RowBatch(records, content, begins + _HEAD.itemsize, payloads)
