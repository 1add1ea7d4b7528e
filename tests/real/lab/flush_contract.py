"""Writers that know what a drive owes them: who loses a flushed sector is found out.

The contract, of a volatile write cache below a filesystem or none: once a flush has
completed that began after a write had completed, that write is there after any power
loss.  So each sector of 512 bytes then bears a version that is no older than the last
one so flushed and no newer than the last one sent, whole, and never another's bytes.
(fsync(2); Linux, Documentation/block/writeback_cache_control.rst.)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import random
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

SECTOR = 512
_WORDS = SECTOR // 8
Versions = npt.NDArray[np.uint64]


def _words(owner: int, first: int, versions: Versions) -> npt.NDArray[np.uint64]:
    """Return sectors from number *first* as words, each full of its own stamp."""
    words = np.empty((len(versions), _WORDS // 4, 4), dtype="<u8")
    words[:, :, 0] = owner
    words[:, :, 1] = np.arange(first, first + len(versions), dtype="<u8")[:, None]
    words[:, :, 2] = versions[:, None]
    words[:, :, 3] = (versions * np.uint64(0x9E3779B97F4A7C15))[:, None]
    return words


def stamped(owner: int, first: int, version: int, count: int) -> bytes:
    """Return *count* sectors from number *first*, all of one version."""
    return _words(owner, first, np.full(count, version, np.uint64)).tobytes()


class Sectors:
    """The sectors of one file or device: what was sent, what completed, what is owed.

    submitted: newest version that may be there.
    completed: newest version whose write has completed.
    owed:      newest version that a completed flush covers; 0 is all zeros.
    size_owed: of the file, in bytes, by a flush that completed.
    """

    def __init__(self, owner: int, count: int) -> None:
        self.owner, self.count = owner, count
        self.submitted = np.zeros(count, np.uint64)
        self.completed = np.zeros(count, np.uint64)
        self.owed = np.zeros(count, np.uint64)
        self.size = self.size_owed = 0
        self.flushes = 0
        self._lock = threading.Lock()

    def next(self, first: int, count: int) -> bytes:
        """Return the content of the next write to these sectors."""
        version = int(self.submitted[first : first + count].max()) + 1
        self.submitted[first : first + count] = version
        return stamped(self.owner, first, version, count)

    def done(self, first: int, count: int) -> None:
        """Note that the write to these sectors has completed."""
        sent = self.submitted[first : first + count]
        self.completed[first : first + count] = sent
        self.size = max(self.size, (first + count) * SECTOR)

    def flush(self, descriptor: int) -> None:
        """Flush; only what had completed before it began is owed afterwards."""
        completed, size = self.completed.copy(), self.size
        os.fdatasync(descriptor)
        with self._lock:
            np.maximum(self.owed, completed, out=self.owed)
            self.size_owed = max(self.size_owed, size)
            self.flushes += 1

    def violations(self, content: bytes) -> list[str]:
        """Return what is wrong with *content*, all that was found after a cut."""
        found = []
        if len(content) < self.size_owed:
            found.append(f"{len(content)} bytes are left of {self.size_owed}")
        whole = content[: self.count * SECTOR].ljust(self.count * SECTOR, b"\0")
        words = np.frombuffer(whole, "<u8").reshape(self.count, _WORDS // 4, 4)
        versions = words[:, 0, 2].copy()
        zero = ~words.any(axis=(1, 2))
        wanted = _words(self.owner, 0, versions)
        foreign = (words != wanted).any(axis=(1, 2)) & ~zero
        for name, bad in (
            ("foreign", foreign),
            ("older than flushed", ~foreign & (versions < self.owed)),
            ("never sent", ~foreign & (versions > self.submitted)),
        ):
            found += [
                f"sector {n} is {name}: {versions[n]}, "
                f"flushed {self.owed[n]}, sent {self.submitted[n]}"
                for n in np.flatnonzero(bad)
            ]
        # What is there now is stable: the drive's cache is empty.
        self.completed[:] = self.owed[:] = np.where(foreign, self.owed, versions)
        self.size = self.size_owed = len(content)
        return found


class Writer:
    """A thread that writes and flushes until the drive fails or it is told to stop."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.stopped = threading.Event()
        self.failing = threading.Event()  # set before the drive fails
        self._thread = threading.Thread(target=self._run)
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def alive(self) -> bool:
        """Tell whether it still writes."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for the end, and raise what went wrong other than the drive."""
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            with contextlib.suppress(OSError):  # EIO: the drive has no power
                self.work()
        except Exception as error:  # told by join()
            self.error = error

    def work(self) -> None:
        """Write until stopped."""
        raise NotImplementedError

    @property
    def flushes(self) -> int:
        """How many flushes have completed."""
        raise NotImplementedError


