"""Serves a drive as one file: the FUSE protocol, spoken directly on /dev/fuse.

The filesystem is mounted over an ordinary file, so its root is a file too.  That file
is the drive, and the filesystem has no other.

A slow drive answers late but continues to take requests.  So no FUSE library is used:
it would call a function and wait for each answer.

The layout of the messages is that of linux/fuse.h, protocol 7.31 (Linux 5.2 or newer);
integers have the machine's own byte order.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from dbcheck.base.system import now_us
from dbcheck.lab.drive.model import CutReport, Drive, DriveState, Mark
from dbcheck.lab.syscalls import MS_NODEV, MS_NOSUID, mount

WRITE_MAX = 1 << 20  # bytes of content in one request
REQUEST_MAX = WRITE_MAX + 8192  # and its headers
_BLOCK_BYTES = 4096
_ATTRIBUTES_VALID_S = 3600  # nothing but the drive itself changes them

# Operations.
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
STATFS, RELEASE, FSYNC, INIT, INTERRUPT, DESTROY = 17, 18, 20, 26, 36, 38
BATCH_FORGET, FALLOCATE = 42, 43
UNANSWERED = frozenset((FORGET, BATCH_FORGET, INTERRUPT))
MOVES_DATA = frozenset((READ, WRITE, FSYNC, FALLOCATE))

# Requests.
HEADER = struct.Struct("=IIQQIIIHH")  # length, operation, number, ...
TRANSFER = struct.Struct("=QQIIQII")  # of READ and WRITE: handle, offset, size, ...
FALLOCATE_BODY = struct.Struct("=QQQII")  # handle, offset, length, mode, padding
SETATTR_BODY = struct.Struct("=IIQQ")  # valid, padding, handle, size, ...
SETATTR_SIZE = 1 << 3  # in valid
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 0x01, 0x02, 0x10  # modes of fallocate(2)
_INIT_BODY = struct.Struct("=IIII")  # major, minor, readahead, flags

# Answers.
ANSWER = struct.Struct("=IiQ")  # length, -errno, number of the request
WRITTEN = struct.Struct("=IiQII")  # the same, bytes written, padding
_INIT_ANSWER = struct.Struct("=IIIIHHIIHHI28x")
_ATTRIBUTES = struct.Struct("=QII6Q10I")
_OPENED = struct.Struct("=QII")
_STATFS = struct.Struct("=5Q4I24x")

_ASYNC_READ, _BIG_WRITES, _ASYNC_DIO, _MAX_PAGES = 1 << 0, 1 << 5, 1 << 15, 1 << 22
_DIRECT_IO, _PARALLEL_DIRECT_WRITES = 1 << 0, 1 << 6  # the page cache is left out
_IN_FLIGHT_MAX, _IN_FLIGHT_MANY = 64, 48


def answer_init(body: memoryview) -> bytes:
    """Answer INIT with the kernel's offers that a drive accepts."""
    _, _, readahead, offered = _INIT_BODY.unpack_from(body)
    flags = offered & (_ASYNC_READ | _BIG_WRITES | _ASYNC_DIO | _MAX_PAGES)
    pages = WRITE_MAX // _BLOCK_BYTES
    return _INIT_ANSWER.pack(
        *(7, 31, readahead, flags, _IN_FLIGHT_MAX, _IN_FLIGHT_MANY),
        *(WRITE_MAX, 1, pages, 0, 0),
    )


