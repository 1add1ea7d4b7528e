"""Rows in bulk, as each server sends them, beside readers that take field by field."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import mysql.connector
import psycopg2

from dbcheck.engines.link import ProtocolViolation
from dbcheck.engines.mysql import rows as mysql_rows
from dbcheck.engines.mysql.rows import Layout, RowReader
from dbcheck.engines.postgresql import rows as postgresql_rows
from dbcheck.engines.postgresql.rows import Copy, CopyParser
from dbcheck.rows.acks import Row
from tests.fuzz.script import Script, edit_bytes
from tests.fuzz.target import Target
from tests.kit.tables import (
    COPY_HEADER,
    COPY_TRAILER,
    MYSQL_END,
    MYSQL_TYPES,
    binary,
    copied,
    packets,
)

_PAYLOADS = (0, 1, 7, 8, 250, 251, 252, 300, 65535, 65536)
_NUMBERS = (0, 1, -1, -2, -8, -9, 127, -(1 << 15), (1 << 15) - 1)
_LENGTHS = tuple(bytes((first,)) for first in (0, 1, 8, *range(0xFA, 0x100)))
_ERRORS = (
    b"\xff\x7a\x04#42S02no such table",
    *(b"\xff", b"\xff\x7a", b"\xff\x7a\x04", b"\xff\x7a\x04#42", b"\xff\0\0\xff\xfe"),
)
_ONE_BATCH = 1 << 20


# How reading came out, of the fast reader and of the slow one.
WHOLE, REFUSED, FAILED, STOPPED, MORE = "whole", "refused", "failed", "stopped", "more"


class Refused(Exception):
    """The slow reader has found what is no row of the table."""


class Fields:
    """One row's bytes, taken from the front."""

    def __init__(self, content: bytes) -> None:
        self._left = content

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._left):
            raise Refused
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(kind, self.take(struct.calcsize(kind)))
        return int(value)

    def is_more(self) -> bool:
        return bool(self._left)

    def end(self) -> None:
        if self._left:
            raise Refused


def _rows(script: Script) -> list[Row]:
    """Return some rows, with more of the small ones."""
    made = []
    for _ in range(script.below(6)):
        size = script.choice(_PAYLOADS[: 6 if script.below(8) else None])
        key = [script.choice(_NUMBERS) for _ in range(5)]
        made.append(Row._make((*key, bytes(size), script.choice(_NUMBERS))))
    return made


# ------------------------------------------------------------------------- PostgreSQL


class _Connection:
    """Pushes messages to a file, and then fails if it is to."""

    def __init__(self, messages: list[bytes], *, fails: bool) -> None:
        self._messages, self._fails = messages, fails

    def cursor(self) -> contextlib.AbstractContextManager[_Connection]:
        return contextlib.nullcontext(self)

    def copy_expert(self, _statement: str, file: Any) -> None:
        for message in self._messages:
            file.write(message)
        if self._fails:
            raise psycopg2.OperationalError("it failed")


def _copy_row(message: bytes) -> Row:
    fields = Fields(message)
    if fields.number(">h") != 7:
        raise Refused
    values: list[Any] = []
    for kind in (">q", ">q", ">i", ">q", ">h", "", ">q"):
        size = fields.number(">i")
        if kind and size != struct.calcsize(kind):
            raise Refused
        values.append(fields.number(kind) if kind else fields.take(size))
    fields.end()
    return Row(*values)


def slow_copy(messages: list[bytes], rows: list[Row]) -> str:
    """Add the rows of a COPY one by one; raise Refused at what is none."""
    if not messages or not messages[0].startswith(COPY_HEADER):
        raise Refused
    first = messages[0].removeprefix(COPY_HEADER)
    bodies = [first, *messages[1:]] if first else messages[1:]
    for at, body in enumerate(bodies, 1):
        if body == COPY_TRAILER and at == len(bodies):
            return WHOLE
        rows.append(_copy_row(body))
    raise Refused


def copy(data: bytes) -> None:
    """A COPY gives the rows that the slow reader finds, however it is cut, or none.

    A reader that stops early, or meets an error, leaves no thread.
    """
    script = Script(data)
    messages = [*map(copied, _rows(script)), COPY_TRAILER]
    if script.below(2):
        messages = [COPY_HEADER + messages[0], *messages[1:]]
    else:
        messages = [COPY_HEADER, *messages]
    for _ in range(script.below(4)):
        at = script.below(len(messages) or 1)
        how = script.below(4)
        if how == 0:
            del messages[at : at + 1]
        elif how == 1:
            messages.insert(at, script.choice((b"", COPY_TRAILER, COPY_HEADER)))
        elif messages:
            messages[at] = edit_bytes(script, messages[at])
    fails, stop = not script.below(8), script.choice((99, 99, 99, 0, 1, 2))
    size = script.choice((1, 100, 1000, _ONE_BATCH))
    said: Any = _Connection(messages, fails=fails)
    found = list[Row]()
    with mock.patch.object(postgresql_rows, "BATCH_BYTES", size):
        with Copy(said, "", lambda: None) as running:
            try:
                outcome = read_copy(running, stop, found)
            except psycopg2.OperationalError:
                assert fails
                outcome = FAILED
            except ProtocolViolation:
                outcome = REFUSED
        assert not running._thread.is_alive()
    _agree(found, STOPPED if fails else outcome, partial(slow_copy, messages))


