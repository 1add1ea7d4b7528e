"""Times durable writes, and shows what the flush of a file of our own does to drives.

Each file is without a name: the kernel removes it when its last descriptor is closed.
fio(1), where it is installed, times random writes of several threads at once.
"""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

from dbcheck.agent.host.devices import Devices
from dbcheck.agent.host.open import name_path_in_errors, open_folder
from dbcheck.agent.host.tools import PATHS, find_program
from dbcheck.agent.wire import Refusal

# Errors of open(2) where a filesystem has no unnamed files.
NO_UNNAMED_FILES_ERRORS = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
BLOCK_BYTES = 8192
BLOCKS = 16
TIME_MAX_S = 20.0  # well within what the client waits for an answer
FILE_BYTES = 1 << 20
WRITE_BYTES_MAX = 1 << 19
FLAGS_OF_METHODS = {"dsync": os.O_DSYNC, "direct": getattr(os, "O_DIRECT", 0)}


def open_unnamed(folder: str, flags: int = 0) -> int:
    """Return a descriptor of a new file on the filesystem of *folder*.

    Links in the path are followed first.  Where the filesystem has no such files (NFS)
    the file gets a name, and loses it at once.  Raise OSError or Refusal.
    """
    path = os.path.realpath(folder)
    parent = open_folder(path)
    try:
        with name_path_in_errors(path):
            flags |= os.O_RDWR | os.O_CLOEXEC
            try:
                return os.open(".", flags | os.O_TMPFILE, 0o600, dir_fd=parent)
            except OSError as error:
                if error.errno not in NO_UNNAMED_FILES_ERRORS:
                    raise
            name = "#sql-dbcheck-probe-" + os.urandom(8).hex()
            creation_flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            file = os.open(name, flags | creation_flags, 0o600, dir_fd=parent)
            os.unlink(name, dir_fd=parent)
            return file
    finally:
        os.close(parent)


def count_flush_requests(folder: str, devices: list[str], writes: int) -> list[Any]:
    """Write blocks of a file and flush each with fdatasync(2); return the counters.

    The counters are read before the first write, after each flush and after each wait.
    A wait is one to four times as long as the write and its flush took.  These are 1 +
    2 * writes samples, or fewer if that takes too long.  All blocks of the file are
    written and flushed first, so that later only data are written, and no metadata.
    """
    counters = Devices(devices)
    try:
        file = open_unnamed(folder)
        try:
            os.pwrite(file, os.urandom(BLOCK_BYTES * BLOCKS), 0)
            os.fsync(file)
            samples = [counters.read()]
            end = time.monotonic() + TIME_MAX_S
            for number in range(writes):
                begun = time.monotonic()
                if begun > end:
                    break
                block = os.urandom(BLOCK_BYTES)
                os.pwrite(file, block, number % BLOCKS * BLOCK_BYTES)
                os.fdatasync(file)
                samples.append(counters.read())
                factor = 1 + 3 * os.urandom(1)[0] / 255
                time.sleep((time.monotonic() - begun) * factor)
                samples.append(counters.read())
            return samples
        finally:
            os.close(file)
    finally:
        counters.close()


def time_writes(request: dict[str, Any]) -> dict[str, Any]:
    """Write a block in place *count* times, or until *time_s* is over.

    folder: where the file is, which has no name.  method: fsync, fdatasync, dsync,
    direct or rwf_dsync.  size, offset: of each write, bytes; direct takes only
    multiples of the device's block.  devices: their counters are read before and after.
    """
    size, offset = request["size"], request["offset"]
    if not 0 < size <= WRITE_BYTES_MAX or not 0 <= offset <= FILE_BYTES - size:
        raise Refusal("protocol", f"{size} bytes at {offset} are too many")
    method = request["method"]
    file = open_unnamed(request["folder"], FLAGS_OF_METHODS.get(method, 0))
    counters = Devices(request["devices"])
    try:
        # O_DIRECT takes memory that begins with a page.
        with mmap.mmap(-1, FILE_BYTES) as memory, memoryview(memory) as whole:
            whole[:] = os.urandom(FILE_BYTES)
            os.pwrite(file, whole, 0)
            os.fsync(file)
            with whole[:size] as block:
                write = make_writer(file, method, block, offset)
                try:
                    write()
                except OSError as error:
                    why = error.strerror or str(error)
                    seen = counters.read()
                    return {"took_ns": [], "before": seen, "after": seen, "why": why}
                return time_each_write(
                    write, counters, block, request["count"], request["time_s"]
                )
    finally:
        counters.close()
        os.close(file)


