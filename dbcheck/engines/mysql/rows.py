"""Rows out of the packets of MySQL's protocol, many at once.

The layout is that of "MySQL Source Code Documentation", Client/Server Protocol 4.1
(Binary Protocol Resultset), which MariaDB shares ("Client/Server Protocol" in its
knowledge base).  Nothing here opens a socket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from mysql.connector.constants import FieldType
from mysql.connector.errors import get_exception

from dbcheck.engines.link import BATCH_BYTES_MAX, ProtocolViolation
from dbcheck.engines.mysql.wire import HEADER_BYTES, Ended
from dbcheck.rows.survivors import INTACT, RECORD, RowBatch, take_items_at

BATCH_BYTES = 1 << 20

# Length in three bytes and sequence number in one; first byte of the body.
_PACKET = struct.Struct("<IB")
# The largest length, and a mask for it; a row of this length continues in the next
# packet.
_LENGTH_MAX = 0xFFFFFF
_ROW, _END, _ERR = 0x00, 0xFE, 0xFF

_INTEGERS = {
    FieldType.SHORT: "<i2",
    FieldType.LONG: "<i4",
    FieldType.LONGLONG: "<i8",
}
_STRINGS = {
    FieldType.TINY_BLOB,
    FieldType.MEDIUM_BLOB,
    FieldType.LONG_BLOB,
    FieldType.BLOB,
    FieldType.VAR_STRING,
    FieldType.STRING,
}
_COLUMNS = ("row_id", "epoch", "session", "seq", "part", "payload", "checksum")

# The first byte of a payload's length -> how many bytes of the length follow it; the
# type as which they are read, which may read bytes of what stands behind them; the bits
# that are the length's.
_LONG_LENGTHS = {
    0xFC: (2, "<u2", 0xFFFF),
    0xFD: (3, "<u4", 0xFFFFFF),
    0xFE: (8, "<i8", -1),
}
_NO_LENGTHS = (0xFB, 0xFF)  # first bytes that are no length: NULL, and an error


class Layout:
    """Offsets of the columns of a row in its packet."""

    def __init__(self, types: Sequence[int]) -> None:
        """Raise ProtocolViolation unless *types* are those of dbcheck's tables."""
        try:
            kinds = [_INTEGERS[kind] for kind in (*types[:5], types[6])]
        except (KeyError, IndexError):
            kinds = []
        if len(types) != len(_COLUMNS) or not kinds or types[5] not in _STRINGS:
            raise ProtocolViolation(f"unexpected column types {types}")
        fields = list(zip(_COLUMNS, kinds[:5], strict=False))
        self._head = np.dtype(
            [("kind", "u1"), ("nulls", "<u2"), *fields, ("length", "u1")]
        )
        self._tail = np.dtype([("checksum", kinds[5])])

    def batch_of(self, content: bytes, begins: Sequence[int]) -> RowBatch:
        """Return the rows in the packets that *content* consists of.

        begins: where each packet begins in *content*.
        Raise ProtocolViolation if a packet is not a row.
        """
        packets = np.frombuffer(content, np.uint8)
        starts = np.array(begins, np.int64) + HEADER_BYTES
        ends = np.append(starts[1:] - HEADER_BYTES, len(content))
        least = self._head.itemsize + self._tail.itemsize
        if (ends - starts).min() < least:
            raise ProtocolViolation("a packet is too short for a row")
        heads = take_items_at(packets, starts, self._head)
        lengths = heads["length"].astype(np.int64)
        payloads = starts + self._head.itemsize
        wrong = np.isin(lengths, _NO_LENGTHS) | (heads["nulls"] != 0)
        for first, (more, kind, mask) in _LONG_LENGTHS.items():
            rows = np.flatnonzero(heads["length"] == first)
            values = take_items_at(
                packets, payloads[rows], np.dtype([("length", kind)])
            )
            lengths[rows] = values["length"] & mask
            payloads[rows] += more
        wrong |= lengths < 0  # 8 bytes that are no length, such as the checksum
        checksums = ends - self._tail.itemsize
        if wrong.any() or (payloads + lengths != checksums).any():
            raise ProtocolViolation("a packet is not a row of the table")
        records = np.empty(len(starts), RECORD)
        for name in _COLUMNS[:5]:
            records[name] = heads[name]
        records["checksum"] = take_items_at(packets, checksums, self._tail)["checksum"]
        records["content"] = INTACT
        return RowBatch(records, packets, payloads, lengths)


