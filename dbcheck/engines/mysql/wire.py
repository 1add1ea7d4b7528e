"""The packets of a transaction in MySQL's protocol, and the answers to them.

A transaction of one statement executes a prepared one.  One of several is sent as a
single text query, statement behind statement: the server stops at the first that
fails, so that the commit at the end is never reached.  Prepared statements that are
sent one behind the other all run, whatever becomes of the first; that could commit
half a transaction.

A few small queries can be sent in the same way: parse_text_rows() reads their rows.
A query before a transaction, and the answers to both, are read by
parse_row_and_answers().

The layout is that of "MySQL Source Code Documentation", Client/Server Protocol 4.1
(COM_QUERY, COM_STMT_EXECUTE, OK_Packet, ERR_Packet), which MariaDB shares
("Client/Server Protocol" in its knowledge base).  Nothing here touches a socket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from dbcheck.engines.link import ProtocolViolation
from dbcheck.rows.acks import ROW_ID_MAX
from dbcheck.rows.operation import Value
from dbcheck.rows.table import Column, Kind

_COM_QUERY, _COM_STMT_EXECUTE = 0x03, 0x17
_HEAD = struct.Struct("<BIBI")  # command, statement, no cursor, one iteration
# LONGLONG, LONG, SHORT, LONG_BLOB, each signed
_TYPES = {Kind.BIGINT: 0x08, Kind.INTEGER: 0x03, Kind.SMALLINT: 0x02, Kind.BYTES: 0xFB}
_CODES = {Kind.BIGINT: "q", Kind.INTEGER: "i", Kind.SMALLINT: "h"}
_STATUS_BYTES = 4  # two of the status, two of the number of warnings

_SHORT = b"\0\0"  # upper two bytes of the length of a body below 256 bytes
HEADER_BYTES = 4  # length of the body in three bytes, sequence number in one
_BODY_BYTES_MAX = 1 << 16  # far above any answer to a change of one row
_LENGTH_MAX = 0xFFFFFF  # of a packet; a longer body continues in the next packet
_OK, _EOF, _ERR, _NULL = 0x00, 0xFE, 0xFF, 0xFB
_EOF_BYTES = 5  # of the body of an EOF_Packet; a row that begins with 0xFE is longer
# First byte of a length-encoded number: how many bytes of the number follow it.
_NUMBER_BYTES = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_IN_TRANSACTION = 0x0001  # SERVER_STATUS_IN_TRANS
_MORE_RESULTS = 0x0008  # SERVER_MORE_RESULTS_EXISTS


class Ended(ProtocolViolation):
    """The connection ended in the middle of an answer."""


class Ok(msgspec.Struct, frozen=True, gc=False):
    """The server's success reply to one statement.

    rows:    how many rows the statement changed.
    row_id:  the auto-increment id of the new row.
    is_open: a transaction is open after the statement.
    """

    rows: int
    row_id: int
    is_open: bool


class Refusal(NamedTuple):
    """An error: its number in the server's reference, and its message."""

    number: int
    message: str


class Execution:
    """Builds the packets that execute one prepared statement.

    Raise struct.error if a value is out of its column's range.
    """

    def __init__(
        self,
        statement_id: int,
        parameters: Sequence[Column],
        *,
        has_attributes: bool,
    ) -> None:
        """Prepare what is the same in each packet.

        has_attributes: CLIENT_QUERY_ATTRIBUTES was agreed upon, so that the values are
                        counted and named.
        """
        self._head = execution_head(
            statement_id, parameters, has_attributes=has_attributes
        )
        # Values are packed in runs: the integers before the first column of bytes by
        # one struct call; then, for each column of bytes, its value and the integers
        # up to the next such column.
        places = [
            at
            for at, parameter in enumerate(parameters)
            if parameter.kind is Kind.BYTES
        ]
        ends = [*places, len(parameters)]
        self._pack_first, self._first_count = (
            _make_packer(parameters[: ends[0]]),
            ends[0],
        )
        self._runs = [
            (at, end, _make_packer(parameters[at + 1 : end]))
            for at, end in zip(places, ends[1:], strict=True)
        ]

    def packet(self, values: Sequence[Value]) -> bytes:
        """Return the packet that executes the statement with *values*."""
        body = self._head + self._pack_first(*values[: self._first_count])
        for at, end, pack in self._runs:
            content: Any = values[at]
            parts = (
                body,
                encode_length(len(content)),
                content,
                pack(*values[at + 1 : end]),
            )
            body = b"".join(parts)
        return first_packet(body)


