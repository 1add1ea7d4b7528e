"""Writes a recording in the format of the kernel's device-mapper target log-writes.

xfstests' src/log-writes/replay-log rebuilds crash states from it, up to a flush, a mark
or an entry, on a device that holds zeros and is as large as the drive.

The format is that of drivers/md/dm-log-writes.c, target 1.1.0, WRITE_LOG_VERSION 1,
as xfstests v2026.01.05 reads it.  All is in sectors of super.sectorsize, numbers are
little-endian:

    super    magic u64, version u64, nr_entries u64, sectorsize u32; filled with zeros
    entry    sector u64, nr_sectors u64, flags u64, data_len u64; a mark's data_len
             bytes of text follow, at least one zero, and zeros up to a whole sector
    content  the nr_sectors of a write, right behind its entry

The order is the kernel's (Documentation/admin-guide/device-mapper/log-writes.rst): a
write is logged before the first flush that covers it, so what came while a flush was
under way stands behind it.

    write ...               what the drive held when the recording began, without its
                            zeros
    MARK base
    write ..., FLUSH, ...   the flushes in the order in which they ended, each behind
                            the writes that it covers
    MARK text               behind each flush that ended before it, or in the same
                            microsecond; so what it rests on is before it
    write ...               what no flush covers
    MARK dm-log-writes-end  as in each log of the kernel

No entry has METADATA, FUA or DISCARD: the drive does not learn which writes are
metadata, the loop device sends a flush instead of FUA, and a range that was discarded
or zeroed is recorded as a write of zeros.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.drive.recording import RECORD_ANEW, Recording
from dbcheck.lab.spec import SECTOR_BYTES

_SUPER, _ENTRY = struct.Struct("<QQQI"), struct.Struct("<QQQQ")
_MAGIC, _VERSION = 0x6A736677736872, 1
_FLUSH, _MARK = 1 << 0, 1 << 3  # flags of an entry; a write has none

_Mark = tuple[int, bytes]  # time_us; text
# flags; offset; content, or text of a mark
_Entry = tuple[int, int, bytes | memoryview]


def encode_log(
    recording: Recording, marks: Iterable[tuple[int, str]]
) -> tuple[int, Iterator[bytes]]:
    """Return the number of *marks* in the log of *recording*, and the log's bytes.

    marks: (time_us, text) in any order, such as when a client noted an answer.  One
    later than the recording's end is left out: what it rests on may not be recorded.
    replay-log finds the first of those with the same text.

    Raise ValueError for a text that is empty, has a NUL or does not fit into a sector,
    and LabError for a write that is not whole sectors.
    """
    texts = [(time_us, _encode_text(text)) for time_us, text in marks]
    known = sorted(
        (mark for mark in texts if mark[0] <= recording.ended_us), key=itemgetter(0)
    )
    count = 0
    for entry in _list_entries(recording, known):
        _require_whole_sectors(entry)
        count += 1
    head = _SUPER.pack(_MAGIC, _VERSION, count, SECTOR_BYTES).ljust(SECTOR_BYTES, b"\0")
    packed = (_encode_entry(entry) for entry in _list_entries(recording, known))
    return len(known), chain([head], chain.from_iterable(packed))


def _encode_text(text: str) -> bytes:
    data, room = text.encode(), SECTOR_BYTES - _ENTRY.size - 1
    if not 0 < len(data) <= room or b"\0" in data:
        raise ValueError(f"a mark has 1 to {room} bytes and no NUL, not {text!r}")
    return data


def _list_entries(recording: Recording, marks: Sequence[_Mark]) -> Iterator[_Entry]:
    """Yield the log's entries; marks: by time."""
    for offset, content in recording.base():
        yield 0, offset, content
    yield _MARK, 0, b"base"
    waiting = deque(marks)
    logged = 0
    for time_us, covered, _ in recording.flushes:
        while waiting and waiting[0][0] < time_us:
            yield _MARK, 0, waiting.popleft()[1]
        yield from _list_writes(recording, logged, covered)
        yield _FLUSH, 0, b""
        logged = max(logged, covered)
    for _, text in waiting:
        yield _MARK, 0, text
    yield from _list_writes(recording, logged, len(recording))
    yield _MARK, 0, b"dm-log-writes-end"


def _list_writes(recording: Recording, first: int, end: int) -> Iterator[_Entry]:
    for number in range(first, end):
        write = recording.write(number)
        if write.content:  # replay-log takes an empty one for damage
            yield 0, write.offset, write.content


def _require_whole_sectors(entry: _Entry) -> None:
    flags, offset, content = entry
    if not flags and (offset % SECTOR_BYTES or len(content) % SECTOR_BYTES):
        raise LabError(
            f"{len(content)} bytes at {offset} of the drive are not whole sectors of"
            f" {SECTOR_BYTES} bytes",
            id=ErrorId.RECORDING_NOT_IN_SECTORS,
            hint=RECORD_ANEW,
        )


def _encode_entry(entry: _Entry) -> Iterator[bytes]:
    """Yield an entry's sector, and the content of a write."""
    flags, offset, content = entry
    if flags:
        head = _ENTRY.pack(0, 0, flags, len(content)) + content
        yield head.ljust(SECTOR_BYTES, b"\0")
    else:
        place = offset // SECTOR_BYTES, len(content) // SECTOR_BYTES
        yield _ENTRY.pack(*place, flags, 0).ljust(SECTOR_BYTES, b"\0")
        yield bytes(content)
