"""Which addresses are this host's own."""

from __future__ import annotations

import socket

import pytest

from dbcheck.remote.addresses import is_here, is_own

ELSEWHERE = "192.0.2.77"  # of a block for documents, RFC 5737


@pytest.mark.parametrize("host", ["", "/run/x", "@x", "localhost", "127.0.0.9", "::1"])
def test_this_host(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize("host", [ELSEWHERE, "db1", "localhost.example", "::2"])
def test_another_host(host: str) -> None:
    assert not is_here(host)


def test_a_name_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers for names could say "here" now, and another address later."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("asked"))
    assert not is_here("db1")


def test_an_address_that_can_only_be_bound_is_not_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where net.ipv4.ip_nonlocal_bind is 1."""
    monkeypatch.setattr(socket.socket, "bind", lambda *_: None, raising=False)
    assert not is_own(ELSEWHERE)