def execution_head(
    statement_id: int, parameters: Sequence[Column], *, has_attributes: bool
) -> bytes:
    """Return the bytes before the values; the parameters are those of Execution."""
    head = _HEAD.pack(_COM_STMT_EXECUTE, statement_id, 0, 1)
    if not parameters:
        return head
    name = b"\0" if has_attributes else b""
    kinds = (_TYPES[column.kind] for column in parameters)
    types = b"".join(bytes((kind, 0)) + name for kind in kinds)
    count = encode_length(len(parameters)) if has_attributes else b""
    null_bits = bytes((len(parameters) + 7) // 8)  # no value is NULL
    return head + count + null_bits + b"\1" + types


def first_packet(body: bytes) -> bytes:
    """Return the packet of a body below _LENGTH_MAX; its sequence number is 0."""
    return len(body).to_bytes(HEADER_BYTES, "little") + body


def _make_packer(integers: Sequence[Column]) -> Callable[..., bytes]:
    return struct.Struct("<" + "".join(_CODES[column.kind] for column in integers)).pack


def query_packets(text: bytes, *, has_attributes: bool) -> bytes:
    """Return the packets that send *text*, which may hold several statements."""
    body = bytes((_COM_QUERY,)) + (b"\0\1" if has_attributes else b"") + text
    if len(body) < _LENGTH_MAX:  # quick, for the usual text
        return first_packet(body)
    pieces: list[bytes] = []
    for number, at in enumerate(range(0, len(body) + 1, _LENGTH_MAX)):
        part = body[at : at + _LENGTH_MAX]
        pieces += (len(part).to_bytes(3, "little"), bytes((number & 0xFF,)), part)
    return b"".join(pieces)


class Template:
    """Fills the values of one statement into its text, whatever the SQL mode."""

    def __init__(self, text: bytes, parameters: Sequence[Column]) -> None:
        """Take the statement's text, with a question mark for each parameter."""
        marks = (
            b"x'%b'" if parameter.kind is Kind.BYTES else b"%d"
            for parameter in parameters
        )
        first, *others = text.replace(b"%", b"%%").split(b"?")
        pieces = (b"".join(pair) for pair in zip(marks, others, strict=True))
        self._format = b"".join((first, *pieces))
        self._bytes_places = [
            at
            for at, parameter in enumerate(parameters)
            if parameter.kind is Kind.BYTES
        ]

    def filled(self, values: Sequence[Value]) -> bytes:
        """Return the statement with *values*; bytes are written in hexadecimal."""
        texts: list[Any] = list(values)
        for at in self._bytes_places:
            texts[at] = texts[at].hex().encode()
        return self._format % tuple(texts)


def parse_answers(
    data: bytes, count: int, before: int = 0
) -> list[Ok] | Refusal | None:
    """Return the answers to *count* statements, None if they are not all there yet.

    before: packets of the same answer that came before *data*.
    If the server refused a statement, that Refusal is returned alone: no answer
    follows it.  Raise ProtocolViolation if *data* holds anything else, or anything
    after the answers.
    """
    if count == 1 and data[1:3] == _SHORT and len(data) == HEADER_BYTES + data[0]:
        # quick, for the usual answer
        reply = _parse_answer(data, 0, len(data), before + 1, is_last=True)
        return reply if isinstance(reply, Refusal) else [reply]
    successes: list[Ok] = []
    at, size = 0, len(data)
    for number in range(before + 1, before + count + 1):
        if size < at + HEADER_BYTES:
            return None
        length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        if length > _BODY_BYTES_MAX:
            raise ProtocolViolation(
                f"the server announced a reply of {length} bytes, too long for its kind"
            )
        end = at + HEADER_BYTES + length
        if size < end:
            return None
        reply = _parse_answer(data, at, end, number, is_last=number == before + count)
        at = end
        if isinstance(reply, Refusal):
            break
        successes.append(reply)
    if size > at:
        raise ProtocolViolation(
            "the server sent more replies than statements were sent"
        )
    return reply if isinstance(reply, Refusal) else successes


TextRow = tuple[str | None, ...]
Texts = list[TextRow]


def parse_row_and_answers(
    data: bytes, columns: int, count: int
) -> tuple[TextRow, list[Ok]] | Refusal | None:
    """Return the row of a query, and the answers to the *count* statements behind it.

    None if they are not all there yet.  Raise ProtocolViolation as parse_answers()
    does, and if the query has not one row of *columns* values.
    """
    bodies, _ = _split_packets(data)
    ends = [n for n, body in enumerate(bodies) if _is_eof(body)][:2]
    if len(ends) < 2:  # one EOF ends the columns, one the rows
        refusals = [body for body in bodies if body[0] == _ERR]
        return _parse_query_refusal(refusals[0]) if refusals else None
    packets = ends[1] + 1
    size = sum(HEADER_BYTES + len(body) for body in bodies[:packets])
    results = parse_text_rows(data[:size], 1)
    answers = parse_answers(data[size:], count, packets)
    if answers is None or isinstance(answers, Refusal):
        return answers
    if not isinstance(results, list) or [len(row) for row in results[0]] != [columns]:
        raise ProtocolViolation("unexpected reply to a query")
    return results[0][0], answers


def parse_text_rows(data: bytes, count: int) -> list[Texts] | Refusal | None:
    """Return the rows of each of *count* queries, None if they are not all there yet.

    Each value is the text that the server wrote, None for NULL ("Text Resultset").
    Raise ProtocolViolation if *data* holds anything else, or anything after them.
    """
    bodies, ends_whole = _split_packets(data)
    results: list[Texts] = []
    place = 0
    while len(results) < count:
        ends = [n for n in range(place, len(bodies)) if _is_eof(bodies[n])][:2]
        if place < len(bodies) and bodies[place][:1] == bytes((_ERR,)):
            return _parse_query_refusal(bodies[place])
        if len(ends) < 2:  # one EOF ends the columns, one the rows
            return None
        columns_end, rows_end = ends
        if columns_end - place != bodies[place][0] + 1:
            raise ProtocolViolation("unexpected reply to a query")
        results.append(
            [
                _parse_row(body, bodies[place][0])
                for body in bodies[columns_end + 1 : rows_end]
            ]
        )
        place = rows_end + 1
    if place < len(bodies) or not ends_whole:
        raise ProtocolViolation("the server sent more than the rows of the queries")
    return results


def _parse_query_refusal(body: bytes) -> Refusal:
    try:
        return _parse_refusal(body[1:])
    except struct.error:
        raise ProtocolViolation("unexpected reply to a query") from None


def _split_packets(data: bytes) -> tuple[list[bytes], bool]:
    """Return the bodies of the whole packets, and whether no part of one follows."""
    bodies, at = [], 0
    while at + HEADER_BYTES <= len(data):
        size = int.from_bytes(data[at : at + 3], "little")
        if size > _BODY_BYTES_MAX or not size:
            raise ProtocolViolation(f"the server announced a packet of {size} bytes")
        if at + HEADER_BYTES + size > len(data):
            break
        bodies.append(data[at + HEADER_BYTES : at + HEADER_BYTES + size])
        at += HEADER_BYTES + size
    return bodies, at == len(data)


def _is_eof(body: bytes) -> bool:
    return body[0] == _EOF and len(body) == _EOF_BYTES


def _parse_row(body: bytes, count: int) -> tuple[str | None, ...]:
    """Return the values of a row."""
    values: list[str | None] = []
    place = 0
    try:
        for _ in range(count):
            if body[place] == _NULL:
                values.append(None)
                place += 1
                continue
            size, place = _parse_length(body, place)
            values.append(body[place : place + size].decode("utf-8", "replace"))
            place += size
    except IndexError:
        place = -1
    if place != len(body):
        raise ProtocolViolation("a row of the server's answer has another length")
    return tuple(values)


def _parse_answer(
    data: bytes, at: int, end: int, number: int, *, is_last: bool
) -> Ok | Refusal:
    """Return the answer that data[at:end] is.

    number: the sequence number that its packet must have.
    """
    try:
        kind = data[at + HEADER_BYTES] if at + HEADER_BYTES < end else None
        if kind == _OK and data[at + 3] == number:
            return _parse_ok(data, at + HEADER_BYTES + 1, end, is_last=is_last)
        if kind == _ERR:
            return _parse_refusal(data[at + HEADER_BYTES + 1 : end])
    except (IndexError, struct.error):
        pass
    raise ProtocolViolation("unexpected reply to a statement")


def _parse_ok(data: bytes, place: int, end: int, *, is_last: bool) -> Ok:
    rows, place = _parse_length(data, place)
    row_id, place = _parse_length(data, place)
    if place + _STATUS_BYTES > end:
        raise IndexError
    if row_id > ROW_ID_MAX:
        raise ProtocolViolation(f"the server returned the impossible row id {row_id}")
    status = data[place] | data[place + 1] << 8
    if bool(status & _MORE_RESULTS) is is_last:
        what = "announces more replies" if is_last else "ends the replies"
        raise ProtocolViolation(f"the server {what} than there are statements")
    return Ok(rows, row_id, bool(status & _IN_TRANSACTION))


def _parse_refusal(body: bytes) -> Refusal:
    (number,) = struct.unpack_from("<H", body)
    text = body[8:] if body[2:3] == b"#" else body[2:]  # behind the SQLSTATE
    return Refusal(number, text.decode("utf-8", "replace"))


def encode_length(value: int) -> bytes:
    """Encode the length of a value of at most 16 MiB, or another small number."""
    if value < 0xFB:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    return b"\xfd" + value.to_bytes(3, "little")


def _parse_length(data: bytes, place: int) -> tuple[int, int]:
    """Return the length-encoded number at *place*, and where the next value begins."""
    first = data[place]
    if first < 0xFB:
        return first, place + 1
    size = _NUMBER_BYTES.get(first)
    end = place + 1 + (size or 0)
    if size is None or end > len(data):
        raise IndexError
    return int.from_bytes(data[place + 1 : end], "little"), end
