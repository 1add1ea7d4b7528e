"""What a flush of a file of our own does to the drives: a control without a server.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library and remote/wire.py.
"""

from __future__ import annotations

import os
import time
from typing import Any

from dbcheck.hosts.agent.counters import Devices
from dbcheck.hosts.agent.unnamed import open_unnamed

BLOCK_BYTES = 8192
BLOCKS = 16
TIME_MAX_S = 20.0  # well within what the client waits for an answer


def file_windows(folder: str, devices: list[str], writes: int) -> list[Any]:
    """Write blocks of a file and flush each with fdatasync(2); return the counters.

    They are read before the first write, after each flush and after each wait, which is
    one to four times as long as the write and its flush took: 1 + 2 * writes samples,
    or fewer if that takes too long.  The file's blocks are written and flushed before,
    so that nothing but a block of data is written in between.
    """
    counted = Devices(devices)
    try:
        file = open_unnamed(folder)
        try:
            os.pwrite(file, os.urandom(BLOCK_BYTES * BLOCKS), 0)
            os.fsync(file)
            samples = [counted.read()]
            end = time.monotonic() + TIME_MAX_S
            for number in range(writes):
                begun = time.monotonic()
                if begun > end:
                    break
                block = os.urandom(BLOCK_BYTES)
                os.pwrite(file, block, number % BLOCKS * BLOCK_BYTES)
                os.fdatasync(file)
                samples.append(counted.read())
                times = 1 + 3 * os.urandom(1)[0] / 255
                time.sleep((time.monotonic() - begun) * times)
                samples.append(counted.read())
            return samples
        finally:
            os.close(file)
    finally:
        counted.close()
