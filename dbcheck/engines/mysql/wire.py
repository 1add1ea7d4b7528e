"""The two packets that a commit takes in MySQL's protocol: execute, and its answer.

The layout is that of "MySQL Source Code Documentation", Client/Server Protocol 4.1
(COM_STMT_EXECUTE, OK_Packet, ERR_Packet), which MariaDB shares ("Client/Server
Protocol" in its knowledge base).  Nothing here touches a socket.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from dbcheck.core.history import ROW_ID_MAX, Row

_COM_STMT_EXECUTE = 0x17
_HEAD = struct.Struct("<BIBI")  # command, statement, no cursor, one iteration
# epoch, session, seq, part, payload, checksum: LONGLONG, LONG, LONGLONG, SHORT,
# LONG_BLOB, LONGLONG, each signed; before them that nothing is NULL, that types follow.
_TYPES = (0x08, 0x03, 0x08, 0x02, 0xFB, 0x08)
_KEY = struct.Struct("<qiqh")
_CHECKSUM = struct.Struct("<q")
_STATUS = struct.Struct("<HH")

HEADER_BYTES = 4  # length of the body in three bytes, sequence number in one
_BODY_BYTES_MAX = 1 << 16  # far above any answer to an insert
_OK, _ERR = 0x00, 0xFF
_SIZES = {0xFC: 2, 0xFD: 3, 0xFE: 8}  # of a number behind this byte
_IN_TRANSACTION = 0x0001  # SERVER_STATUS_IN_TRANS


class Nonsense(Exception):
    """The server sent what is no answer to an insert."""


class Ended(Nonsense):
    """The connection ended in the middle of an answer."""


class Ok(NamedTuple):
    """The server's success reply.

    rows: inserted.  row_id: auto-increment id.  is_open: a transaction still is.
    """

    rows: int
    row_id: int
    is_open: bool


class Refusal(NamedTuple):
    """An error: its number in the server's reference, and its message."""

    number: int
    words: str


def execute_head(statement_id: int, *, has_key: bool, has_attributes: bool) -> bytes:
    """Return what comes before the values of each execution of a statement.

    has_key: the statement takes the values of a row, else none.
    has_attributes: CLIENT_QUERY_ATTRIBUTES was agreed upon, so that the values are
                    counted and named.
    """
    head = _HEAD.pack(_COM_STMT_EXECUTE, statement_id, 0, 1)
    if not has_key:
        return head
    name = b"\0" if has_attributes else b""
    types = b"".join(bytes((kind, 0)) + name for kind in _TYPES)
    counted = bytes((len(_TYPES),)) if has_attributes else b""
    return head + counted + b"\0\1" + types


def execute(head: bytes, row: Row | None) -> bytes:
    """Return the packet that inserts *row*, or what has no values if it is None.

    Raise struct.error if a value is out of its column's range.
    """
    body = head
    if row is not None:
        _, epoch, session, seq, part, payload, checksum = row
        body = b"".join(
            (
                head,
                _KEY.pack(epoch, session, seq, part),
                _length(len(payload)),
                payload,
                _CHECKSUM.pack(checksum),
            )
        )
    return len(body).to_bytes(HEADER_BYTES, "little") + body  # sequence number 0


def answer(data: bytes) -> Ok | Refusal | None:
    """Return what the packet in *data* says, None if it is not all there yet.

    Raise Nonsense if it is neither OK nor error, or if anything comes after it.
    """
    if len(data) < HEADER_BYTES:
        return None
    length = int.from_bytes(data[:3], "little")
    if length > _BODY_BYTES_MAX:
        raise Nonsense(f"the server announced a reply of {length} bytes")
    more = HEADER_BYTES + length - len(data)
    if more > 0:
        return None
    if more < 0:
        raise Nonsense("the server sent more than one reply")
    try:
        if data[HEADER_BYTES] == _OK and data[3] == 1:
            return _ok(data)
        if data[HEADER_BYTES] == _ERR:
            return _refusal(data[HEADER_BYTES + 1 :])
    except (IndexError, struct.error):
        pass
    raise Nonsense("the server's reply is no answer to an insert")


def _ok(data: bytes) -> Ok:
    rows, place = _number(data, HEADER_BYTES + 1)
    row_id, place = _number(data, place)
    if row_id > ROW_ID_MAX:
        raise Nonsense(f"the server gave a row the id {row_id}")
    status, _ = _STATUS.unpack_from(data, place)  # and the number of warnings
    return Ok(rows, row_id, bool(status & _IN_TRANSACTION))


def _refusal(body: bytes) -> Refusal:
    (number,) = struct.unpack_from("<H", body)
    text = body[8:] if body[2:3] == b"#" else body[2:]  # behind the SQLSTATE
    return Refusal(number, text.decode("utf-8", "replace"))


def _length(value: int) -> bytes:
    """Encode the length of a value of at most 16 MiB."""
    if value < 0xFB:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    return b"\xfd" + value.to_bytes(3, "little")


def _number(data: bytes, place: int) -> tuple[int, int]:
    """Return the length-encoded number at *place*, and where the next value begins."""
    first = data[place]
    if first < 0xFB:
        return first, place + 1
    size = _SIZES.get(first)
    end = place + 1 + (size or 0)
    if size is None or end > len(data):
        raise IndexError
    return int.from_bytes(data[place + 1 : end], "little"), end
