"""SQL servers whose answers have no end, or none in time: each is left."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown, EngineError
from dbcheck.cycle.recovery import survivors as reader
from dbcheck.engines.link import ProtocolViolation
from dbcheck.engines.mysql import link as mysql_link
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.rows import Layout, RowReader
from dbcheck.engines.postgresql import libpq
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.rows.acks import Row
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import LEDGER, TableFacts, TableSpec
from tests.kit.hostile import EOF, OK, MysqlPeer, PgPeer, hostile
from tests.kit.nodes import site_of
from tests.kit.operations import INSERTS
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST
from tests.kit.tables import MYSQL_TYPES
from tests.kit.threads import new_threads

NATIVE = "mysql_native_password"
COM_STMT_PREPARE = b"\x16"
MIB = bytes(1 << 20)


@contextlib.contextmanager
def server(
    kind: type[MysqlPeer | PgPeer], answer: Callable[[Any], object]
) -> Iterator[dict[str, Any]]:
    """Yield the driver's arguments for a server that answers so."""

    def serve(client: socket.socket) -> None:
        with contextlib.closing(kind(client)) as peer:
            answer(peer)

    with hostile(serve) as port:
        yield {"host": "127.0.0.1", "port": port, "user": "eve"}


def drip(wire: socket.socket, content: bytes) -> None:
    """Send it byte by byte, none of which comes too late, until the client hangs up."""
    for byte in content:
        if select.select([wire], [], [], 0.05)[0]:
            return
        wire.sendall(bytes((byte,)))


def flood(wire: socket.socket, content: bytes) -> None:
    """Send it again and again until the client hangs up.

    A client that is gone may leave its last window closed for minutes: send() alone
    would wait for as long.
    """
    left = memoryview(b"")
    while True:
        left = left or memoryview(content)
        readable, writable, _ = select.select([wire], [wire], [])
        if readable and not wire.recv(1 << 16):
            return
        if writable:
            left = left[wire.send(left, socket.MSG_DONTWAIT) :]


# -------------------------------------------------------------------------- the login


@pytest.mark.parametrize("so_far", ["nothing", "logged in"])
def test_a_login_to_mysql_ends_in_time(
    so_far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_link, "_LOGIN_PACKETS", 0.3)

    def answer(peer: MysqlPeer) -> None:
        if so_far == "logged in":
            peer.greet(NATIVE)
            peer.send(OK)
            peer.receive()
        drip(peer.wire, b"\xff\xff\xff\0" + bytes(99))

    with (
        server(MysqlPeer, answer) as arguments,
        refused(
            ErrorId.CONNECTION_FAILED, EngineError, naming="took longer than 0.3 s"
        ),
    ):
        MysqlLink("db1", arguments, 1)


