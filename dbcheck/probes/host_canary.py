"""Canaries: data written without a flush, whose disappearance measures a cut.

This file is sent to the target's host, see host_agent.py: Python 3.8, no more than
the standard library and remote/wire.py.

The folder of the canaries is on the filesystem of the data directory and holds

    dbcheck-canary   says that the folder is ours; locked while canaries write
    run.json         which run it was and how it wrote, durable before the first write
    buffered-000001  records of 64 bytes, appended and never flushed
    direct-1 ...     rings of blocks, overwritten with O_DIRECT and never flushed

Records and the blocks of each ring are numbered from 1.  A record that was written
is in the page cache; a block that was written has left it, and is in the drive's
volatile write cache if it has one.  Several rings are written at once, so that
hardly a moment finds nothing unflushed in the drive.  The rings are filled with
zeros and flushed first: overwriting them changes no metadata on a filesystem that
writes in place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import mmap
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dbcheck.remote.wire import Refusal, sync_folder, write_all, write_durably

BESIDE = ".dbcheck-canary"
INSIDE = "#sql-dbcheck-canary"  # MariaDB and MySQL list no folder "#sql..." as a schema
MARKER = "dbcheck-canary"
RUN = "run.json"
DIRECT = "direct-{}"
BUFFERED = "buffered-{:06d}"
OURS = re.compile(r"dbcheck-canary|run\.json|direct-\d+|buffered-\d{6}")
OF_RECORDS = re.compile(r"buffered-[0-9]{6,}")
BLOCK_BYTES = 4096
SECTOR_BYTES = 512
RECORD_BYTES = 64
HEAD = struct.Struct("<8s16sQ")  # magic, nonce, number
MAGIC = b"dbcanary"
ROOM = 2  # so many times what the canaries take must be free
END_S = 1.0  # for all threads together: a client soon takes a mute host for gone
IDLE_REPORT_S = 0.02
# FS_IOC_GETFLAGS of linux/fs.h, as most machines number it: _IOR('f', 1, long)
GET_ATTRIBUTES = 2 << 30 | struct.calcsize("l") << 16 | ord("f") << 8 | 1


def record(nonce: bytes, number: int, size: int) -> bytes:
    """Return the *size* bytes that carry *number*; no sector of them is like another's.

    They are repeated by the sector, so a block of two numbers equals neither.
    """
    head = HEAD.pack(MAGIC, nonce, number)
    unit = min(size, SECTOR_BYTES)
    return (head + bytes(unit - len(head))) * (size // unit)


def number_in(data: bytes, nonce: bytes) -> int | None:
    """Return the number that *data* carries whole, 0 if it is empty, None if torn."""
    if len(data) >= HEAD.size:
        _, _, number = HEAD.unpack_from(data)
        if number and data == record(nonce, number, len(data)):
            return int(number)
    return None if data.strip(b"\0") else 0


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return *numbers*, which rise, as pairs of first and last."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def attributes(fd: int) -> int:
    """Return the attributes of an open file (chattr(1)), 0 where there are none."""
    found = bytearray(struct.calcsize("l"))  # the kernel fills in an int
    try:
        fcntl.ioctl(fd, GET_ATTRIBUTES, found)
    except OSError:
        return 0
    return int(struct.unpack_from("I", found)[0])


def choose_folder(data_directory: str, wanted: str) -> str:
    """Return the folder for the canaries; refuse one on another filesystem.

    *wanted*, if it is not "", else beside the data directory, else inside it.
    """
    data = os.path.realpath(data_directory)
    device = os.stat(data).st_dev
    if os.path.isfile(data):
        raise Refusal(
            "folder",
            f"{data} is a single file that is mounted; no folder to write in was found"
            " on its filesystem",
        )
    beside = os.path.join(os.path.dirname(data), BESIDE)
    choices = [wanted] if wanted else [beside, os.path.join(data, INSIDE)]
    problem = ""
    for folder in choices:
        parent = os.path.dirname(folder)
        if os.stat(parent).st_dev != device:
            problem = f"{parent} is on another filesystem than {data}"
        elif not os.access(parent, os.W_OK | os.X_OK):
            problem = f"{parent} cannot be written by this user"
        else:
            return folder
    raise Refusal("folder", f"no place for canaries: {problem}")


def take_folder(folder: str, *, new: bool = False) -> int:
    """Lock a folder that is ours; return the lock, a descriptor.

    new: it was made by us just now.  An empty one of our own name was too, by a run
    that was cut off before it was marked.  Raise Refusal if the folder is somebody
    else's, or if canaries write there.
    """
    if os.path.islink(folder):
        raise Refusal("strangers", f"{folder} is a link")
    names = os.listdir(folder)
    strangers = [name for name in names if not OURS.fullmatch(name)]
    if strangers:
        raise Refusal("strangers", f"{folder} holds files of others: {strangers[0]}")
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    if new or (not names and os.path.basename(folder) in (BESIDE, INSIDE)):
        flags |= os.O_CREAT
    try:
        lock = os.open(os.path.join(folder, MARKER), flags, 0o600)
    except FileNotFoundError:
        raise Refusal("strangers", f"{folder} is not marked as ours") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Refusal("in-use", f"canaries are writing in {folder}") from None
    return lock


def remove(folder: str) -> None:
    """Delete the folder, if it is there and ours."""
    if not os.path.lexists(folder):
        return
    lock = take_folder(folder)
    try:
        for name in sorted(os.listdir(folder), key=lambda name: name == MARKER):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    finally:
        os.close(lock)
    sync_folder(os.path.dirname(folder))


class Canaries:
    """Threads that write until stop(), an error, or the end of this process.

    buffered: the last record that was completed.  direct: the last block, by ring.
    stopped: why a thread stopped by itself, in words, "" if none did.
    """

    def __init__(self, ask: Any, tell: Callable[[int, list[int]], object]) -> None:
        """Prepare the folder durably, and start; *tell* is given the numbers.

        ask: data_directory, folder, nonce (hex), direct_per_s, buffered_per_s,
        report_us, rings, ring_blocks, file_bytes.
        """
        self._nonce = bytes.fromhex(ask["nonce"])
        self._ring_blocks = ask["ring_blocks"]
        self._file_bytes = ask["file_bytes"]
        self._tell = tell
        self._report_s = ask["report_us"] / 1e6
        self._told_s = 0.0
        self._stop = threading.Event()
        self.buffered = 0
        self.direct = [0] * ask["rings"]
        self.stopped = ""
        self.folder = choose_folder(ask["data_directory"], ask["folder"])
        self._prepare()
        each_s = len(self.direct) / ask["direct_per_s"]
        jobs: list[Callable[[], None]] = [
            functools.partial(self._overwrite, ring, each_s)
            for ring in range(len(self.direct))
        ]
        jobs.append(functools.partial(self._append, 1 / ask["buffered_per_s"]))
        self._open = len(jobs)  # threads that hold files
        self._closing = threading.Lock()
        self._threads = [
            threading.Thread(target=self._guard, args=(job,), daemon=True)
            for job in jobs
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; one that sleeps on a dead drive is left behind."""
        self._stop.set()
        ends_s = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, ends_s - time.monotonic()))

    def _prepare(self) -> None:
        """Make the folder, durable up to its name, with rings of zeros."""
        remove(self.folder)
        zeros = bytes(BLOCK_BYTES * self._ring_blocks)
        space = os.statvfs(os.path.dirname(self.folder))
        needed = ROOM * (len(zeros) * len(self.direct) + 2 * self._file_bytes)
        if space.f_bavail * space.f_frsize < needed:
            raise Refusal("ENOSPC", f"{self.folder}: less than {needed} bytes are free")
        os.mkdir(self.folder, 0o700)
        self._lock = take_folder(self.folder, new=True)
        try:
            run = {
                "nonce": self._nonce.hex(),
                "rings": len(self.direct),
                "ring_blocks": self._ring_blocks,
                "records_per_file": self._file_bytes // RECORD_BYTES,
                "attributes": attributes(self._lock),
            }
            write_durably(self._path(RUN), json.dumps(run).encode())
            for ring in range(len(self.direct)):
                write_durably(self._path(DIRECT.format(ring + 1)), zeros)
            os.fsync(self._lock)
            sync_folder(self.folder)
            sync_folder(os.path.dirname(self.folder))
        except BaseException:
            os.close(self._lock)
            remove(self.folder)
            raise

    def _guard(self, job: Callable[[], None]) -> None:
        """Run a job; its error ends all, and with them every open file.

        All but one: a filesystem that knows no O_DIRECT (EINVAL, open(2)) still has
        a page cache to lose.
        """
        try:
            job()
        except OSError as error:
            self.stopped = self.stopped or str(error.strerror or error)
            if error.errno != errno.EINVAL:
                self._stop.set()
        finally:
            with self._closing:
                self._open -= 1
                if not self._open:
                    os.close(self._lock)

    def _overwrite(self, ring: int, interval_s: float) -> None:
        """Overwrite block after block of a ring past the page cache."""
        flags = os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC
        fd = os.open(self._path(DIRECT.format(ring + 1)), flags)
        try:
            with mmap.mmap(-1, BLOCK_BYTES) as page:  # aligned, as O_DIRECT wants it
                for number in self._numbers(interval_s):
                    page[:] = record(self._nonce, number, BLOCK_BYTES)
                    at = (number - 1) % self._ring_blocks * BLOCK_BYTES
                    os.pwrite(fd, page, at)
                    self.direct[ring] = number
                    self._report(self._report_s)
        finally:
            os.close(fd)

    def _append(self, interval_s: float) -> None:
        """Append record after record; keep the last two files."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        per_file = self._file_bytes // RECORD_BYTES
        fd = -1
        try:
            for number in self._numbers(interval_s):
                index, first = divmod(number - 1, per_file)
                if not first:
                    if fd >= 0:
                        os.close(fd)
                        fd = -1
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self._path(BUFFERED.format(index - 1)))
                    name = BUFFERED.format(index + 1)
                    fd = os.open(self._path(name), flags, 0o600)
                write_all(fd, record(self._nonce, number, RECORD_BYTES))
                self.buffered = number
                self._report(IDLE_REPORT_S)
        finally:
            if fd >= 0:
                os.close(fd)

    def _numbers(self, interval_s: float) -> Iterator[int]:
        """Yield 1, 2, 3, ... in that rhythm until the end; what is late stays so."""
        due_s = time.monotonic()
        number = 0
        while not self._stop.is_set():
            number += 1
            yield number
            now_s = time.monotonic()
            due_s = max(due_s + interval_s, now_s)
            time.sleep(due_s - now_s)

    def _report(self, interval_s: float) -> None:
        """Tell the client all numbers, if the last time is *interval_s* ago."""
        now_s = time.monotonic()
        if now_s - self._told_s >= interval_s:
            self._told_s = now_s
            self._tell(self.buffered, self.direct)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def survivors(folder: str) -> dict[str, Any]:
    """Return what is left of the canaries in *folder*.

    run: of run.json, None if that is gone.  buffered: ranges of whole numbers, and
    first: the first that was not deleted to make room.
    rings: the same of each ring, with the torn slots, from 0, that hold parts of
    two blocks.
    """
    try:
        with open(os.path.join(folder, RUN), encoding="utf-8") as file:
            run = json.load(file)
        nonce = bytes.fromhex(run["nonce"])
        rings = [
            _ring(os.path.join(folder, DIRECT.format(ring + 1)), nonce)
            for ring in range(run["rings"])
        ]
        names = sorted(
            name for name in os.listdir(folder) if OF_RECORDS.fullmatch(name)
        )
        per_file = int(run["records_per_file"])
    except (FileNotFoundError, ValueError, LookupError, TypeError, RecursionError):
        return {"run": None, "buffered": [], "first": 1, "rings": []}
    records = [
        number
        for name in names
        for number in _pieces(os.path.join(folder, name), RECORD_BYTES, nonce)
    ]
    found = ranges(sorted(number for number in records if number))
    oldest = int(names[0].rpartition("-")[2]) if names else 1
    first = (oldest - 1) * per_file + 1
    return {"run": run, "buffered": found, "first": first, "rings": rings}


def _ring(path: str, nonce: bytes) -> dict[str, Any]:
    blocks = list(_pieces(path, BLOCK_BYTES, nonce))
    return {
        "found": ranges(sorted(number for number in blocks if number)),
        "torn": [slot for slot, number in enumerate(blocks) if number is None],
    }


def _pieces(path: str, size: int, nonce: bytes) -> Iterator[int | None]:
    """Yield the number of each whole piece of a file."""
    with open(path, "rb") as file:
        while True:
            data = file.read(size)
            if len(data) < size:
                return
            yield number_in(data, nonce)
