"""Canaries: data written without a flush, whose disappearance measures a cut.

The folder of the canaries (folder.py) is on the filesystem of the data directory
and holds

    dbcheck-canary   marks the folder as dbcheck's; locked while canaries write
    run.json         the run's nonce and sizes, durable before the first write
    buffered-000001  records of 64 bytes, appended and never flushed
    direct-1 ...     rings of blocks, overwritten with O_DIRECT and never flushed

Records and the blocks of each ring are numbered from 1.  A written record is in the
page cache; a written block bypassed it, and is in the drive's volatile write cache if
the drive has one.  Several rings are written at once, so that the drive nearly always
holds an unflushed block.  The rings are first filled with zeros and flushed, so on a
filesystem that writes in place, overwriting them changes no metadata.
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

from dbcheck.agent.host.folder import Folder, choose_folder, remove
from dbcheck.agent.wire import Refusal, fill_durably, write_all

RUN = "run.json"
DIRECT = "direct-{}"
BUFFERED = "buffered-{:06d}"
BUFFERED_NAME = re.compile(r"buffered-[0-9]{6,}")
BLOCK_BYTES = 4096
SECTOR_BYTES = 512
RECORD_BYTES = 64
HEAD = struct.Struct("<8s16sQ")  # magic, nonce, number
MAGIC = b"dbcanary"
RUN_BYTES_MAX = 1 << 12
READ_BYTES_MAX = 1 << 26  # no more is read of a folder of canaries; it has 24 MiB
FREE_SPACE_FACTOR = 2  # the free space must be this many times the size of the canaries
# stop() waits so long for all threads together; a client soon takes a mute host for
# gone.
END_S = 1.0
IDLE_REPORT_S = 0.02
# FS_IOC_GETFLAGS of linux/fs.h, as most machines number it: _IOR('f', 1, long)
GET_ATTRIBUTES = 2 << 30 | struct.calcsize("l") << 16 | ord("f") << 8 | 1


def make_record(nonce: bytes, number: int, size: int) -> bytes:
    """Return *size* bytes that carry *number* in each of their sectors.

    So a block with sectors of two numbers equals neither number's block.
    """
    head = HEAD.pack(MAGIC, nonce, number)
    unit = min(size, SECTOR_BYTES)
    return (head + bytes(unit - len(head))) * (size // unit)


def parse_number(data: bytes, nonce: bytes) -> int | None:
    """Return the number that *data* carries whole, 0 if it is empty, None if torn."""
    if len(data) >= HEAD.size:
        _, _, number = HEAD.unpack_from(data)
        if number and data == make_record(nonce, number, len(data)):
            return int(number)
    return None if data.strip(b"\0") else 0


def join_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return rising *numbers* as ranges, pairs of first and last."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def read_attributes(fd: int) -> int:
    """Return the attributes of an open file (chattr(1)), 0 where there are none."""
    attributes = bytearray(struct.calcsize("l"))  # the kernel fills in an int
    try:
        fcntl.ioctl(fd, GET_ATTRIBUTES, attributes)
    except OSError:
        return 0
    return int(struct.unpack_from("I", attributes)[0])


class Canaries:
    """Threads that write until stop(), an error, or the end of this process.

    buffered: number of the last complete record.  direct: for each ring the number of
    the last block.  stopped: why a thread stopped by itself, "" if none did.
    """

    def __init__(self, request: Any, send: Callable[[int, list[int]], object]) -> None:
        """Prepare the folder durably, and start; *send* gets the numbers.

        request: data_directory, folder, nonce (hex), direct_per_s, buffered_per_s,
        report_us, rings, ring_blocks, file_bytes.
        """
        self._nonce = bytes.fromhex(request["nonce"])
        self._ring_blocks = request["ring_blocks"]
        self._file_bytes = request["file_bytes"]
        self._send = send
        self._report_s = request["report_us"] / 1e6
        self._reported_s = 0.0
        self._stop = threading.Event()
        self.buffered = 0
        self.direct = [0] * request["rings"]
        self.stopped = ""
        self.folder, device = choose_folder(
            request["data_directory"], request["folder"]
        )
        self._folder_in_use = self._prepare(device)
        ring_interval_s = len(self.direct) / request["direct_per_s"]
        jobs: list[Callable[[], None]] = [
            functools.partial(self._overwrite, ring, ring_interval_s)
            for ring in range(len(self.direct))
        ]
        jobs.append(functools.partial(self._append, 1 / request["buffered_per_s"]))
        self._threads_running = len(jobs)  # the last one to end closes the folder
        self._running_lock = threading.Lock()
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

    def _prepare(self, device: int) -> Folder:
        """Make the folder on *device*, durable up to its name, with rings of zeros."""
        remove(self.folder)
        zeros = bytes(BLOCK_BYTES * self._ring_blocks)
        space = os.statvfs(os.path.dirname(self.folder))
        needed = FREE_SPACE_FACTOR * (
            len(zeros) * len(self.direct) + 2 * self._file_bytes
        )
        if space.f_bavail * space.f_frsize < needed:
            mib = -(-needed // (1 << 20))
            raise Refusal("ENOSPC", f"{self.folder}: less than {mib} MiB are free")
        with contextlib.ExitStack() as undo:
            folder = Folder(self.folder, new_on=device)
            undo.callback(folder.close)
            folder.take(new=True)
            undo.callback(folder.remove)
            self._fill(folder, zeros)
            undo.pop_all()
        return folder

    def _fill(self, folder: Folder, zeros: bytes) -> None:
        run = {
            "nonce": self._nonce.hex(),
            "rings": len(self.direct),
            "ring_blocks": self._ring_blocks,
            "records_per_file": self._file_bytes // RECORD_BYTES,
            "attributes": read_attributes(folder.lock),
        }
        fill_durably(folder.create(RUN), json.dumps(run).encode())
        for ring in range(len(self.direct)):
            fill_durably(folder.create(DIRECT.format(ring + 1)), zeros)
        os.fsync(folder.lock)
        folder.sync()

    def _guard(self, job: Callable[[], None]) -> None:
        """Run a job; its error stops every job, which closes all files.

        Only EINVAL stops no other job: a filesystem without O_DIRECT (open(2)) still
        has a page cache to lose.
        """
        try:
            job()
        except Refusal as refusal:
            self.stopped = self.stopped or str(refusal)
            self._stop.set()
        except OSError as error:
            self.stopped = self.stopped or str(error.strerror or error)
            if error.errno != errno.EINVAL:
                self._stop.set()
        finally:
            with self._running_lock:
                self._threads_running -= 1
                if not self._threads_running:
                    self._folder_in_use.close()

    def _overwrite(self, ring: int, interval_s: float) -> None:
        """Overwrite a ring block by block, bypassing the page cache."""
        name = DIRECT.format(ring + 1)
        fd = self._folder_in_use.open(name, os.O_WRONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, BLOCK_BYTES) as page:  # aligned, as O_DIRECT wants it
                for number in self._yield_numbers(interval_s):
                    page[:] = make_record(self._nonce, number, BLOCK_BYTES)
                    at = (number - 1) % self._ring_blocks * BLOCK_BYTES
                    os.pwrite(fd, page, at)
                    self.direct[ring] = number
                    self._report(self._report_s)
        finally:
            os.close(fd)

    def _append(self, interval_s: float) -> None:
        """Append records one by one; keep the last two files."""
        per_file = self._file_bytes // RECORD_BYTES
        fd = -1
        try:
            for number in self._yield_numbers(interval_s):
                index, first = divmod(number - 1, per_file)
                if not first:
                    if fd >= 0:
                        os.close(fd)
                        fd = -1
                    self._folder_in_use.delete(BUFFERED.format(index - 1))
                    fd = self._folder_in_use.create(
                        BUFFERED.format(index + 1), os.O_APPEND
                    )
                write_all(fd, make_record(self._nonce, number, RECORD_BYTES))
                self.buffered = number
                self._report(IDLE_REPORT_S)
        finally:
            if fd >= 0:
                os.close(fd)

    def _yield_numbers(self, interval_s: float) -> Iterator[int]:
        """Yield 1, 2, 3, ... every *interval_s* until the end; make up for no delay."""
        due_s = time.monotonic()
        number = 0
        while not self._stop.is_set():
            number += 1
            yield number
            now_s = time.monotonic()
            due_s = max(due_s + interval_s, now_s)
            time.sleep(due_s - now_s)

    def _report(self, interval_s: float) -> None:
        """Send all numbers to the client, if the last report is *interval_s* ago."""
        now_s = time.monotonic()
        if now_s - self._reported_s >= interval_s:
            self._reported_s = now_s
            self._send(self.buffered, self.direct)


class _Reader:
    """Reads the files of a folder of canaries, up to READ_BYTES_MAX bytes in all.

    There is a limit because the files' owner may be hostile.
    """

    def __init__(self, folder: Folder) -> None:
        """Read from *folder*, which stays open."""
        self._folder = folder
        self._left_bytes = READ_BYTES_MAX

    def run(self) -> dict[str, Any]:
        """Return run.json; raise FileNotFoundError or ValueError if there is none."""
        with os.fdopen(self._folder.open(RUN), "rb") as file:
            content = file.read(RUN_BYTES_MAX + 1)
        if len(content) > RUN_BYTES_MAX:
            raise ValueError(RUN)
        run: dict[str, Any] = json.loads(content)
        return run

    def ring(self, name: str, nonce: bytes) -> dict[str, Any]:
        """Read the survivors of one ring, see read_survivors()."""
        blocks = list(self.pieces(name, BLOCK_BYTES, nonce))
        return {
            "found": join_ranges(sorted(number for number in blocks if number)),
            "torn": [slot for slot, number in enumerate(blocks) if number is None],
        }

    def pieces(self, name: str, size: int, nonce: bytes) -> Iterator[int | None]:
        """Yield the number of each whole piece of a file."""
        with os.fdopen(self._folder.open(name), "rb") as file:
            while True:
                data = file.read(size)
                if len(data) < size:
                    return
                self._left_bytes -= size
                if self._left_bytes < 0:
                    text = f"{self._folder.path} holds more than canaries write"
                    raise Refusal("strangers", text)
                yield parse_number(data, nonce)


def read_survivors(path: str) -> dict[str, Any]:
    """Read the survivors of the canaries in the folder *path*.

    run: the content of run.json, None if the file is gone.  buffered: ranges of the
    whole records' numbers; first: the first record that was not deleted to make room.
    rings: of each ring the ranges found, and the torn slots, from 0, that hold parts
    of two blocks.
    Raise OSError, or Refusal if the path has a link or the folder is not dbcheck's.
    """
    damage_errors = (ValueError, LookupError, TypeError, RecursionError)
    with contextlib.suppress(FileNotFoundError, *damage_errors):
        folder = Folder(path)
        try:
            return _read_folder(folder)
        finally:
            folder.close()
    return {"run": None, "buffered": [], "first": 1, "rings": []}


def _read_folder(folder: Folder) -> dict[str, Any]:
    reader, file_names = _Reader(folder), folder.names()
    run = reader.run()
    nonce = bytes.fromhex(run["nonce"])
    rings = [
        reader.ring(DIRECT.format(ring + 1), nonce) for ring in range(run["rings"])
    ]
    names = sorted(name for name in file_names if BUFFERED_NAME.fullmatch(name))
    per_file = int(run["records_per_file"])
    records = [
        number for name in names for number in reader.pieces(name, RECORD_BYTES, nonce)
    ]
    ranges = join_ranges(sorted(number for number in records if number))
    oldest = int(names[0].rpartition("-")[2]) if names else 1
    first = (oldest - 1) * per_file + 1
    return {"run": run, "buffered": ranges, "first": first, "rings": rings}
