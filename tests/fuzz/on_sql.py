"""What a server sends from a connection's first byte on, whoever answers there."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.session import MysqlSession
from dbcheck.engines.mysql.settings import SESSION
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.ports.connection import Session
from dbcheck.rows.acks import Row
from dbcheck.rows.plans.plan import INSERT
from dbcheck.server_log import Product
from tests.fuzz.target import Target
from tests.kit.hostile import EOF, OK
from tests.kit.memory import scratch
from tests.kit.operations import insert

SECRET = "hunter2-secret"
TURN = b"\xa5\x5a\xa5\x5a"
OPERATION = insert(Row(0, 2**62, 7, 1, 0, b"payload", 5))
_CONNECT_S = 5
_TURN_S = 0.005  # then the client waits, too: the attack ends


@contextlib.contextmanager
def server_of(data: bytes, path: Path) -> Iterator[None]:
    """Serve a socket file: a part of *data* first, then one for each thing that comes.

    TURN parts them.  The connection ends with the last one.
    """

    def answer() -> None:
        with contextlib.suppress(OSError):
            wire, _ = server.accept()
            with wire:
                wire.settimeout(_TURN_S)
                for part in data.split(TURN):
                    wire.sendall(part)
                    if not wire.recv(1 << 16):
                        return

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)  # if it was never connected to
            thread.join()


def mysql(data: bytes) -> None:
    """A login and a statement end in an answer, or in an error without the password."""
    with scratch() as folder, server_of(data, folder / "s"):
        wanted = {"unix_socket": str(folder / "s"), "user": "u", "password": SECRET}
        try:
            with MysqlLink("server", wanted, _CONNECT_S) as link:
                link.rows("answering_mysql")
                commit(MysqlSession(link, (INSERT,), "dbcheck"))
        except EngineError as error:
            assert SECRET not in str(error)


def postgresql(data: bytes) -> None:
    """As mysql()."""
    with scratch() as folder, server_of(data, folder / ".s.PGSQL.5432"):
        wanted = {"host": str(folder), "user": "u", "password": SECRET, "dbname": "d"}
        try:
            with PostgresqlLink("server", wanted, _CONNECT_S) as link:
                link.rows("answering")
        except EngineError as error:
            assert SECRET not in str(error)


def postgresql_session(data: bytes) -> None:
    """A session of the load is opened and commits, or an error says why not."""
    with scratch() as folder, server_of(data, folder / ".s.PGSQL.5432"):
        wanted = {"host": str(folder), "user": "u", "password": SECRET, "dbname": "d"}
        try:
            session = PostgresqlSession("server", wanted, (INSERT,))
            with contextlib.closing(session):
                commit(session)
        except EngineError as error:
            assert SECRET not in str(error)


def commit(session: Session) -> None:
    """Insert a row, and wait for its id until the server says no more."""
    session.send(OPERATION)
    while select.select([session], [], [], _TURN_S)[0]:
        if session.receive() is not None:
            return


def packet(number: int, body: bytes) -> bytes:
    """Return a packet of MySQL's protocol."""
    return len(body).to_bytes(3, "little") + bytes((number,)) + body


def greeting(plugin: bytes) -> bytes:
    """Return what a server says first: no TLS, no compression, EOF packets."""
    flags = 0x0008A20F
    low, high = struct.pack("<H", flags & 0xFFFF), struct.pack("<H", flags >> 16)
    fixed = b"\x0a8.0.40\0" + struct.pack("<I", 7) + b"12345678\0" + low
    rest = b"\x2d\2\0" + high + b"\x15" + bytes(10) + b"123456789012\0"
    return packet(0, fixed + rest + plugin + b"\0")