def test_a_login_to_postgresql_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver sets the form of dates, and knows no limit of time for that."""
    monkeypatch.setattr(libpq, "LOGIN_S", 0.0)
    left = threading.Event()

    def answer(peer: PgPeer) -> None:
        peer.greet(date_style="German")
        peer.receive()
        left.wait(5)

    with server(PgPeer, answer) as arguments:
        before = threading.enumerate()
        with refused(
            ErrorId.SERVER_NOT_ANSWERING, EngineError, naming=("the login", "0.5")
        ):
            PostgresqlLink("db1", arguments, 0.5)
        assert new_threads(before) == []
        left.set()


def test_a_login_to_mysql_without_end() -> None:
    """What the driver asks for after the login counts as well."""
    head = b"\x03def" + bytes(3) + b"\xfd"
    tail = b"\0" + struct.pack("<BHIBHB2x", 12, 45, 0, 0xFD, 0, 0)

    def answer(peer: MysqlPeer) -> None:
        peer.greet(NATIVE)
        peer.send(OK)
        peer.receive()
        peer.send(b"\xfd\xff\xff\xff")  # so many columns
        while True:
            peer.send(head + len(MIB).to_bytes(3, "little") + MIB + tail)

    with (
        server(MysqlPeer, answer) as arguments,
        refused(
            ErrorId.CONNECTION_FAILED,
            EngineError,
            naming="sent more than 16 MiB at the login",
        ),
    ):
        MysqlLink("db1", arguments, 10)


def test_a_login_to_postgresql_without_end() -> None:
    def answer(peer: PgPeer) -> None:
        peer.greet(date_style="German")
        peer.receive()
        while True:
            peer.rows(MIB)

    with (
        server(PgPeer, answer) as arguments,
        refused(
            ErrorId.ANSWER_TOO_LARGE, EngineError, naming=("more than 16", "the login")
        ),
    ):
        PostgresqlLink("db1", arguments, 10)


# ---------------------------------------------------------------------------- answers


def test_an_answer_of_mysql_without_end() -> None:
    def answer(peer: MysqlPeer) -> None:
        peer.greet(NATIVE)
        peer.send(OK)
        for _ in range(3):  # what the driver sets itself
            peer.receive()
            peer.send(OK)
        peer.receive()
        peer.columns()
        row = b"\xfd" + len(MIB).to_bytes(3, "little") + MIB
        flood(peer.wire, len(row).to_bytes(3, "little") + b"\0" + row)

    with (
        server(MysqlPeer, answer) as arguments,
        refused(ErrorId.ANSWER_TOO_LARGE, EngineError, naming="more than 16"),
    ):
        MysqlLink("db1", arguments, 5)


def test_an_answer_of_postgresql_without_end() -> None:
    def answer(peer: PgPeer) -> None:
        peer.greet()
        peer.receive()
        peer.rows()
        row = struct.pack("!hi", 1, len(MIB)) + MIB
        flood(peer.wire, b"D" + struct.pack("!i", len(row) + 4) + row)

    with (
        server(PgPeer, answer) as arguments,
        refused(ErrorId.ANSWER_TOO_LARGE, EngineError, naming="more than 16"),
    ):
        PostgresqlLink("db1", arguments, 5)


@pytest.mark.parametrize("kind", [b"G", b"T"])
def test_an_answer_to_an_insert_without_end(kind: bytes) -> None:
    """G: libpq gives a result of that COPY whenever it is asked; T: a long message."""

    def answer(peer: PgPeer) -> None:
        peer.greet()
        peer.obey(until=b"\0dbcheck_insert_ledger\0")
        if kind == b"G":
            peer.send((b"2", b""), (kind, b"\0\0\0"))
            peer.wire.recv(1 << 10)
        else:
            peer.wire.sendall(kind + struct.pack("!i", 1 << 30))
            flood(peer.wire, MIB)

    with server(PgPeer, answer) as arguments:
        session = PostgresqlSession("db1", arguments, (INSERT,))
        with contextlib.closing(session):
            session.send(INSERTS.operation(1, 1))
            with refused(
                ErrorId.COMMIT_UNKNOWN, CommitUnknown, naming="replies without end"
            ):
                while select.select([session], [], [], 30)[0]:
                    assert session.receive() is None


# ------------------------------------------------------------------------------- rows


def test_a_row_of_mysql_without_end() -> None:
    packet = b"\xff\xff\xff\0" + bytes(0xFFFFFF)  # which the next one continues
    left = memoryview(packet * 6)

    def read(into: memoryview) -> int:
        nonlocal left
        count = min(len(left), len(into))
        into[:count], left = left[:count], left[count:]
        return count

    with pytest.raises(ProtocolViolation, match="a row is longer than 64 MiB"):
        list(RowReader(Layout(MYSQL_TYPES), read).batches())


def test_a_row_of_postgresql_without_end() -> None:
    def answer(peer: PgPeer) -> None:
        peer.greet()
        peer.obey(until=b"copy ")
        peer.send((b"H", b"\x01\0\0"))
        peer.wire.sendall(b"d" + struct.pack("!i", 1 << 30))
        flood(peer.wire, MIB)

    with (
        server(PgPeer, answer) as arguments,
        PostgresqlLink("db1", arguments, 5) as link,
        refused(ErrorId.ANSWER_TOO_LARGE, EngineError, naming="more than 64"),
    ):
        list(link.stream((LEDGER,)))


def begin_rows(peer: MysqlPeer) -> None:
    """Take a login and the statement that reads rows; send the columns of its rows."""
    peer.greet(NATIVE)
    peer.send(OK)
    while peer.receive()[:1] != COM_STMT_PREPARE:
        peer.send(OK)
    peer.send(b"\0" + struct.pack("<IHHBH", 1, 0, 0, 0, 0))
    peer.receive()
    peer.columns(*MYSQL_TYPES)


def test_rows_of_mysql_that_drip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and all together do not."""
    monkeypatch.setattr(mysql_link, "SCAN_S", 0.3)
    monkeypatch.setattr(MysqlLink, "_fix_session", lambda *_: None)
    monkeypatch.setattr(MysqlLink, "_require_engine", lambda *_: None)

    def answer(peer: MysqlPeer) -> None:
        begin_rows(peer)
        drip(peer.wire, b"\xff\xff\xff\0" + bytes(99))

    with (
        server(MysqlPeer, answer) as arguments,
        contextlib.closing(MysqlLink("db1", arguments, 5)) as link,
        refused(
            ErrorId.SERVER_NOT_ANSWERING,
            EngineError,
            naming=("survivors_ledger", "0.3"),
        ),
    ):
        list(link.stream((LEDGER,)))


