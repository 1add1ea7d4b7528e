"""Waits for the sockets of the event loop.

epoll(7) where there is one: selectors.DefaultSelector takes 0.3 to 1.7 us more for
each reply, up to 2 % of the client's time for a commit.
"""

from __future__ import annotations

import contextlib
import select
import selectors
import socket
from typing import Protocol

READ, WRITE = select.POLLIN, select.POLLOUT  # epoll(7) has the numbers of poll(2)
_DRAIN_BYTES = 4096


class Poller(Protocol):
    """Waits as select.epoll does: descriptors by number, masks of READ and WRITE."""

    def register(self, fd: int, mask: int, /) -> None:
        """Wait for *fd* as well."""

    def modify(self, fd: int, mask: int, /) -> None:
        """Wait for something else of *fd*."""

    def unregister(self, fd: int, /) -> None:
        """Wait for *fd* no more."""

    def poll(self, timeout_s: float, most: int, /) -> list[tuple[int, int]]:
        """Return the ready descriptors and their events; about *most* of them."""

    def close(self) -> None:
        """Free what this holds; idempotent."""


class SelectorPoller:
    """A Poller for systems without epoll, by their best, such as kqueue(2)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, mask: int, /) -> None:
        """Wait for *fd* as well."""
        self._selector.register(fd, _to_selector_events(mask))

    def modify(self, fd: int, mask: int, /) -> None:
        """Wait for something else of *fd*."""
        self._selector.modify(fd, _to_selector_events(mask))

    def unregister(self, fd: int, /) -> None:
        """Wait for *fd* no more."""
        self._selector.unregister(fd)

    def poll(self, timeout_s: float, most: int, /) -> list[tuple[int, int]]:
        """Return all ready descriptors: those left out might never come first."""
        ready = self._selector.select(timeout_s)
        return [(key.fd, _to_poll_mask(events)) for key, events in ready]

    def close(self) -> None:
        """Free what this holds."""
        self._selector.close()


def open_poller() -> Poller:
    """Return the quickest poller that this system has."""
    return select.epoll() if hasattr(select, "epoll") else SelectorPoller()


class Alarm:
    """A descriptor that any thread can make readable; holds a pair of sockets."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._reader.fileno()

    def set(self) -> None:
        """Make the descriptor readable, if it is not."""
        with contextlib.suppress(BlockingIOError):  # the socket is full, so readable
            self._writer.send(b"!")

    def clear(self) -> None:
        """Make the descriptor unreadable.

        Look only afterwards for what it was set for: a later set() counts again.
        """
        with contextlib.suppress(BlockingIOError):
            while len(self._reader.recv(_DRAIN_BYTES)) == _DRAIN_BYTES:
                pass

    def close(self) -> None:
        """Close both sockets; idempotent."""
        self._reader.close()
        self._writer.close()


def _to_selector_events(mask: int) -> int:
    reads = selectors.EVENT_READ if mask & READ else 0
    return reads | (selectors.EVENT_WRITE if mask & WRITE else 0)


def _to_poll_mask(events: int) -> int:
    reads = READ if events & selectors.EVENT_READ else 0
    return reads | (WRITE if events & selectors.EVENT_WRITE else 0)
