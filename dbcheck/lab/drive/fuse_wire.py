"""The FUSE messages that a drive needs, as bytes.

From linux/fuse.h, protocol 7.31 (Linux 5.2 or newer); integers have the machine's
own byte order.
"""

from __future__ import annotations

import os
import stat
import struct

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


def init_answer(body: memoryview) -> bytes:
    """Return what a drive agrees to of what the kernel's INIT offers."""
    _, _, readahead, offered = _INIT_BODY.unpack_from(body)
    flags = offered & (_ASYNC_READ | _BIG_WRITES | _ASYNC_DIO | _MAX_PAGES)
    pages = WRITE_MAX // _BLOCK_BYTES
    return _INIT_ANSWER.pack(
        *(7, 31, readahead, flags, _IN_FLIGHT_MAX, _IN_FLIGHT_MANY),
        *(WRITE_MAX, 1, pages, 0, 0),
    )


def attributes(size: int, made_s: int) -> bytes:
    """Return the attributes of a file of *size* bytes, made at that epoch time."""
    return _ATTRIBUTES.pack(
        *(_ATTRIBUTES_VALID_S, 0, 0),
        *(1, size, size // 512, made_s, made_s, made_s),
        *(0, 0, 0, stat.S_IFREG | 0o600, 1, os.getuid(), os.getgid(), 0),
        *(_BLOCK_BYTES, 0),
    )


def opened() -> bytes:
    """Return the answer to OPEN."""
    return _OPENED.pack(0, _DIRECT_IO | _PARALLEL_DIRECT_WRITES, 0)


def filesystem_facts(size: int) -> bytes:
    """Return the answer to STATFS for a drive of *size* bytes."""
    blocks = size // _BLOCK_BYTES
    return _STATFS.pack(*(blocks, 0, 0, 1, 0), *(_BLOCK_BYTES, 255, _BLOCK_BYTES, 0))