@contextlib.contextmanager
def _aligned(length: int) -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, length) as buffer:
        yield buffer


class SectorWriter(Writer):
    """Overwrites sectors, one write at a time, within *first* and *last*."""

    def __init__(
        self, path: Path, sectors: Sectors, seed: int, flags: int, part: range
    ) -> None:
        super().__init__(seed)
        self.path, self.sectors, self.flags, self.part = path, sectors, flags, part

    @property
    def flushes(self) -> int:
        """How many flushes have completed."""
        return self.sectors.flushes

    def work(self) -> None:
        """Write at random places, and flush now and then."""
        descriptor = os.open(self.path, os.O_WRONLY | self.flags)
        try:
            with _aligned(64 * SECTOR) as buffer:
                while not self.stopped.is_set():
                    count = self.draw.choice((1, 2, 3, 8, 32, 32, 64))
                    first = self.draw.randrange(len(self.part) - count)
                    self.write(descriptor, buffer, self.part[first], count)
                    if self.draw.random() < 0.15:
                        self.sectors.flush(descriptor)
        finally:
            os.close(descriptor)

    def write(self, descriptor: int, buffer: mmap.mmap, first: int, count: int) -> None:
        """Write the next version of some sectors."""
        buffer[: count * SECTOR] = self.sectors.next(first, count)
        with memoryview(buffer) as view, view[: count * SECTOR] as content:
            if os.pwrite(descriptor, content, first * SECTOR) < len(content):
                raise OSError(errno.EIO, "the drive failed in the midst of a write")
        self.sectors.done(first, count)


