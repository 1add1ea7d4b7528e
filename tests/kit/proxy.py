"""A TCP proxy between client and server that can die, or change a reply."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from dbcheck.lab.held_port import HeldPort

PASS_ON, SWALLOW, SWALLOW_AND_CLOSE, FORGE = "", "swallow", "swallow and close", "forge"
_CHUNK_BYTES = 1 << 18


class Proxy:
    """Listens on a port of its own and passes on what comes; a context manager.

    target_port: where the server listens, or what says so for each new connection.
    judge: told each chunk that a client sends; says what becomes of its reply:
           SWALLOW: the reply never comes; SWALLOW_AND_CLOSE: the connection ends
           instead; FORGE: the server never sees the request, and the client is
           given the reply to its last one again.
    """

    def __init__(
        self, target_port: int | Callable[[], int], judge: Callable[[bytes], str]
    ) -> None:
        self._held = HeldPort()
        self.port = self._held.number
        self._target_port, self._judge = target_port, judge
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._dying = asyncio.Event()
        self._links: set[asyncio.Task[None]] = set()
        self._replies = _Replies()
        self._open: set[_Link] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Listen; return once connections are taken."""
        listening = threading.Event()
        self._replies.dark = self._replies.withheld = False
        self._thread = threading.Thread(target=self._run, args=(listening,))
        self._thread.start()
        assert listening.wait(60)

    def kill(self) -> None:
        """Break every connection and listen no more; return once that is done."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._dying.set)
        self._thread.join()
        self._loop = self._thread = None

    def go_dark(self) -> None:
        """Pass on nothing any more, not even the end of a connection, until kill()."""
        self._replies.dark = True

    def withhold(self) -> None:
        """Keep replies back from now on, until deliver_and_go_dark()."""
        self._replies.withheld = True

    def deliver_and_go_dark(self) -> None:
        """Pass on the replies that were kept back, and nothing after them."""
        assert self._loop is not None
        self._replies.dark = True
        self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        for link in self._open:
            link.deliver()

    def drop(self) -> None:
        """Break every connection, and go on listening."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for link in self._links:
            link.cancel()

    def _run(self, listening: threading.Event) -> None:
        asyncio.run(self._serve(listening))

    async def _serve(self, listening: threading.Event) -> None:
        self._loop, self._dying = asyncio.get_running_loop(), asyncio.Event()
        self._links.clear()

        async def accept(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._links.add(task)
            task.add_done_callback(self._links.discard)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._link(reader, writer)

        server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        listening.set()
        await self._dying.wait()
        server.close()
        links = list(self._links)
        self._cancel()
        await asyncio.gather(*links, return_exceptions=True)
        await server.wait_closed()

    async def _link(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection until one side, or the proxy, ends."""
        try:
            if self._replies.dark:
                await self._dying.wait()
            chosen = self._target_port
            port = chosen if isinstance(chosen, int) else chosen()
            far = await asyncio.open_connection("127.0.0.1", port)
        except BaseException:
            writer.transport.abort()
            raise
        link = _Link(self._judge, (reader, writer), far, self._replies)
        self._open.add(link)
        pumps = [asyncio.create_task(link.forth()), asyncio.create_task(link.back())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if self._replies.dark:
                await self._dying.wait()
        finally:
            self._open.discard(link)
            for pump in pumps:
                pump.cancel()
            for end in (writer, far[1]):
                end.transport.abort()
            await asyncio.gather(*pumps, return_exceptions=True)


@dataclass(slots=True)
class _Replies:
    """What becomes of the replies of all connections.

    dark: nothing is passed on, requests neither.  withheld: they are kept back.
    """

    dark: bool = False
    withheld: bool = False


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One connection; mute: the server's replies go nowhere."""

    def __init__(
        self,
        judge: Callable[[bytes], str],
        near: _End,
        far: _End,
        replies: _Replies,
    ) -> None:
        self._judge, self._near, self._far = judge, near, far
        self._replies = replies
        self._withheld: list[bytes] = []
        self._mute, self._close = False, False
        self._last_reply = b""

    async def forth(self) -> None:
        """Carry requests until the client ends."""
        while chunk := await self._near[0].read(_CHUNK_BYTES):
            if self._replies.dark:
                continue
            fate = self._judge(chunk)
            self._mute = self._mute or fate in (SWALLOW, SWALLOW_AND_CLOSE)
            self._close = self._close or fate == SWALLOW_AND_CLOSE
            end = self._near if fate == FORGE else self._far
            end[1].write(self._last_reply if fate == FORGE else chunk)
            await end[1].drain()

    async def back(self) -> None:
        """Carry replies until the server ends."""
        while chunk := await self._far[0].read(_CHUNK_BYTES):
            if self._close:
                return
            if self._replies.withheld:
                self._withheld.append(chunk)
            elif not self._mute and not self._replies.dark:
                self._last_reply = chunk
                self._near[1].write(chunk)
                await self._near[1].drain()

    def deliver(self) -> None:
        """Pass on what was withheld."""
        self._near[1].writelines(self._withheld)
        self._withheld = []
