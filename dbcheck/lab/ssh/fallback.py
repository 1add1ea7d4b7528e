"""An SSH server where OpenSSH is missing: python -m dbcheck.lab.ssh.fallback.

A client with the key in authorized_keys may log in, as the current user.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

import asyncssh

from dbcheck.base import processes

_READ_BYTES = 1 << 16


async def run_command(process: Any) -> None:
    """Run the command of one session; end it when its channel ends."""
    if process.command is None:
        process.exit(1)
        return
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *processes.die_with_parent(("sh", "-c", process.command)),
        env=processes.make_environment(),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    )
    feeding = asyncio.ensure_future(_copy_bytes(process.stdin, child.stdin))
    feeding.add_done_callback(lambda _: child.stdin.close() if child.stdin else None)
    channel_end = asyncio.ensure_future(process.wait_closed())
    output = asyncio.gather(
        _copy_bytes(child.stdout, process.stdout),
        _copy_bytes(child.stderr, process.stderr),
    )
    try:
        await asyncio.wait((output, channel_end), return_when=asyncio.FIRST_COMPLETED)
        if not channel_end.done():
            process.exit(await child.wait())
    finally:
        for task in (feeding, channel_end, output):
            task.cancel()
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _copy_bytes(source: Any, sink: Any) -> None:
    """Copy from *source* to *sink* until either of them ends."""
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(_READ_BYTES):
            sink.write(data)
            await sink.drain()


async def serve(folder: Path, port: int) -> None:
    """Serve on 127.0.0.1 until killed; the keys are in *folder*."""
    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[str(folder / "host_key")],
        authorized_client_keys=str(folder / "authorized_keys"),
        process_factory=run_command,
        encoding=None,
        allow_pty=False,
    )
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