class Appender(SectorWriter):
    """Writes beyond the end of a file, as logs and growing tables do.

    With *ahead* sectors the space is allocated first (fallocate), as InnoDB does.
    """

    ahead = 0

    def work(self) -> None:
        """Append until the file is as large as it may be, then begin again."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | self.flags)
        try:
            with _aligned(64 * SECTOR) as buffer:
                at = self.sectors.size // SECTOR
                while not self.stopped.is_set():
                    count = self.draw.choice((1, 8, 32))
                    if at + count > self.sectors.count:
                        at = 0
                    self._allocate(descriptor, at + count)
                    self.write(descriptor, buffer, at, count)
                    at += count
                    if self.draw.random() < 0.2:
                        self.sectors.flush(descriptor)
        finally:
            os.close(descriptor)

    def _allocate(self, descriptor: int, end: int) -> None:
        if self.ahead and end * SECTOR > self.sectors.size:
            size = min(end + self.ahead, self.sectors.count) * SECTOR
            os.posix_fallocate(descriptor, 0, size)
            self.sectors.size = size


class Preallocator(Appender):
    """Appends to space that fallocate(2) has allocated."""

    ahead = 256


class Renamer(Writer):
    """Replaces a file as a whole: write, fsync, rename, fsync of the directory.

    An fsync of the directory that returns once the drive fails makes nothing durable.
    After a failed log write XFS takes its changes back and then has nothing to flush,
    so it returns 0 (Linux 6.18: xfs_dir_fsync() asks xfs_ipincount() alone); a real
    power cut leaves no process that could see that.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(seed)
        self.folder = folder
        self.sent = self.owed = 0

    @property
    def flushes(self) -> int:
        """How many replacements are durable."""
        return self.owed

    def content(self, version: int) -> bytes:
        """Return the file's content, of a length of its own."""
        return stamped(0, 0, version, 1 + version % 20)[: -(version % 100) or None]

    def work(self) -> None:
        """Replace the file over and over."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            while not self.stopped.is_set():
                self.sent += 1
                with (self.folder / "new").open("wb") as file:
                    file.write(self.content(self.sent))
                    file.flush()
                    os.fsync(file.fileno())
                (self.folder / "new").rename(self.folder / "whole")
                os.fsync(folder)
                if not self.failing.is_set():
                    self.owed = self.sent
        finally:
            os.close(folder)

    def violations(self) -> list[str]:
        """Return what is wrong with the file after a cut."""
        try:
            content = (self.folder / "whole").read_bytes()
        except FileNotFoundError:
            return [f"no file, and version {self.owed} was durable"] * bool(self.owed)
        for version in range(self.owed, self.sent + 1):
            if version and content == self.content(version):
                self.owed = version
                return []
        return [f"no version of {self.owed} to {self.sent} has such content"]


# ------------------------------------------------------------------ native AIO

_NUMBERS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
AIO = _NUMBERS.get(platform.machine())  # io_setup, destroy, getevents, submit
_IOCB = struct.Struct("=QIIHhIQQqQII")  # linux/aio_abi.h
_EVENT = struct.Struct("=QQqq")
_PWRITE = 1
_DEPTH = 8


class AioWriter(SectorWriter):
    """Overwrites sectors by io_submit(2), several at a time, as InnoDB does.

    Never two at once of the same sector: which of them is the later is not said.
    """

    def work(self) -> None:
        """Keep some writes in flight, and flush now and then."""
        assert AIO is not None
        setup, destroy, _, _ = AIO
        context = ctypes.c_ulong(0)
        _call(setup, _DEPTH, ctypes.byref(context))
        descriptor = os.open(self.path, os.O_WRONLY | self.flags)
        try:
            with _aligned(_DEPTH * 64 * SECTOR) as buffer:
                self._fly(context, descriptor, buffer)
        finally:
            _call(destroy, context)  # waits for what is in flight
            os.close(descriptor)

    def _fly(self, context: ctypes.c_ulong, descriptor: int, buffer: mmap.mmap) -> None:
        """Fill the slots of *buffer*, each with one write, and empty them again."""
        flying: dict[int, tuple[int, int]] = {}  # slot -> first sector, how many
        memory = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        try:
            while not self.stopped.is_set():
                for slot in {*range(_DEPTH)} - flying.keys():
                    span = self._free_span(flying)
                    flying[slot] = span
                    at = slot * 64 * SECTOR
                    content = self.sectors.next(*span)
                    buffer[at : at + len(content)] = content
                    address = ctypes.addressof(memory) + at
                    _submit(context, slot, descriptor, address, len(content), span[0])
                for slot, result in _completed(context):
                    span = flying.pop(slot)
                    if result < span[1] * SECTOR:
                        self.stopped.set()  # EIO, or a part: the drive has no power
                    else:
                        self.sectors.done(*span)
                if self.draw.random() < 0.15:
                    self.sectors.flush(descriptor)
        finally:
            while flying:  # the buffer is theirs
                for slot, _ in _completed(context):
                    del flying[slot]
            del memory

    def _free_span(self, flying: dict[int, tuple[int, int]]) -> tuple[int, int]:
        while True:
            count = self.draw.choice((1, 8, 32, 32))
            first = self.part[self.draw.randrange(len(self.part) - count)]
            if all(
                first + count <= other or other + size <= first
                for other, size in flying.values()
            ):
                return first, count


def _call(number: int, *arguments: object) -> int:
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "native AIO")
    return result


def _submit(
    context: ctypes.c_ulong,
    slot: int,
    descriptor: int,
    address: int,
    length: int,
    first: int,
) -> None:
    assert AIO is not None
    request = ctypes.create_string_buffer(
        _IOCB.pack(
            *(slot, 0, 0, _PWRITE, 0, descriptor),
            *(address, length, first * SECTOR, 0, 0, 0),
        )
    )
    pointer = ctypes.pointer(request)
    assert _call(AIO[3], context, ctypes.c_long(1), ctypes.byref(pointer)) == 1


def _completed(context: ctypes.c_ulong) -> list[tuple[int, int]]:
    """Wait for one event at least; return slots and results, -errno if it failed."""
    assert AIO is not None
    events = ctypes.create_string_buffer(_EVENT.size * _DEPTH)
    number = _call(AIO[2], context, ctypes.c_long(1), ctypes.c_long(_DEPTH), events, 0)
    return [
        (slot, result)
        for slot, _, result, _ in _EVENT.iter_unpack(events.raw[: number * _EVENT.size])
    ]
