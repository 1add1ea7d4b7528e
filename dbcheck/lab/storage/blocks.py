"""Finds which bytes of which file are where on a drive."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

# linux/fiemap.h, linux/fs.h
_FS_IOC_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")  # start, length, flags, mapped, count, reserved
_EXTENT = struct.Struct("=QQQQQIIII")  # logical, physical, length, ..., flags
_EXTENTS = 256
_WHOLE_FILE = 2**64 - 1
_LAST = 0x1
# Of extents without an address on the drive.
_UNPLACED = 0x2 | 0x4 | 0x200  # FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _DATA_INLINE


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """So many bytes of a file from *at* on are on the drive from *place* on."""

    at: int
    place: int
    length: int


class FileBlocks(msgspec.Struct, frozen=True):
    """One file, by its path below the filesystem's root.

    drive: which of the lab's drives it is on, from 0.
    """

    path: str
    drive: int
    extents: list[Extent]


def list_file_blocks(folder: Path, drive: int) -> list[FileBlocks]:
    """List the blocks of each file and folder below *folder*, a filesystem's root.

    Space that is allocated and not yet written is included.  What the kernel has not
    written out yet has no extent.
    """
    found: list[FileBlocks] = []
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # damaged
        return found
    try:
        # By descriptors, since the server's account may exchange what it made.
        for parent, _, names, held in os.fwalk(".", dir_fd=top):
            for name in (".", *names):
                if extents := list(_list_extents(name, held)):
                    path = os.path.normpath(os.path.join(parent, name))
                    found.append(FileBlocks(path, drive, extents))
    except RecursionError:  # it nested folders: what was found is of use without them
        pass
    finally:
        os.close(top)
    return found


def _list_extents(name: str, folder: int) -> Iterator[Extent]:
    """Yield the extents of a file in the open *folder*.

    Nothing of what cannot be asked, as a socket.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError:
        return
    try:
        start = 0
        while True:
            batch = _read_extents(descriptor, start)
            for logical, place, length, flags in batch:
                if not flags & _UNPLACED:
                    yield Extent(logical, place, length)
            if not batch or batch[-1][3] & _LAST:
                return
            start = batch[-1][0] + batch[-1][2]
    except OSError:  # a filesystem may refuse it for a folder
        return
    finally:
        os.close(descriptor)


def _read_extents(descriptor: int, start: int) -> list[tuple[int, int, int, int]]:
    """Return (logical, physical, length, flags) of the extents from *start* on."""
    buffer = bytearray(_HEAD.size + _EXTENTS * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, start, _WHOLE_FILE - start, 0, 0, _EXTENTS, 0)
    fcntl.ioctl(descriptor, _FS_IOC_FIEMAP, buffer)
    mapped = _HEAD.unpack_from(buffer)[3]
    entries = (
        _EXTENT.unpack_from(buffer, _HEAD.size + number * _EXTENT.size)
        for number in range(mapped)
    )
    return [(entry[0], entry[1], entry[2], entry[5]) for entry in entries]