def text_result(values: Sequence[int | str]) -> bytes:
    """Return the one row of a statement: numbers as LONGLONG, text as VAR_STRING."""
    packets = [bytes((len(values),))]
    for value in values:
        packets.append(column(b"\x08" if isinstance(value, int) else b"\xfd"))
    texts = [str(value).encode() for value in values]
    row = b"".join(bytes((len(text),)) + text for text in texts)
    packets += [EOF, row, EOF]
    return b"".join(packet(1 + at, body) for at, body in enumerate(packets))


def column(kind: bytes) -> bytes:
    """Return the definition of a column, or of a parameter, of that type."""
    return b"\3def\0\0\0\1c\0\x0c\x2d\0\0\1\0\0" + kind + b"\0\0\0\0\0"


def prepared(parameters: int) -> bytes:
    """Return that a statement without columns was prepared."""
    head = struct.pack("<BIHHBH", 0, 1, 0, parameters, 0, 0)
    packets = [head, *[column(b"\x08")] * parameters, EOF]
    return b"".join(packet(1 + at, body) for at, body in enumerate(packets))


def mysql_conversations() -> Iterator[bytes]:
    ok = packet(1, OK)
    login = [greeting(b"mysql_native_password"), packet(2, OK)]
    # names, autocommit, clock and settings, with pings and what the driver looks up
    login += [ok] * 6 + [text_result(["STRICT_ALL_TABLES"]), ok]
    settings = list(SESSION[Product.MYSQL].values())
    answers = [ok, text_result(settings), ok, text_result(["u", 1, 5])]
    answers += [prepared(6), packet(1, b"\0\1\7\2\0\0\0")]  # one row, its id 7
    yield TURN.join(login + answers)
    fast = packet(2, b"\1\3") + packet(3, OK)
    yield greeting(b"caching_sha2_password") + TURN + fast
    yield greeting(b"caching_sha2_password") + TURN + packet(2, b"\1\4")
    yield greeting(b"x") + TURN + packet(2, b"\xfemysql_clear_password\0")
    yield TURN.join([*login, packet(1, b"\xfb/etc/passwd")])
    yield packet(0, b"\xff\x10\x04#08004Too many connections")


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of PostgreSQL's protocol."""
    return kind + struct.pack("!I", 4 + len(body)) + body


def postgresql_conversations() -> Iterator[bytes]:
    ready = message(b"Z", b"I")
    said = [(b"client_encoding", b"UTF8"), (b"DateStyle", b"ISO, MDY")]
    said += [(b"standard_conforming_strings", b"on"), (b"server_version", b"15.1")]
    facts = b"".join(message(b"S", k + b"\0" + v + b"\0") for k, v in said)
    logged_in = message(b"R", struct.pack("!I", 0)) + facts
    logged_in += message(b"K", struct.pack("!II", 1, 2)) + ready
    column = struct.pack("!H", 1) + b"c\0" + struct.pack("!IHIhiH", 0, 0, 25, -1, -1, 0)
    row = message(b"D", struct.pack("!Hi", 1, 1) + b"1")
    done = message(b"T", column) + row + message(b"C", b"SELECT 1\0") + ready
    none = message(b"T", column) + message(b"C", b"SELECT 0\0") + ready
    yield TURN.join((b"", logged_in, done, none, done, done))
    inserted = message(b"T", column)
    inserted += message(b"D", struct.pack("!Hiq", 1, 8, 7))
    inserted += message(b"C", b"INSERT 0 1\0") + ready
    prepared = message(b"C", b"PREPARE\0") + ready
    yield TURN.join((b"", logged_in, done, none, prepared, inserted))
    yield TURN + message(b"R", struct.pack("!I", 3))  # the password itself
    refused = message(b"G", b"\0\0\0") + message(b"E", b"SERROR\0Mx\0\0") + ready
    yield TURN.join((b"", logged_in, refused))


TARGETS = (
    Target("mysql-server", mysql, mysql_conversations),
    Target("postgresql-server", postgresql, postgresql_conversations),
    Target("postgresql-session", postgresql_session, postgresql_conversations),
)
