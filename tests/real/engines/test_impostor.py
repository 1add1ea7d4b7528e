"""Another account in the server's place, on this machine: it gets no password.

A server whose power is cut leaves its port, and any user may listen there then.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines import peer as peers
from dbcheck.engines.mysql import connection as mysql_connection
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.registry import open_engine
from dbcheck.rows.plans.plan import INSERT
from tests.kit.certificates import Authority
from tests.kit.files import let_write
from tests.kit.hostile import (
    CLEARTEXT,
    MD5,
    STRANGER,
    MysqlPeer,
    asks,
    hostile,
    hostile_socket,
)
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

SECRET = "hunter2-and-more"
CLEAR, SHA2, SHA256 = "mysql_clear_password", "caching_sha2_password", "sha256_password"
NATIVE = "mysql_native_password"
FULL_AUTHENTICATION = b"\x01\x04"
KEEPER = 2  # an account that could be a server's, neither root's nor STRANGER

pytestmark = pytest.mark.root

# ------------------------------------------------------------------------- PostgreSQL


def refusals(url: str) -> list[EngineError]:
    """Return how either driver fails to log in."""
    engine, found = open_engine(url, SECRET), []
    calls: tuple[Callable[[], object], ...] = (
        engine.facts,
        partial(engine.open_session, (INSERT,)),
    )
    for call in calls:
        with pytest.raises(EngineError, match="cannot connect") as caught:
            call()
        assert SECRET not in str(caught.value)
        found.append(caught.value)
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("method", [CLEARTEXT, MD5])
def test_a_port_of_this_machine_gets_no_password(host: str, method: int) -> None:
    heard: list[bytes] = []
    with hostile(asks(method, heard), 2, uid=STRANGER) as port:
        errors = refusals(f"postgresql://eve@{host}:{port}/x?sslmode=disable")
    assert not heard
    for error in errors:
        assert error.id is ErrorId.SERVER_NOT_VERIFIED
        assert "requirepeer" in error.hint and "/run/postgresql" in error.hint


class Place:
    """A folder for sockets, and how another account may come into it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = self.named = folder / "sockets"
        self.folder.mkdir()
        os.chown(self.folder, KEEPER, KEEPER)
        self.listener = STRANGER
        getattr(self, kind)(folder)

    def sticky(self, _: Path) -> None:
        """As /tmp."""
        os.chown(self.folder, 0, 0)
        self.folder.chmod(0o1777)

    def group(self, _: Path) -> None:
        """For a group that others are in."""
        os.chown(self.folder, KEEPER, STRANGER)
        self.folder.chmod(0o2775)

    def listed(self, _: Path) -> None:
        """For its own group, as it seems: another's entry is in a list beside that."""
        os.chown(self.folder, KEEPER, pwd.getpwuid(KEEPER).pw_gid)
        let_write(self.folder, STRANGER)

    def below(self, folder: Path) -> None:
        """In a folder of another's, who may put another one in its place."""
        os.chown(folder, STRANGER, STRANGER)
        self.listener = KEEPER

    def link(self, folder: Path) -> None:
        """By a link that another may have made."""
        shared, own = folder / "shared", folder / "own"
        shared.mkdir()
        shared.chmod(0o1777)
        own.mkdir()
        os.chown(own, STRANGER, STRANGER)
        self.folder, self.named = own, shared / "sockets"
        self.named.symlink_to(own)
        os.lchown(self.named, STRANGER, STRANGER)

    def remade(self, folder: Path) -> None:
        """Its own folder, which lies where everybody may make one."""
        folder.chmod(0o1777)
        os.chown(self.folder, STRANGER, STRANGER)


PLACES = ["sticky", "group", "listed", "below", "link", "remade"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that every account can reach, as pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="dbcheck-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("options", ["", "&sslmode=verify-full&sslrootcert=system"])
def test_a_socket_of_another_account_gets_no_password(
    kind: str, options: str, folder: Path
) -> None:
    """Over a Unix socket libpq has no TLS, so no option for it verifies anything."""
    place, heard = Place(folder, kind), list[bytes]()
    file = place.folder / ".s.PGSQL.5432"
    with hostile_socket(file, asks(CLEARTEXT, heard), place.listener, clients=4):
        errors = refusals(f"postgresql://eve@/x?host={place.named}{options}")
    assert not heard
    assert {error.id for error in errors} == {ErrorId.SERVER_NOT_VERIFIED}


def server_folder(folder: Path, mode: int = 0o755) -> Path:
    """Return the folder of a server's own account for its sockets."""
    made = folder / "sockets"
    made.mkdir()
    os.chown(made, KEEPER, pwd.getpwuid(KEEPER).pw_gid)
    made.chmod(mode)
    return made


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o700])
def test_the_socket_in_its_own_folder_is_the_servers(folder: Path, mode: int) -> None:
    own, heard = server_folder(folder, mode), list[bytes]()
    file = own / ".s.PGSQL.5432"
    # One of the two connections of each only shows who listens.
    with hostile_socket(file, asks(CLEARTEXT, heard), KEEPER, clients=4):
        refusals(f"postgresql://eve@/x?host={own}")
    assert heard == [SECRET.encode() + b"\0"] * 2