def make_writer(
    file: int, method: str, block: memoryview, offset: int
) -> Callable[[], object]:
    """Return a function that writes *block* at *offset* durably."""
    sync = {"fsync": os.fsync, "fdatasync": os.fdatasync, "direct": os.fdatasync}
    if method == "dsync":
        return lambda: os.pwrite(file, block, offset)
    if method == "rwf_dsync":
        flag = os.RWF_DSYNC
        return lambda: os.pwritev(file, [block], offset, flag)
    if method not in sync:
        raise Refusal("protocol", f"no such method: {method}")
    sync_file = sync[method]

    def write_and_sync() -> None:
        os.pwrite(file, block, offset)
        sync_file(file)

    return write_and_sync


def time_each_write(
    write: Callable[[], object],
    counters: Devices,
    block: memoryview,
    count: int,
    time_s: float,
) -> dict[str, Any]:
    """Time each of *count* writes; return durations and the devices' counters."""
    took_ns: list[int] = []
    clock = time.perf_counter_ns
    before = counters.read()
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
        "after": counters.read(),
        "why": "",
    }


FIO_FILE_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20
FIO_BLOCK_BYTES = 16384  # the size of InnoDB's pages
FIO_TIME_MAX_S = 20
FIO_EXTRA_S = 20  # fio may take so much longer, to begin and to end
TEXT_BYTES_MAX = 1 << 20


def run_fio(request: dict[str, Any]) -> dict[str, str]:
    """Run fio; return its JSON output, or why it could not be run.

    folder: where the file is, which has no name.  flushed: each write is flushed.
    at_once: threads that each write and flush a block; if not *flushed*, blocks in
    flight.  time_s: for how long fio writes.
    """
    program = find_program("fio")
    if not program:
        return {"text": "", "why": "fio is not installed"}
    at_once, time_s = (
        int(request["at_once"]),
        min(int(request["time_s"]), FIO_TIME_MAX_S),
    )
    kind = ["--ioengine=libaio", f"--iodepth={at_once}"]
    if request["flushed"]:
        kind = ["--ioengine=psync", "--fdatasync=1", f"--numjobs={at_once}"]
    file = open_unnamed(request["folder"])
    try:
        for place in range(0, FIO_FILE_BYTES, CHUNK_BYTES):
            os.pwrite(file, os.urandom(CHUNK_BYTES), place)
        os.fsync(file)
        command = [
            program,
            "--name=dbcheck",
            f"--filename=/proc/{os.getpid()}/fd/{file}",
            f"--size={FIO_FILE_BYTES}",
            "--allow_file_create=0",
            "--rw=randwrite",
            f"--bs={FIO_BLOCK_BYTES}",
            "--direct=1",
            "--thread",
            "--group_reporting",
            "--time_based",
            f"--runtime={time_s}",
            "--output-format=json",
            *kind,
        ]
        return read_fio_output(command, time_s + FIO_EXTRA_S)
    finally:
        os.close(file)


def read_fio_output(command: list[str], timeout_s: int) -> dict[str, str]:
    """Return fio's output, or the reason why it failed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            cwd="/",
            env={"PATH": PATHS, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"text": "", "why": f"fio: {type(error).__name__}"}
    if done.returncode or len(done.stdout) > TEXT_BYTES_MAX:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = lines[0][:200] if lines else f"exit status {done.returncode}"
        return {"text": "", "why": f"fio: {why}"}
    return {"text": done.stdout.decode(errors="replace"), "why": ""}
