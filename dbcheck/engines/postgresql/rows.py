"""Rows out of PostgreSQL's binary COPY, many at once.

The layout is that of the PostgreSQL 17 manual, COPY, "Binary Format"; its 53.2.6 says
that the server sends a message for each row.

psycopg2 writes each message to a file object, but dbcheck wants to read messages when
it needs them: so psycopg2 runs in a thread, which waits until messages are asked for.
The thread and the reader never run at once: both need the interpreter's lock, and
fighting for it at every message takes longer than they could save.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import psycopg2.extensions

from dbcheck.engines.link import ProtocolViolation
from dbcheck.rows.survivors import INTACT, RECORD, RowBatch, take_items_at

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(4)  # no flags
_HEADER = _SIGNATURE + bytes(4)  # no extension
_TRAILER = b"\xff\xff"  # instead of a number of fields

# The parts of a row before its payload (_HEAD) and behind it (_TAIL).  Each value has
# its length before it; the length of a NULL is -1.
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
_CONSTANT_FIELDS = {
    "fields": len(_FIELDS) + 2,
    **{f"{name}_bytes": np.dtype(kind).itemsize for name, kind in _FIELDS},
}
BATCH_BYTES = 2 << 20
Messages = list[bytes]


class CopyParser:
    """Follows a COPY from its header to its trailer."""

    def __init__(self) -> None:
        self._began = self._ended = False

    def parse(self, messages: list[bytes]) -> RowBatch | None:
        """Return the rows of the next messages, None if the messages have none.

        messages: [] at the end of the COPY.
        Raise ProtocolViolation if they are not a COPY of the table.
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
    heads = take_items_at(content, begins, _HEAD)
    payload_sizes = sizes - (_HEAD.itemsize + _TAIL.itemsize)
    tails = take_items_at(content, begins + _HEAD.itemsize + payload_sizes, _TAIL)
    are_rows = (heads["payload_bytes"] == payload_sizes) & (
        tails["checksum_bytes"] == 8
    )
    for name, value in _CONSTANT_FIELDS.items():
        are_rows &= heads[name] == value
    if not are_rows.all():
        raise ProtocolViolation("a COPY message is not a row of the table")
    records = np.empty(len(messages), RECORD)
    for name, _ in _FIELDS:
        records[name] = heads[name]
    records["checksum"] = tails["checksum"]
    records["content"] = INTACT
    return RowBatch(records, content, begins + _HEAD.itemsize, payload_sizes)


class _Stopped(Exception):
    """The reader wants no more messages."""


class Copy:
    """A running COPY; a context manager that ends it, and its connection if need be."""

    def __init__(
        self,
        connection: psycopg2.extensions.connection,
        statement: str,
        sever: Callable[[], None],
    ) -> None:
        """Begin *statement*.  sever: break the connection, from another thread."""
        self._connection, self._statement, self._sever = connection, statement, sever
        self._batches: queue.SimpleQueue[Messages | BaseException]
        self._batches = queue.SimpleQueue()
        self._wanted = threading.Semaphore(0)
        self._messages: Messages = []
        self._room = BATCH_BYTES
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        if self._thread.is_alive():
            self._sever()
        self._wanted.release()
        self._thread.join()

    def read(self) -> Messages:
        """Return the next messages, [] at the end.

        Their bytes exceed BATCH_BYTES by the last message at most.  Raise
        psycopg2.Error if the COPY failed.  Do not call it again after the end.
        """
        self._wanted.release()
        batch = self._batches.get()
        if isinstance(batch, BaseException):
            raise batch
        return batch

    def write(self, message: bytes) -> None:
        """Take a message; psycopg2 calls this, in the thread."""
        self._messages.append(message)
        self._room -= len(message)
        if self._room <= 0:
            self._hand_over()

    def _hand_over(self) -> None:
        self._batches.put(self._messages)
        self._messages = []
        self._room = BATCH_BYTES
        self._await_turn()

    def _await_turn(self) -> None:
        self._wanted.acquire()
        if self._stopped:
            raise _Stopped

    def _run(self) -> None:
        try:
            self._await_turn()
            with self._connection.cursor() as cursor:
                cursor.copy_expert(self._statement, self)
            if self._messages:
                self._hand_over()
            self._batches.put([])
        except _Stopped:
            pass
        except BaseException as error:
            self._batches.put(error)
