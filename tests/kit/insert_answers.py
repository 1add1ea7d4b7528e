"""A relay before a real PostgreSQL that answers the load's inserts itself, as told."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.kit.waiting import wait_until

_READ_BYTES = 1 << 20
_INSERT = b"\0dbcheck_insert_ledger\0"  # an unnamed portal of the statement
_SYNC = b"S\0\0\0\4"

CLOSE = None  # in a reply: the connection ends
Reply = Sequence[bytes | None]  # pieces, each of which the client has read by itself


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message of the protocol's version 3."""
    return kind + struct.pack("!i", len(body) + 4) + body


def row_of(*values: bytes | None) -> bytes:
    body = struct.pack("!h", len(values))
    for value in values:
        length = -1 if value is None else len(value)
        body += struct.pack("!i", length) + (value or b"")
    return message(b"D", body)


def says(kind: bytes, severity: str, code: str, text: str) -> bytes:
    """Return an error (E) or a notice (N)."""
    fields = {"S": severity, "V": severity, "C": code, "M": text}
    body = b"".join(f"{key}{value}\0".encode() for key, value in fields.items())
    return message(kind, body + b"\0")


def tag(text: bytes) -> bytes:
    return message(b"C", text + b"\0")


def id_of(session: int, seq: int) -> int:
    """Return the id that an insert is answered with, if nothing else is said."""
    return session << 32 | seq


BOUND = message(b"2")
# One column of type bigint, in binary.
COLUMNS = message(b"T", b"\0\1id\0" + struct.pack("!ihihih", 0, 0, 20, 8, -1, 1))
IDLE, OPEN, FAILED = (message(b"Z", state) for state in (b"I", b"T", b"E"))
DONE = tag(b"INSERT 0 1")


def row_with_id(session: int, seq: int) -> bytes:
    return row_of(struct.pack("!q", id_of(session, seq)))


def ack(session: int, seq: int) -> bytes:
    return BOUND + COLUMNS + row_with_id(session, seq) + DONE + IDLE


class Insert(NamedTuple):
    """An insert that a session sent by itself, not in a pipeline."""

    session: int
    seq: int
    values: tuple[bytes, ...]


class InsertAnswers:
    """Listens on a port of its own; a context manager.

    answer: returns the reply to an insert.
    """

    def __init__(self, port: int, answer: Callable[[Insert], Reply]) -> None:
        self._target, self._answer = port, answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.inserts: list[Insert] = []
        self.pieces = 0  # of replies, that were sent
        self._ends: dict[socket.socket, tuple[socket.socket, bool]] = {}
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self._thread.join()
        for each in (*self._ends, self._listener, self._stopped):
            each.close()

    def _run(self) -> None:
        while True:
            waited = [self._listener, self._stopped, *self._ends]
            for ready in select.select(waited, [], [])[0]:
                if ready is self._stopped:
                    return
                if ready is self._listener:
                    self._accept()
                elif ready in self._ends:
                    self._pass_on(ready)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._target))
        for one, other, is_client in ((client, server, True), (server, client, False)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends[one] = other, is_client

    def _pass_on(self, end: socket.socket) -> None:
        other, is_client = self._ends[end]
        try:
            data = end.recv(_READ_BYTES)
            if data and is_client and data[5:].startswith(_INSERT):
                while not data.endswith(_SYNC):  # a long one comes in pieces
                    data += end.recv(_READ_BYTES)
                insert = _parse(data)
                self.inserts.append(insert)
                for piece in self._answer(insert):
                    if piece is CLOSE:
                        data = b""
                        break
                    end.sendall(piece)
                    self.pieces += 1
                    wait_until(lambda: _is_read(end), "the client has read it")
            elif data:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for one in (end, other):
                del self._ends[one]
                one.close()


def _parse(data: bytes) -> Insert:
    """Read a message Bind; the rest of *data* is Describe, Execute and Sync."""
    place = 5 + len(_INSERT)
    (formats,) = struct.unpack_from("!h", data, place)
    place += 2 + 2 * formats
    (count,) = struct.unpack_from("!h", data, place)
    values = tuple(_values(data, place + 2, count))
    session, seq = (int.from_bytes(values[number]) for number in (1, 2))
    return Insert(session, seq, values)


def _values(data: bytes, place: int, count: int) -> Iterator[bytes]:
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, place)
        place += 4
        yield data[place : place + length]
        place += length


def _is_read(end: socket.socket) -> bool:
    """Return True if the other end of a connection on this machine has read all."""
    with contextlib.suppress(OSError):
        there, here = end.getpeername()[1], end.getsockname()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, _, queues, *_ = line.split()
            ports = [int(address.rpartition(":")[2], 16) for address in (local, remote)]
            if ports == [there, here]:
                return int(queues.rpartition(":")[2], 16) == 0
    return True  # the connection is gone
