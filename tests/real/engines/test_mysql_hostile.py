"""What a MySQL server that wants the password, or a file, gets: neither."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.errors import EngineError, LabError
from dbcheck.engines.mysql import connection as mysql_connection
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.registry import open_engine
from dbcheck.lab.clusters.replication import run_statements
from tests.kit.certificates import Authority
from tests.kit.hostile import LOCAL_FILES, OK, MysqlPeer, hostile

SECRET = "hunter2-and-more"
CLEAR = "mysql_clear_password"
SHA2 = "caching_sha2_password"
NATIVE = "mysql_native_password"
FULL_AUTHENTICATION = b"\x01\x04"


@pytest.fixture(autouse=True)
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever answers be another account's program, or another host's."""
    monkeypatch.setattr(mysql_connection, "is_servers_port", lambda *_: False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that vouches for the server that has *tls*."""
    folder = tmp_path_factory.mktemp("tls")
    made = Authority.new(folder / "trusted.pem")
    made.vouch(folder)
    return made


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    """A server's, whose certificate the *authority* made."""
    folder = authority.path.parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


def log_in(
    answer: Callable[[MysqlPeer], object], options: dict[str, Any] | None = None
) -> tuple[MysqlPeer, EngineError]:
    """Log in to a server that *answers* so; return what it heard, and the refusal."""
    peers: list[MysqlPeer] = []

    def serve(client: socket.socket) -> None:
        peers.append(MysqlPeer(client))
        with contextlib.closing(peers[0]):
            answer(peers[0])

    with hostile(serve) as port:
        arguments = {"user": "eve", "password": SECRET, **(options or {})}
        arguments |= {"host": "localhost", "port": port}
        with pytest.raises(EngineError, match="^(cannot connect to )?db1") as caught:
            MysqlLink("db1", arguments, 5).close()
    assert SECRET not in str(caught.value)
    return peers[0], caught.value


def asking(
    plugin: str, tls: ssl.SSLContext | None, *more: bytes
) -> Callable[[MysqlPeer], object]:
    """Return the server that has its clients log in by *plugin*."""

    def answer(peer: MysqlPeer) -> None:
        peer.greet(NATIVE, tls)
        peer.switch(plugin)
        for said in more:
            peer.send(said)
            peer.receive()

    return answer


@pytest.mark.parametrize("plugin", [CLEAR, SHA2, "sha256_password", "dialog"])
@pytest.mark.parametrize("secure", [True, False], ids=["tls", "bare"])
def test_a_server_that_nobody_verified_gets_no_password(
    plugin: str, secure: bool, tls: ssl.SSLContext
) -> None:
    server = asking(plugin, tls if secure else None, FULL_AUTHENTICATION)
    peer, refused = log_in(server)
    assert SECRET.encode() not in peer.heard
    assert f"logs in by {plugin}" in str(refused)
    assert "ssl_ca=FILE&ssl_verify_cert=true" in refused.hint
    assert "ssl_verify_cert=false" in refused.hint


@pytest.mark.parametrize("plugin", [CLEAR, SHA2, "sha256_password"])
def test_nor_does_one_that_asks_in_its_greeting(
    plugin: str, tls: ssl.SSLContext
) -> None:
    """It gets a challenge's answer, since that may be the account's own plugin."""
    answers: list[bytes] = []

    def answer(peer: MysqlPeer) -> None:
        answers.append(peer.greet(plugin, tls))
        peer.send(FULL_AUTHENTICATION)
        peer.receive()

    peer, _ = log_in(answer)
    assert SECRET.encode() not in peer.heard
    assert NATIVE.encode() in answers[0] and plugin.encode() not in answers[0]


def test_nor_does_one_that_asks_for_another_factor(tls: ssl.SSLContext) -> None:
    def answer(peer: MysqlPeer) -> None:
        peer.greet(NATIVE, tls)
        peer.send(b"\x02" + CLEAR.encode() + b"\0")
        peer.receive()

    peer, refused = log_in(answer, {"password2": SECRET})
    assert SECRET.encode() not in peer.heard
    assert f"logs in by {CLEAR}" in str(refused)


@pytest.mark.parametrize(
    "options",
    [
        {"ssl_verify_cert": True, "ssl_verify_identity": True},
        {"ssl_verify_cert": True},
        {"ssl_verify_identity": True},
        {"ssl_verify_cert": True, "ssl_ca": "stranger"},
    ],
    ids=["system", "certificate", "name", "stranger"],
)
def test_a_stranger_is_no_authority(
    options: dict[str, Any], tls: ssl.SSLContext, tmp_path: Path
) -> None:
    if "ssl_ca" in options:
        stranger = Authority.new(tmp_path / "stranger.pem")
        options = {**options, "ssl_ca": str(stranger.path)}
    peer, refused = log_in(asking(CLEAR, tls), options)
    assert SECRET.encode() not in peer.heard
    assert "certificate" in str(refused)


def test_the_systems_authorities_vouch_for_nobody_in_place_of_the_users(
    tls: ssl.SSLContext,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anybody can have a certificate of one of those, for a name of his own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    stranger = Authority.new(tmp_path / "stranger.pem")
    options = {"ssl_ca": str(stranger.path), "ssl_verify_cert": True}
    peer, refused = log_in(asking(CLEAR, tls), options)
    assert SECRET.encode() not in peer.heard
    assert "certificate" in str(refused)
    peer, refused = log_in(asking(CLEAR, tls), {"ssl_verify_cert": True})
    assert SECRET.encode() not in peer.heard
    assert "not verified" in str(refused)


def test_they_vouch_for_no_node_of_a_cluster_in_the_lab(
    tls: ssl.SSLContext,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    of_cluster = Authority.new(tmp_path / "cluster.pem")
    peers: list[MysqlPeer] = []

    def serve(client: socket.socket) -> None:
        peers.append(MysqlPeer(client))
        with contextlib.closing(peers[0]):
            asking(CLEAR, tls)(peers[0])

    with hostile(serve) as port:
        lab: Any = SimpleNamespace(
            name="db1",
            spec=SimpleNamespace(engine="mysql"),
            target_url=f"mysql://dbcheck@127.0.0.1:{port}/dbcheck",
            password=SECRET,
            authority=of_cluster.path.read_text(),
            authority_file="",
        )
        with pytest.raises(LabError, match="(?i)certificate"):
            run_statements(lab, ["select 1"])
    assert SECRET.encode() not in peers[0].heard


def require_tls(options: dict[str, Any]) -> None:
    """Assert that a server without TLS is refused before it hears who logs in."""
    peer, refused = log_in(asking(NATIVE, None), options)
    assert b"eve" not in peer.heard
    assert "TLS" in str(refused) or "SSL" in str(refused)


@pytest.mark.parametrize("how", ["ssl_verify_cert", "ssl_verify_identity"])
def test_who_wants_to_verify_is_not_talked_out_of_tls(how: str) -> None:
    require_tls({how: True})


@pytest.mark.parametrize("option", ["ssl-verify-cert", "ssl_verify_identity"])
def test_who_verifies_by_an_option_file_is_not_talked_out_of_tls(
    option: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.cnf"
    file.write_text(f"[client]\n{option}=true\n")
    file.chmod(0o600)
    engine = open_engine(f"mysql://eve@db1/x?option_files={file}", SECRET)
    require_tls(engine._arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("plugin", [CLEAR, "sha256_password"])
def test_a_server_that_is_verified_gets_it(
    plugin: str, tls: ssl.SSLContext, authority: Authority
) -> None:
    verified = {"ssl_ca": str(authority.path), "ssl_verify_cert": True}
    named = {**verified, "ssl_verify_identity": True}
    knowingly = {"ssl_verify_cert": False}
    for options in (verified, named, knowingly):
        peer, _ = log_in(asking(plugin, tls), options)
        assert SECRET.encode() in peer.heard


def test_whoever_has_no_password_reveals_none(tls: ssl.SSLContext) -> None:
    """Accounts without one are not shut out."""
    reached: list[bytes] = []

    def answer(peer: MysqlPeer) -> None:
        peer.greet(SHA2, tls)
        reached.append(peer.switch(SHA2))

    log_in(answer, {"password": ""})
    assert reached


# ------------------------------------------------------------------- files of this host


@pytest.mark.parametrize("first", [0, 1, 3, 6])
def test_no_file_of_this_host_leaves_it(first: int, tmp_path: Path) -> None:
    """first: the query at which the server begins to ask for a file instead."""
    content = b"root:*:1:\n"
    file = tmp_path / "shadow"
    file.write_bytes(content)
    asked: list[bytes] = []

    def answer(peer: MysqlPeer) -> None:
        peer.greet(NATIVE)
        peer.send(OK)
        for number in range(first + 1):
            asked.append(peer.receive())
            peer.send(b"\xfb" + bytes(file) if number == first else OK)
        peer.receive()

    url = "allow_local_infile=true&allow_local_infile_in_path=/"
    engine = open_engine(f"mysql://eve@db1/x?{url}", SECRET)
    options = engine._arguments  # type: ignore[attr-defined]
    peer, _ = log_in(answer, options)
    assert not peer.flags & LOCAL_FILES
    assert len(asked) == first + 1
    assert content not in peer.heard
