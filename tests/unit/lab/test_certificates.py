"""The certificates of a cluster: who is let in by them, and who reads their keys."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from dbcheck.lab.certificates import Authority, IdentityFiles


def at_server(files: IdentityFiles) -> ssl.SSLContext:
    """Return how a server lets in those that the authority vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def answered(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bytes:
    """Return what a client gets that connects to *host*; raise OSError."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as wire:
                wire.sendall(b"welcome")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=host) as wire:
            return wire.recv(7)
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nodes_of_one_cluster_know_each_other(tmp_path: Path, host: str) -> None:
    authority = Authority()
    one = authority.issue_certificate("node1").write(tmp_path / "one")
    two = authority.issue_certificate("node2").write(tmp_path / "two")
    assert answered(at_server(one), two.for_client(), host) == b"welcome"


def test_a_certificate_is_for_the_addresses_that_were_named(tmp_path: Path) -> None:
    issued = Authority().issue_certificate("node1", "192.0.2.1")
    one = issued.write(tmp_path / "one")
    for host in ("127.0.0.1", "192.0.2.1"):
        assert answered(at_server(one), one.for_client(), host) == b"welcome"
    with pytest.raises(ssl.SSLCertVerificationError, match="192.0.2.2"):
        answered(at_server(one), one.for_client(), "192.0.2.2")


def test_a_node_of_another_cluster_is_a_stranger(tmp_path: Path) -> None:
    one = Authority().issue_certificate("node1").write(tmp_path / "one")
    other = Authority().issue_certificate("node1").write(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        answered(at_server(one), other.for_client(), "127.0.0.1")
    careless = other.for_client()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(OSError, match="(?i)unknown.ca|reset|closed"):
        answered(at_server(one), careless, "127.0.0.1")


def test_a_key_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files = Authority().issue_certificate("node1").write(tmp_path / "tls")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (files.key, files.authority)]
    assert modes == [0o600, 0o600]
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    assert "PRIVATE" in files.key.read_text()
    assert "PRIVATE" not in files.certificate.read_text() + files.authority.read_text()


def test_what_is_printed_of_it_shows_no_key() -> None:
    assert "PRIVATE" not in repr(Authority().issue_certificate("node1"))


def test_one_in_memory_works_by_its_paths(tmp_path: Path) -> None:
    authority = Authority()
    two = authority.issue_certificate("node2").write(tmp_path / "two")
    with authority.issue_certificate("node1").in_memory() as (one, held):
        assert len(held) == 3
        assert answered(at_server(one), two.for_client(), "127.0.0.1") == b"welcome"
