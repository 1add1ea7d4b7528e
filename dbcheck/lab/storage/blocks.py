"""Finds where on a drive the bytes of each file are."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

# linux/fiemap.h, linux/fs.h
_FS_IOC_FIEMAP = 0xC020660B
_REQUEST = struct.Struct("=QQIIII")  # start, length, flags, mapped, count, reserved
_EXTENT_ENTRY = struct.Struct("=QQQQQIIII")  # logical, physical, length, ..., flags
_EXTENTS_PER_CALL = 256
_WHOLE_FILE = 2**64 - 1
_LAST_EXTENT = 0x1
# Flags of extents that have no address on the drive.
_UNPLACED = 0x2 | 0x4 | 0x200  # FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _DATA_INLINE


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """A run of bytes of a file that is one run on the drive, too.

    at: where it begins in the file.  place: where it begins on the drive.
    length: its length in bytes.
    """

    at: int
    place: int
    length: int


class FileBlocks(msgspec.Struct, frozen=True):
    """The extents of one file.

    path:  below the filesystem's root.
    drive: number of the lab's drive that it is on, from 0.
    """

    path: str
    drive: int
    extents: list[Extent]


def list_file_blocks(folder: Path, drive: int) -> list[FileBlocks]:
    """List the blocks of each file and folder below *folder*, a filesystem's root.

    Space that is allocated and not yet written is included.  Data that the kernel has
    not written out yet have no extent.
    """
    blocks: list[FileBlocks] = []
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # damaged
        return blocks
    try:
        # By descriptors, since the server's account may exchange files for others.
        for parent, _, names, descriptor in os.fwalk(".", dir_fd=root):
            for name in (".", *names):
                if extents := list(_list_extents(name, descriptor)):
                    path = os.path.normpath(os.path.join(parent, name))
                    blocks.append(FileBlocks(path, drive, extents))
    except RecursionError:  # nested folders of the server: the list is of use as it is
        pass
    finally:
        os.close(root)
    return blocks


def _list_extents(name: str, folder: int) -> Iterator[Extent]:
    """Yield the extents of a file in *folder*, a descriptor.

    Yield none for what has no extents, as a socket.
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
            if not batch or batch[-1][3] & _LAST_EXTENT:
                return
            start = batch[-1][0] + batch[-1][2]
    except OSError:  # some filesystems have no FIEMAP for a folder
        return
    finally:
        os.close(descriptor)


def _read_extents(descriptor: int, start: int) -> list[tuple[int, int, int, int]]:
    """Return (logical, physical, length, flags) of the extents from *start* on."""
    buffer = bytearray(_REQUEST.size + _EXTENTS_PER_CALL * _EXTENT_ENTRY.size)
    _REQUEST.pack_into(
        buffer, 0, start, _WHOLE_FILE - start, 0, 0, _EXTENTS_PER_CALL, 0
    )
    fcntl.ioctl(descriptor, _FS_IOC_FIEMAP, buffer)
    mapped = _REQUEST.unpack_from(buffer)[3]
    entries = (
        _EXTENT_ENTRY.unpack_from(buffer, _REQUEST.size + number * _EXTENT_ENTRY.size)
        for number in range(mapped)
    )
    return [(entry[0], entry[1], entry[2], entry[5]) for entry in entries]