def read_copy(running: Copy, stop: int, found: list[Row]) -> str:
    """Add the rows of at most *stop* batches, as the engine reads them."""
    parser = CopyParser()
    for _ in range(stop):
        batch = running.read()
        found += parser.parse(batch) or []
        if not batch:
            return WHOLE
    return STOPPED


# ------------------------------------------------------------------------------ MySQL


def _result_row(body: bytes) -> Row:
    fields = Fields(body)
    if fields.take(3) != bytes(3):
        raise Refused
    key = [fields.number(kind) for kind in ("<q", "<q", "<i", "<q", "<h")]
    first = fields.number("B")
    more = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if first in (0xFB, 0xFF):
        raise Refused
    size = int.from_bytes(fields.take(more), "little") if more else first
    payload = fields.take(size)
    checksum = fields.number("<q")
    fields.end()
    return Row._make((*key, payload, checksum))


def slow_result(stream: bytes, rows: list[Row]) -> str:
    """Add the rows in packets one by one, up to their end or the server's error."""
    left = Fields(stream)
    while True:
        body = left.take(int.from_bytes(left.take(4)[:3], "little"))
        if body[:1] == b"\xff":
            return FAILED
        if body[:1] == b"\xfe":
            return MORE if left.is_more() else WHOLE
        rows.append(_result_row(body))


def result(data: bytes) -> None:
    """A result gives the rows that the slow reader finds, however it arrives."""
    script = Script(data)
    end = MYSQL_END if script.below(4) else script.choice(_ERRORS)
    bodies = [*map(binary, _rows(script)), end]
    for _ in range(script.below(4)):
        at = script.below(len(bodies))
        if script.below(3):
            bodies[at] = edit_bytes(script, bodies[at])
        else:  # the first byte of a payload's length
            bodies[at] = bodies[at][:33] + script.choice(_LENGTHS) + bodies[at][34:]
    stream = b"".join(
        packets(body, number) or bytes(4) for number, body in enumerate(bodies)
    )
    if not script.below(6):
        stream = edit_bytes(script, stream)
    room, left = script.choice((64, 300, _ONE_BATCH)), memoryview(stream)
    step = script.choice(
        (1, 50, 1000, _ONE_BATCH) if len(stream) < 3000 else (1000, _ONE_BATCH)
    )

    def read(into: memoryview) -> int:
        nonlocal left
        assert len(into), "there is no room"
        count = min(len(left), len(into), step)
        into[:count], left = left[:count], left[count:]
        return count

    found = list[Row]()
    with mock.patch.object(mysql_rows, "BATCH_BYTES", room):
        reader = RowReader(Layout(MYSQL_TYPES), read)
        try:
            for batch in reader.batches():
                found += batch
            outcome = WHOLE
        except ProtocolViolation:
            outcome = REFUSED
        except mysql.connector.Error:
            outcome = FAILED
    assert len(reader._buffer) <= 2 * (room + (1 << 24))
    _agree(found, outcome, partial(slow_result, stream))


# ------------------------------------------------------------------------------- both

# What the slow reader may have found where the fast one came out so.  What comes behind
# the end is seen only if it was read with it; an empty packet may look like an error.
_AGREES = {
    WHOLE: {WHOLE, MORE},
    REFUSED: {REFUSED, MORE},
    FAILED: {FAILED, REFUSED},
}


def _agree(found: list[Row], outcome: str, slow: Callable[[list[Row]], str]) -> None:
    """Compare with the slow reader, as far as both came."""
    truth = list[Row]()
    try:
        slowly = slow(truth)
    except Refused:
        slowly = REFUSED
    assert found == truth[: len(found)]
    assert outcome == STOPPED or slowly in _AGREES[outcome], (outcome, slowly)
    assert outcome != WHOLE or len(found) == len(truth)


def choices() -> Iterator[bytes]:
    yield b""
    for step in range(48):
        yield bytes((step * 17 + place * (step + 3)) % 256 for place in range(48))


TARGETS = (
    Target("copy-rows", copy, choices),
    Target("result-rows", result, choices),
)