def test_a_service_is_where_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To psycopg as well, which would look at the environment first."""
    own, heard = server_folder(folder), list[bytes]()
    services = folder / "services"
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    with hostile(asks(CLEARTEXT, heard), 2, uid=STRANGER) as port:
        services.write_text(f"[prod]\nhost={own}\nport={port}\nuser=eve\n")
        file = own / f".s.PGSQL.{port}"
        with hostile_socket(file, asks(CLEARTEXT, []), KEEPER, clients=4):
            refusals("postgresql:///x?service=prod")
    assert not heard


def test_who_names_the_account_decides(folder: Path) -> None:
    place = Place(folder, "sticky")
    file = place.folder / ".s.PGSQL.5432"
    for account, is_heard in ((STRANGER, True), (KEEPER, False)):
        heard: list[bytes] = []
        name = pwd.getpwuid(account).pw_name
        url = f"postgresql://eve@/x?host={place.folder}&requirepeer={name}"
        with hostile_socket(file, asks(CLEARTEXT, heard), STRANGER, clients=2):
            errors = refusals(url)
        file.unlink()
        assert bool(heard) is is_heard
        if not is_heard:
            assert {error.id for error in errors} == {ErrorId.SERVER_NOT_VERIFIED}


# ------------------------------------------------------------------------------- MySQL


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's, with a certificate that only itself vouches for."""
    folder = tmp_path_factory.mktemp("tls")
    Authority.new(folder / "own.pem").vouch(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


def heard_by(
    serving: Callable[[Callable[[socket.socket], None]], Any],
    plugin: str,
    tls: ssl.SSLContext | None,
    **options: object,
) -> tuple[bytes, EngineError]:
    """Return what a server that asks for *plugin* hears, and the error.

    It asks in its greeting, for a switch, for the password itself, and for that in the
    place of a nonce; it offers a key of RSA.
    """
    heard = b""

    def answer(client: socket.socket) -> None:
        nonlocal heard
        server = MysqlPeer(client)
        with contextlib.closing(server):
            try:
                server.greet(plugin, tls)
                server.switch(plugin)
                server.send(FULL_AUTHENTICATION)
                server.receive()
                server.send(b"\x01-----BEGIN PUBLIC KEY-----\n")
                server.receive()
            finally:
                heard += bytes(server.heard)

    with serving(answer) as port:
        where = {"host": "127.0.0.1", "port": port} if port else {}
        arguments = {**where, "user": "eve", "password": SECRET, **options}
        with pytest.raises(EngineError, match="cannot connect") as caught:
            MysqlLink("db1", arguments, 5).close()
    assert SECRET not in str(caught.value)
    return heard, caught.value


def is_accepted(client: tuple[str, int]) -> bool:
    """Return whether some program has the other end of that client's connection."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return any(row[2].endswith(f":{client[1]:04X}") and row[9] != "0" for row in rows)


def at_a_port(uid: int | None, host: str = "127.0.0.1") -> Callable[..., Any]:
    return partial(hostile, uid=uid, host=host)


@pytest.mark.parametrize("plugin", [CLEAR, SHA2, SHA256])
@pytest.mark.parametrize("secure", [True, False], ids=["tls", "bare"])
def test_a_port_of_another_account_gets_no_password_of_mysql(
    plugin: str, secure: bool, tls: ssl.SSLContext
) -> None:
    heard, error = heard_by(at_a_port(STRANGER), plugin, tls if secure else None)
    assert b"eve" in heard and SECRET.encode() not in heard
    assert error.id is ErrorId.SERVER_NOT_VERIFIED
    assert "unix_socket=" in error.hint and "ssl_ca=FILE" in error.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
@pytest.mark.parametrize("account", ["own", "mysql"])
def test_the_servers_account_may_ask_for_it_over_tls(
    host: str, account: str, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for nothing else, and not without TLS."""
    uid = None
    if account == "mysql":
        uid = KEEPER
        known = {"mysql": KEEPER}
        monkeypatch.setattr(mysql_connection, "find_account_id", known.get)
    there = at_a_port(uid, host)
    options = {"host": "::1"} if host == "::1" else {}
    heard, _ = heard_by(there, SHA2, tls, **options)
    assert SECRET.encode() in heard
    for plugin, context in ((CLEAR, tls), (SHA256, tls), (SHA2, None)):
        heard, _ = heard_by(there, plugin, context, **options)
        assert b"eve" in heard and SECRET.encode() not in heard


def test_a_port_is_whose_program_has_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What nobody has is shown as root's; what no account here has, as nobody's."""
    nobody = int(Path("/proc/sys/kernel/overflowuid").read_text())
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as wire,
    ):
        assert not peers.is_servers_port(wire, set())
        accepted, _ = listener.accept()
        assert peers.is_servers_port(wire, set())
        accepted.close()
        assert not peers.is_servers_port(wire, set())
    monkeypatch.setattr(peers, "own_users", lambda: {nobody})
    shown: list[bool] = []

    def answer(client: socket.socket) -> None:
        client.recv(1)

    for uid in (nobody, None):
        with (
            hostile(answer, uid=uid) as port,
            socket.create_connection(("127.0.0.1", port)) as wire,
        ):
            wait_until(partial(is_accepted, wire.getsockname()), "it is accepted")
            shown.append(peers.is_servers_port(wire, set()))
    assert shown == [False, True]


@pytest.mark.parametrize(
    ("others", "trusted"),
    [([], True), ([(0, 7)], True), ([(STRANGER, 7)], False), ([(0, 8)], False)],
)
def test_a_row_that_the_kernel_shows_twice_is_one(
    others: list[tuple[int, int]],
    trusted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel cannot be made to repeat a row, so the table is a file."""
    table = tmp_path / "tcp"
    monkeypatch.setattr(peers, "_TABLES", {table: 4})
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as wire,
    ):
        server, client = (
            f"0100007F:{name()[1]:04X}" for name in (wire.getpeername, wire.getsockname)
        )
        begin = f"7: {server} {client} 01 00000000:00000000 00:00000000 00000000"
        rows = [f"{begin} {uid} 0 {inode} 1\n" for uid, inode in [(0, 7), *others]]
        table.write_text("  sl  local_address rem_address   st\n" + "".join(rows))
        assert peers.is_servers_port(wire, set()) is trusted


