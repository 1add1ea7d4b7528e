"""How long a block takes until it is durable.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library and remote/wire.py.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from typing import Any

from dbcheck.hosts.agent.counters import Devices
from dbcheck.hosts.agent.unnamed import open_unnamed
from dbcheck.remote.wire import Refusal

FILE_BYTES = 1 << 20
SIZE_MAX = 1 << 19
TIME_MAX_S = 20.0
FLAGS = {"dsync": os.O_DSYNC, "direct": getattr(os, "O_DIRECT", 0)}


def time_writes(ask: dict[str, Any]) -> dict[str, Any]:
    """Write a block in place until there are *count*, or *time_s* is over.

    folder: where the file is, which has no name.  method: fsync, fdatasync, dsync,
    direct or rwf_dsync.  size, offset: of each write, bytes; direct takes multiples of
    the device's block alone.  devices: whose counters are read before and after.
    """
    size, offset = ask["size"], ask["offset"]
    if not 0 < size <= SIZE_MAX or not 0 <= offset <= FILE_BYTES - size:
        raise Refusal("protocol", f"{size} bytes at {offset} are too many")
    method = ask["method"]
    file = open_unnamed(ask["folder"], FLAGS.get(method, 0))
    counted = Devices(ask["devices"])
    try:
        # O_DIRECT takes memory that begins with a page.
        with mmap.mmap(-1, FILE_BYTES) as memory, memoryview(memory) as whole:
            whole[:] = os.urandom(FILE_BYTES)
            os.pwrite(file, whole, 0)
            os.fsync(file)
            with whole[:size] as block:
                write = writer(file, method, block, offset)
                try:
                    write()
                except OSError as error:
                    why = error.strerror or str(error)
                    seen = counted.read()
                    return {"took_ns": [], "before": seen, "after": seen, "why": why}
                return timed(write, counted, block, ask["count"], ask["time_s"])
    finally:
        counted.close()
        os.close(file)


def writer(
    file: int, method: str, block: memoryview, offset: int
) -> Callable[[], object]:
    """Return what writes *block* at *offset*, and comes back once it is durable."""
    sync = {"fsync": os.fsync, "fdatasync": os.fdatasync, "direct": os.fdatasync}
    if method == "dsync":
        return lambda: os.pwrite(file, block, offset)
    if method == "rwf_dsync":
        flag = os.RWF_DSYNC
        return lambda: os.pwritev(file, [block], offset, flag)
    if method not in sync:
        raise Refusal("protocol", f"no such method: {method}")
    made_durable = sync[method]

    def write_and_sync() -> None:
        os.pwrite(file, block, offset)
        made_durable(file)

    return write_and_sync


def timed(
    write: Callable[[], object],
    counted: Devices,
    block: memoryview,
    count: int,
    time_s: float,
) -> dict[str, Any]:
    """Return how long each of *count* writes takes, and what devices do meanwhile."""
    took_ns: list[int] = []
    clock = time.perf_counter_ns
    before = counted.read()
    end = clock() + int(min(time_s, TIME_MAX_S) * 1e9)
    number = 0
    while number < count:
        block[0] = number & 255  # no two writes in a row are alike
        begun = clock()
        write()
        done = clock()
        took_ns.append(done - begun)
        number += 1
        if done > end:
            break
    return {
        "took_ns": took_ns,
        "before": before,
        "after": counted.read(),
        "why": "",
    }
