"""What the event loop waits with, on Linux and elsewhere."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator

import pytest

from dbcheck.load.poller import READ, WRITE, Alarm, Poller, SelectorPoller, open_poller

_WAIT_S = 10.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("make", [open_poller, SelectorPoller])
def test_pollers_agree(
    make: Callable[[], Poller], pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    fd = ours.fileno()
    with contextlib.closing(make()) as poller:
        poller.register(fd, READ)
        assert poller.poll(0, 8) == []
        theirs.send(b"x")
        assert poller.poll(_WAIT_S, 8) == [(fd, READ)]
        poller.modify(fd, READ | WRITE)
        assert poller.poll(_WAIT_S, 8) == [(fd, READ | WRITE)]
        ours.recv(1)
        assert poller.poll(_WAIT_S, 8) == [(fd, WRITE)]
        poller.modify(fd, READ)
        theirs.close()
        ((ended, mask),) = poller.poll(_WAIT_S, 8)
        assert (ended, mask & READ) == (fd, READ)
        poller.unregister(fd)
        assert poller.poll(0, 8) == []


def test_a_system_without_epoll_has_a_poller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")
    with contextlib.closing(open_poller()) as poller:
        assert isinstance(poller, SelectorPoller)


@pytest.mark.parametrize("make", [open_poller, SelectorPoller])
def test_an_alarm_stays_until_it_is_cleared(make: Callable[[], Poller]) -> None:
    """Also where it was set so often that the socket takes no more."""
    with contextlib.closing(make()) as poller, contextlib.closing(Alarm()) as alarm:
        poller.register(alarm.fileno(), READ)
        assert poller.poll(0, 8) == []
        for _ in range(10_000):
            alarm.set()
        assert poller.poll(_WAIT_S, 8) == [(alarm.fileno(), READ)]
        alarm.clear()
        assert poller.poll(0, 8) == []
        alarm.set()
        assert poller.poll(_WAIT_S, 8) == [(alarm.fileno(), READ)]