class RowReader:
    """Reads packets from a connection, and finds the rows in them.

    read: fills a buffer, and returns how many bytes it put there, 0 at the end of the
          connection.
    """

    def __init__(self, layout: Layout, read: Callable[[memoryview], int]) -> None:
        self._layout, self._read = layout, read
        self._buffer = bytearray(BATCH_BYTES)
        self._end = 0  # of the bytes in the buffer that were read

    def batches(self) -> Iterator[RowBatch]:
        """Yield all rows; raise ProtocolViolation, or the error that the server sends.

        A batch has at most BATCH_BYTES bytes, or is one row that has more.
        """
        begins: list[int] = []
        at = 0
        while True:
            at = self._walk(at, begins)
            kind = self._read_special_kind(at)
            if kind is None and self._end < len(self._buffer):
                self._fill()
            elif begins:
                yield self._layout.batch_of(bytes(self._buffer[:at]), begins)
                self._drop(at)
                begins, at = [], 0
            elif kind is None:
                self._buffer += bytes(len(self._buffer))
            elif kind == _ROW:
                yield self._layout.batch_of(self._take_joined_row(), [0])
            else:
                self._finish(kind)
                return

    def _walk(self, at: int, begins: list[int]) -> int:
        """Add to *begins* where the whole rows from *at* on begin; return their end."""
        buffer, end, unpack = self._buffer, self._end, _PACKET.unpack_from
        while at + _PACKET.size <= end:
            length, kind = unpack(buffer, at)
            length &= _LENGTH_MAX
            following = at + HEADER_BYTES + length
            if kind or following > end or length == _LENGTH_MAX:
                break
            begins.append(at)
            at = following
        return at

    def _read_special_kind(self, at: int) -> int | None:
        """Return the kind of the packet at *at*; None if it is an ordinary row.

        None also if the packet is not there yet.  Return _ROW for a row that continues
        in the next packet.
        """
        if at + _PACKET.size > self._end:
            return None
        length, kind = _PACKET.unpack_from(self._buffer, at)
        return kind if kind or length & _LENGTH_MAX == _LENGTH_MAX else None

    def _take_joined_row(self) -> bytes:
        """Take the first packet with its continuations; return them as one packet.

        Raise ProtocolViolation if it is longer than a batch may be.
        """
        joined = bytearray(HEADER_BYTES)
        while len(joined) <= BATCH_BYTES_MAX:
            packet = self._take_packet()
            joined += packet[HEADER_BYTES:]
            if len(packet) < HEADER_BYTES + _LENGTH_MAX:
                return bytes(joined)
        raise ProtocolViolation(f"a row is longer than {BATCH_BYTES_MAX >> 20} MiB")

    def _finish(self, kind: int) -> None:
        """Take the packet behind the last row; raise its error if it is not an end."""
        packet = self._take_packet()
        if kind == _ERR:
            raise get_exception(packet)
        if kind != _END or self._end:
            raise ProtocolViolation("unexpected packet after the last row")

    def _take_packet(self) -> bytes:
        """Remove the first packet from the buffer and return it, once it is whole."""
        while self._end < HEADER_BYTES:
            self._fill()
        size = HEADER_BYTES + int.from_bytes(self._buffer[:3], "little")
        if size > len(self._buffer):
            self._buffer += bytes(size - len(self._buffer))
        while self._end < size:
            self._fill()
        packet = bytes(self._buffer[:size])
        self._drop(size)
        return packet

    def _drop(self, size: int) -> None:
        rest = self._buffer[size : self._end]
        self._buffer[: len(rest)] = rest
        self._end = len(rest)

    def _fill(self) -> None:
        with memoryview(self._buffer) as buffer, buffer[self._end :] as free:
            read_bytes = self._read(free)
        if not read_bytes:
            raise Ended("the connection ended in the middle of the rows")
        self._end += read_bytes
