"""The limit on a server's silence."""

from __future__ import annotations

import socket
import sys
import threading

import pytest

from dbcheck.engines import link as deadlines
from dbcheck.engines.link import count_received_bytes, deadline
from tests.kit.threads import new_threads


def test_severs_what_takes_too_long() -> None:
    severed = threading.Event()
    with deadline(0.0, severed.set):
        assert severed.wait(5)


def test_severs_again_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no socket yet gets one later."""
    monkeypatch.setattr(deadlines, "_SEVER_AGAIN_S", 0.01)
    once, twice = threading.Event(), threading.Event()

    def sever() -> None:
        (twice if once.is_set() else once).set()

    with deadline(0.0, sever) as cut:
        assert twice.wait(5)
    assert cut.is_late and not cut.is_flood


@pytest.mark.skipif(sys.platform != "linux", reason="no other system says how much")
def test_severs_what_sends_too_much() -> None:
    severed = threading.Event()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
        listener.accept()[0] as far,
    ):
        far.sendall(bytes(2000))  # before the body: it does not count
        near.recv(2000, socket.MSG_WAITALL)
        with deadline(
            60.0, severed.set, lambda: count_received_bytes(near), 3000
        ) as cut:
            far.sendall(bytes(2000))
            near.recv(2000, socket.MSG_WAITALL)
            assert not severed.wait(0.2)
            far.sendall(bytes(2000))
            assert severed.wait(5)
        assert cut.is_flood and not cut.is_late


def test_leaves_alone_what_is_in_time_and_leaves_no_thread() -> None:
    severed = threading.Event()
    before = threading.enumerate()
    with deadline(60.0, severed.set):
        pass
    assert not severed.is_set()
    assert new_threads(before) == []