def test_rows_that_are_no_rows_come_from_another_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MysqlLink, "_fix_session", lambda *_: None)
    monkeypatch.setattr(MysqlLink, "_require_engine", lambda *_: None)

    def answer_as_mysql(peer: MysqlPeer) -> None:
        begin_rows(peer)
        peer.send(b"\0\0")  # a row that ends before its columns
        peer.send(EOF)
        peer.wire.recv(1 << 10)

    def answer_as_postgresql(peer: PgPeer) -> None:
        peer.greet()
        peer.obey(until=b"copy ")
        peer.send((b"H", b"\x01\0\0"), (b"d", b"no rows of COPY at all"))
        peer.send((b"c", b""), (b"C", b"COPY 0\0"), (b"Z", b"I"))
        peer.wire.recv(1 << 10)

    for peer, link, answer in (
        (MysqlPeer, MysqlLink, answer_as_mysql),
        (PgPeer, PostgresqlLink, answer_as_postgresql),
    ):
        with (
            server(peer, answer) as arguments,
            contextlib.closing(link("db1", arguments, 5)) as opened,
            refused(ErrorId.ANSWER_NOT_UNDERSTOOD, EngineError) as caught,
        ):
            list(opened.stream((LEDGER,)))
        assert "survivors_ledger" in str(caught.value)
        assert "leads to the database server itself" in caught.value.hint


@pytest.mark.parametrize(("before", "sent"), [(0, 0), (2, 0), (0, 2)])
def test_more_rows_than_there_can_be(
    before: int, sent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_ROWS_MORE", 10)
    most = 10 + 4 * (before + sent)
    batch = RowBatch.of([Row(1, 1, 1, 1, 0, b"x", 0)] * most)
    last = RowBatch.of([Row(1, 1, 1, 1, 0, b"x", 0)])

    def survivors(*_: Any, **__: Any) -> Iterator[tuple[TableSpec, RowBatch]]:
        yield LEDGER, batch
        yield LEDGER, last

    target = "postgresql://u@h/d"
    engine = SimpleNamespace(survivors=survivors, target=target)
    load = SimpleNamespace(sent={1: sent}, acked={1: sent})
    run = SimpleNamespace(load=lambda: load)
    manifest = replace(MANIFEST, tables={"ledger": TableFacts({1: before}, before)})
    rig = SimpleNamespace(site=site_of(engine), listener=RecordingListener())
    parts: list[Any] = [rig, run, manifest, None]
    batches = reader.Survivors(*parts)._batches((LEDGER,))
    assert len(next(batches)[1]) == most
    said = f"{target} sends more than {most} rows"
    with refused(ErrorId.TOO_MANY_ROWS, EngineError, naming=said):
        next(batches)