def test_a_switch_whose_nonce_asks_for_the_password_gets_none_without_tls() -> None:
    heard = bytearray()

    def answer(client: socket.socket) -> None:
        server = MysqlPeer(client)
        server.greet(SHA2)
        server.send(b"\xfe" + SHA2.encode() + b"\0\x04\0")
        try:
            server.receive()
        finally:
            heard.extend(server.heard)

    with hostile(answer) as port:
        arguments = {"host": "127.0.0.1", "port": port, "user": "eve"}
        with refused(ErrorId.TLS_NEEDED, EngineError, naming="no TLS"):
            MysqlLink("db1", {**arguments, "password": SECRET}, 5)
    assert b"eve" in heard and SECRET.encode() not in heard


@pytest.mark.parametrize("kind", PLACES)
def test_a_socket_of_another_account_gets_no_password_of_mysql(
    kind: str, folder: Path
) -> None:
    place = Place(folder, kind)

    @contextlib.contextmanager
    def serving(answer: Callable[[socket.socket], None]) -> Iterator[None]:
        with hostile_socket(place.folder / "mysqld.sock", answer, place.listener):
            yield

    named = str(place.named / "mysqld.sock")
    heard, error = heard_by(serving, SHA2, None, unix_socket=named)
    assert b"eve" in heard and SECRET.encode() not in heard
    assert error.id is ErrorId.SERVER_NOT_VERIFIED


def test_an_abstract_socket_is_in_no_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the working one either, whose owner made the socket."""
    monkeypatch.chdir(server_folder(folder))
    name = f"\0dbcheck-{os.getpid()}"

    @contextlib.contextmanager
    def serving(answer: Callable[[socket.socket], None]) -> Iterator[None]:
        with hostile_socket(name, answer, KEEPER):
            yield

    heard, _ = heard_by(serving, SHA2, None, unix_socket=name)
    assert b"eve" in heard and SECRET.encode() not in heard


def test_the_socket_in_its_own_folder_is_mysqls(folder: Path) -> None:
    file = server_folder(folder) / "mysqld.sock"

    @contextlib.contextmanager
    def serving(answer: Callable[[socket.socket], None]) -> Iterator[None]:
        with hostile_socket(file, answer, KEEPER):
            yield

    heard, _ = heard_by(serving, SHA2, None, unix_socket=str(file))
    assert SECRET.encode() in heard
