"""This host's own addresses."""

from __future__ import annotations

import socket

import pytest

from dbcheck.agent.wire import list_addresses
from dbcheck.remote.same_host import is_own_address

ELSEWHERE = "192.0.2.77"  # of a block for documents, RFC 5737


@pytest.mark.parametrize("address", ["127.0.0.9", "::1", "0.0.0.0"])
def test_this_host(address: str) -> None:
    assert is_own_address(address)


@pytest.mark.parametrize("address", [ELSEWHERE, "::2", "db1", "localhost", ""])
def test_another_host_or_no_address(address: str) -> None:
    assert not is_own_address(address)


def test_an_address_that_can_only_be_bound_is_not_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where net.ipv4.ip_nonlocal_bind is 1."""
    monkeypatch.setattr(socket.socket, "bind", lambda *_: None, raising=False)
    assert not is_own_address(ELSEWHERE)


def test_each_address_that_a_host_shows_is_its_own() -> None:
    """Also a link-local one of IPv6, which comes without the name of its link."""
    own = set(list_addresses())
    assert own
    # Beside this, other tests add and remove networks.
    assert not {each for each in own if not is_own_address(each)} & set(
        list_addresses()
    )
    assert not is_own_address("fe80::dead")


@pytest.mark.parametrize("address", ["192.0.2.2", "2001:db8::7"])
def test_without_a_list_an_address_to_send_from_is_own(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """As in a container without /proc."""
    monkeypatch.setattr("dbcheck.remote.same_host.list_addresses", lambda: iter(()))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda _: (address, 1))
    assert is_own_address(address)
