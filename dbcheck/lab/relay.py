"""A process that is the network to a server of a lab, and can fail like one.

Started by link.py as `python -m dbcheck.lab.relay PORT [NETWORK]`: it prints the port
of 127.0.0.1 that it listens on; NETWORK is the descriptor of the network namespace in
which it connects.  Each line of its standard input is a command: "to PORT"
forwards all data to that port of 127.0.0.1; "down" and "up" stop and resume the link;
"delay MS" delays all data.  A link that is down passes nothing and loses nothing.  The
process ends at the end of its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from dbcheck.lab import syscalls

_CHUNK_BYTES = 1 << 16


class Relay:
    """See the module."""

    def __init__(self, listen: int, network: int | None) -> None:
        self._listen, self._network = listen, network
        self._port = 0
        self._delay_s = 0.0
        self._up = asyncio.Event()
        self._up.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until standard input ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._listen)
        if self._network is not None:
            syscalls.setns(self._network)
        _say(server.sockets[0].getsockname()[1])
        commands = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
        )
        while line := await commands.readline():
            self._obey(line.decode().split())
            _say("done")
        server.close()  # a client whose connection ends now may connect again at once

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["to", port]:
                self._port = int(port)
            case ["down"]:
                self._up.clear()
            case ["up"]:
                self._up.set()
            case ["delay", ms]:
                self._delay_s = float(ms) / 1000

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there = await asyncio.open_connection("127.0.0.1", self._port)
            ways = (self._pass_on(reader, there[1]), self._pass_on(there[0], writer))
            await asyncio.gather(*ways)
        writer.close()

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        """Hand on what one side sends, each piece after the delay, until it ends."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(pieces, sink))
        self._tasks.add(sending)
        sending.add_done_callback(self._tasks.discard)
        loop, piece = asyncio.get_running_loop(), b"-"
        while piece:
            await self._up.wait()
            try:
                piece = await source.read(_CHUNK_BYTES)
            except OSError:
                piece = b""
            pieces.put_nowait((loop.time() + self._delay_s, piece))
        await sending

    async def _send(
        self, pieces: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while True:
                due_s, piece = await pieces.get()
                await asyncio.sleep(max(0.0, due_s - loop.time()))
                await self._up.wait()
                if not piece:
                    break
                sink.write(piece)
                await sink.drain()
        sink.close()


def _say(answer: object) -> None:
    os.write(1, f"{answer}\n".encode())


if __name__ == "__main__":
    port, *network = map(int, sys.argv[1:])
    asyncio.run(Relay(port, network[0] if network else None).run())