def encode_attributes(size: int, made_s: int) -> bytes:
    """Return the attributes of a file of *size* bytes, made at that epoch time."""
    return _ATTRIBUTES.pack(
        *(_ATTRIBUTES_VALID_S, 0, 0),
        *(1, size, size // 512, made_s, made_s, made_s),
        *(0, 0, 0, stat.S_IFREG | 0o600, 1, os.getuid(), os.getgid(), 0),
        *(_BLOCK_BYTES, 0),
    )


def answer_open() -> bytes:
    """Return the answer to OPEN."""
    return _OPENED.pack(0, _DIRECT_IO | _PARALLEL_DIRECT_WRITES, 0)


def answer_statfs(size: int) -> bytes:
    """Return the answer to STATFS for a drive of *size* bytes."""
    blocks = size // _BLOCK_BYTES
    return _STATFS.pack(*(blocks, 0, 0, 1, 0), *(_BLOCK_BYTES, 255, _BLOCK_BYTES, 0))


_BATCH = 64  # requests taken before others get their turn


def mount_drive(descriptor: int, path: str) -> None:
    """Mount what *descriptor*, an open /dev/fuse, serves over the file at *path*."""
    options = (
        f"fd={descriptor},rootmode={stat.S_IFREG:o},user_id={os.getuid()},"
        f"group_id={os.getgid()},max_read={WRITE_MAX}"
    )
    mount("dbcheck-drive", path, "fuse", MS_NOSUID | MS_NODEV, options)


class FuseDrive:
    """Answers the kernel's requests to one drive, late where the drive takes time.

    Late answers are given in the order of the requests: the device does one thing
    at a time.  What costs nothing is answered at once, as a drive takes writes
    into its cache while it flushes.
    """

    def __init__(
        self,
        descriptor: int,
        drive: Drive,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve *drive* on *descriptor*, an open /dev/fuse that does not block."""
        self._descriptor = descriptor
        self._drive = drive
        self._clock = clock
        self.set_times(drive.spec.flush_ms, drive.spec.write_ms)
        self._buffer = bytearray(REQUEST_MAX)
        self._view = memoryview(self._buffer)
        self._made_s = int(time.time())
        self._busy_until = 0.0
        # (when it is due, request, what completes it); all are dropped on a freeze.
        self._late: deque[tuple[float, int, Callable[[], None]]] = deque()
        self._held: list[int] = []
        self._handlers: dict[int, Callable[[int, memoryview], None]] = {
            WRITE: self._write,
            FSYNC: self._flush,
            READ: self._read,
            FALLOCATE: self._fallocate,
            INIT: self._init,
            GETATTR: self._getattr,
            SETATTR: self._setattr,
            OPEN: self._open,
            STATFS: self._statfs,
            RELEASE: self._nothing,
            DESTROY: self._nothing,
            LOOKUP: self._no_folder,
        }

    # ------------------------------------------------------------- the drive

    def set_times(self, flush_ms: float, write_ms: float) -> None:
        """Change how long flushes and writes take from the next one on.

        A flush that has nothing to make stable takes no time.
        """
        at_once = self._drive.spec.personality in ("lying", "write-through")
        self._flush_s = 0.0 if at_once else flush_ms / 1e3
        self._write_s = write_ms / 1e3

    def freeze(self) -> int:
        """Take the power away and return when, in microseconds of CLOCK_MONOTONIC.

        No answer is given after that time: the ones that were due later are held.
        """
        frozen_us = now_us()
        self._drive.freeze(self._clock())
        self._held.extend(unique for _, unique, _ in self._late)
        self._late.clear()
        self._busy_until = 0.0
        return frozen_us

    def cut(self, kept_writes: str, seed: int) -> CutReport:
        """Lose the drive's cache, except for the kept writes; freeze it if it is on."""
        if self._drive.state is DriveState.ON:
            self.freeze()
        return self._drive.cut(self._clock(), kept_writes, seed)

    def fail(self) -> None:
        """Fail the requests that are held, and all that follow."""
        if self._drive.state is DriveState.ON:
            self.freeze()
        self._drive.fail()
        for unique in self._held:
            self._answer(unique, error=errno.EIO)
        self._held.clear()

    def power_on(self) -> None:
        """Answer requests again; what was held until now fails."""
        if self._drive.state is not DriveState.ON:
            self.fail()
            self._drive.power_on()

    # -------------------------------------------------------------- the loop

    def due_s(self) -> float | None:
        """Return in how many seconds an answer is due, or None."""
        return max(0.0, self._late[0][0] - self._clock()) if self._late else None

    def complete(self) -> None:
        """Complete and answer what is due by now."""
        late = self._late
        while late and late[0][0] <= self._clock():
            late.popleft()[2]()

    def serve(self) -> bool:
        """Take the requests that are waiting; return False once it is unmounted."""
        for _ in range(_BATCH):
            try:
                length = os.readv(self._descriptor, [self._buffer])
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return False
                # ENOENT: the request was withdrawn while it was read.
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                raise
            _, opcode, unique, *_ = HEADER.unpack_from(self._buffer)
            self._dispatch(opcode, unique, self._view[HEADER.size : length])
        return True

    def _dispatch(self, opcode: int, unique: int, body: memoryview) -> None:
        state = self._drive.state
        if opcode in UNANSWERED:
            return
        if state is not DriveState.ON and opcode in MOVES_DATA:
            if state is DriveState.FROZEN:
                self._held.append(unique)
            else:
                self._answer(unique, error=errno.EIO)
            return
        handler = self._handlers.get(opcode)
        if handler is None:
            # The kernel remembers ENOSYS and does without: FLUSH (close), ACCESS,
            # extended attributes, LSEEK, ...
            self._answer(unique, error=errno.ENOSYS)
            return
        try:
            handler(unique, body)
        except struct.error:  # shorter than its kind of request is
            self._answer(unique, error=errno.EINVAL)

    def _answer(self, unique: int, *, error: int = 0) -> None:
        self._send(ANSWER.pack(ANSWER.size, -error, unique))

    def _answer_with(self, unique: int, content: bytes | memoryview) -> None:
        self._send(ANSWER.pack(ANSWER.size + len(content), 0, unique), content)

    def _send(self, *parts: bytes | memoryview) -> None:
        try:
            os.writev(self._descriptor, parts)
        except OSError as error:
            # ENOENT: who asked was killed.  ENODEV: unmounted meanwhile; the next
            # read reports it too.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise

    def _later(self, unique: int, cost_s: float, complete: Callable[[], None]) -> None:
        """Call *complete* once the device has worked on the request for *cost_s*."""
        self._busy_until = max(self._clock(), self._busy_until) + cost_s
        self._late.append((self._busy_until, unique, complete))

    # ---------------------------------------------------------- the requests

    def _write(self, unique: int, body: memoryview) -> None:
        _, offset, size, _, _, _, _ = TRANSFER.unpack_from(body)
        content = bytes(body[TRANSFER.size : TRANSFER.size + size])
        if len(content) < size:
            self._answer(unique, error=errno.EINVAL)
            return
        if offset + size > self._drive.spec.size_bytes:
            self._answer(unique, error=errno.ENOSPC)
            return
        if self._write_s:
            finish = partial(self._finish_write, unique, offset, content)
            self._later(unique, self._write_s, finish)
        else:
            self._finish_write(unique, offset, content)

    def _finish_write(self, unique: int, offset: int, content: bytes) -> None:
        self._drive.write(offset, content, self._clock())
        self._send(WRITTEN.pack(WRITTEN.size, 0, unique, len(content), 0))

    def _flush(self, unique: int, body: memoryview) -> None:
        mark = self._drive.begin_flush()
        if self._flush_s:
            self._later(
                unique, self._flush_s, partial(self._finish_flush, unique, mark)
            )
        else:
            self._finish_flush(unique, mark)

    def _finish_flush(self, unique: int, mark: Mark) -> None:
        self._drive.end_flush(mark, self._clock())
        self._answer(unique)

    def _read(self, unique: int, body: memoryview) -> None:
        _, offset, size, _, _, _, _ = TRANSFER.unpack_from(body)
        self._answer_with(unique, self._drive.read(offset, size))

    def _fallocate(self, unique: int, body: memoryview) -> None:
        _, offset, length, mode, _ = FALLOCATE_BODY.unpack_from(body)
        action = mode & ~KEEP_SIZE
        if offset + length > self._drive.spec.size_bytes:
            self._answer(unique, error=errno.ENOSPC)
        elif action in (PUNCH_HOLE, ZERO_RANGE):
            self._drive.zero(offset, length, self._clock())
            self._answer(unique)
        elif action == 0:  # to allocate, and a drive has all its bytes
            self._answer(unique)
        else:
            self._answer(unique, error=errno.EOPNOTSUPP)

    def _init(self, unique: int, body: memoryview) -> None:
        self._answer_with(unique, answer_init(body))

    def _getattr(self, unique: int, body: memoryview) -> None:
        size = self._drive.spec.size_bytes
        self._answer_with(unique, encode_attributes(size, self._made_s))

    def _setattr(self, unique: int, body: memoryview) -> None:
        valid, _, _, size = SETATTR_BODY.unpack_from(body)
        if valid & SETATTR_SIZE and size != self._drive.spec.size_bytes:
            self._answer(unique, error=errno.EPERM)
        else:  # times and modes mean nothing to a drive
            self._getattr(unique, body)

    def _open(self, unique: int, body: memoryview) -> None:
        self._answer_with(unique, answer_open())

    def _statfs(self, unique: int, body: memoryview) -> None:
        size = self._drive.spec.size_bytes
        self._answer_with(unique, answer_statfs(size))

    def _nothing(self, unique: int, body: memoryview) -> None:
        self._answer(unique)

    def _no_folder(self, unique: int, body: memoryview) -> None:
        self._answer(unique, error=errno.ENOTDIR)
