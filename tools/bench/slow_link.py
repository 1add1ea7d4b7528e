"""A way to the lab's sshd on which bytes take time; itself the program of the relay.

A relay on loopback holds what comes back for half a round trip, in each direction.  It
stands for netem (tc-netem(8)), which needs root and a kernel that has it.  What it does
not show: TCP knows nothing of the delay, so it neither starts slowly nor runs out of
its own window; the windows of SSH, end to end, are those of a far host.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from dbcheck.base import processes
from dbcheck.lab.lab import Lab
from dbcheck.remote.address import SshOptions

_HOST = "127.0.0.1"


class SlowLink:
    """A relay in a process of its own, so that it takes no time of the client's.

    url, ssh: of the lab's witness, through the relay.
    The process ends with the one that made it, however that ends.
    """

    def __init__(self, lab: Lab, round_trip_ms: float, folder: Path) -> None:
        """Start the relay; *folder* takes a file of known hosts."""
        to = urlsplit(lab.witness_url)
        # By its file: `tools` is no package that is installed.
        command = [sys.executable, "-P", __file__, str(to.port)]
        command.append(str(round_trip_ms / 2e3))
        self._child = subprocess.Popen(
            processes.die_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the benchmark, which ends it
        )
        try:
            assert self._child.stdout is not None
            port = int(self._child.stdout.readline())
            self.url = lab.witness_url.replace(f":{to.port}", f":{port}", 1)
            self.ssh = _options_behind(lab.ssh, to.port, port, folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the relay and every connection through it."""
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _options_behind(
    ssh: SshOptions, sshd_port: int | None, port: int, folder: Path
) -> SshOptions:
    """Return *ssh* with the host key of the sshd under the port of its relay, too."""
    assert ssh.known_hosts is not None
    name, own = f"[{_HOST}]:{sshd_port}", f"[{_HOST}]:{port}"
    file = folder / f"known_hosts-{port}"
    file.write_text(ssh.known_hosts.read_text().replace(name, own))
    return replace(ssh, known_hosts=file)


class _End(asyncio.Protocol):
    """One end of a connection: what it receives leaves at the other one, later.

    None among what is held stands for the end of the connection.
    """

    def __init__(self, delay_s: float) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._delay_s = delay_s
        self._held: deque[bytes | None] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._hold(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hold(None)

    def _hold(self, data: bytes | None) -> None:
        # Timers of one moment may fire in any order, so each takes the oldest.
        self._held.append(data)
        asyncio.get_running_loop().call_later(self._delay_s, self._pass_on)

    def _pass_on(self) -> None:
        data = self._held.popleft()
        if self.other is None or self.other.transport is None:
            return
        if data is None:
            self.other.transport.close()
        else:
            self.other.transport.write(data)


async def serve(sshd_port: int, delay_s: float) -> None:
    """Relay each connection to the sshd; print the port on which that is done."""
    loop = asyncio.get_running_loop()

    class Near(_End):
        """The client's end, which connects to the sshd at once."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()
            tasks.add(task := loop.create_task(self._connect(transport)))
            task.add_done_callback(tasks.discard)

        async def _connect(self, transport: asyncio.Transport) -> None:
            far = _End(delay_s)
            far.other, self.other = self, far
            try:
                await loop.create_connection(lambda: far, _HOST, sshd_port)
            except OSError:
                transport.close()
            else:
                transport.resume_reading()

    tasks: set[asyncio.Task[None]] = set()
    server = await loop.create_server(lambda: Near(delay_s), _HOST, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    os.chdir("/")  # keep no filesystem busy
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
