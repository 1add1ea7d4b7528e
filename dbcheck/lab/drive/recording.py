"""Records the requests to a drive, and the bytes that it held before.

A Recorder collects it in the drive's process.  It is stored as a ZIP archive, whose
checksums show damage:

    facts.json           format, size of the drive, when the recording began and ended
    base.index, base     what the drive held at the beginning, without its zeros
    writes.index, writes each write: when, where, how long; and its bytes
    flushes.index        each flush, when it was answered: when, how many of the writes
                         had come when it arrived, how many when it was answered

Times are microseconds of CLOCK_MONOTONIC, rounded down and taken before the drive acts
on a request: what a client noted at an earlier time rests on earlier requests alone.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO

from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError

SUFFIX = ".drive"
_FORMAT = 1
_PIECE_BYTES = 1 << 16  # of the base: zeros are left out piece by piece
_ZEROS = bytes(_PIECE_BYTES)
_BYTES_MAX = 4 << 30  # of recorded writes; they are held in memory
_READ_MAX = 2 * _BYTES_MAX  # of all that is stored
RECORD_ANEW = "Record anew: dbcheck lab explore with --engine."


@dataclass(frozen=True, slots=True)
class Recordings:
    """A folder for what the drives of a lab record, a file for each.

    replayed: the files are there, and the drives show the crash states in them.
    """

    folder: Path
    replayed: bool

    def of(self, drive: str) -> RecordingFile:
        """Return the file of the drive of that name."""
        return RecordingFile(self.folder / f"{drive}{SUFFIX}", self.replayed)


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """File of a drive's recording; replayed: it exists, and will be shown."""

    path: Path
    replayed: bool

    @property
    def use(self) -> str:
        """Use of the file by a drive, in one word."""
        return "replay" if self.replayed else "record"

    def open(self) -> int:
        """Return a descriptor of the file; raise LabError."""
        flags = os.O_RDONLY if self.replayed else os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            return os.open(self.path, flags, 0o600)
        except OSError as error:
            raise LabError(
                f"{self.path} cannot be opened: {error.strerror}",
                id=ErrorId.RECORDING_NOT_USABLE,
                hint=RECORD_ANEW,
            ) from None


def _numbers() -> array[int]:
    return array("q")


class Recorder:
    """Collects what a drive is asked, until end(); at most _BYTES_MAX of writes."""

    def __init__(self, content: memoryview, now: float) -> None:
        """Begin with what *content*, the whole drive, holds at *now*, in seconds."""
        self._size = len(content)
        self._began_us = _to_microseconds(now)
        self._ended_us: int | None = None
        # As bytes: a view of them is compared one by one.
        pieces = (
            (at, bytes(content[at : at + _PIECE_BYTES]))
            for at in range(0, len(content), _PIECE_BYTES)
        )
        self._base = [(at, piece) for at, piece in pieces if piece != _ZEROS]
        self._contents: list[bytes] = []
        self._writes, self._flushes = _numbers(), _numbers()
        self._bytes = 0

    def write(self, now: float, offset: int, content: bytes) -> None:
        """Note a write that takes effect at *now*."""
        if self._ended_us is not None:
            return
        self._bytes += len(content)
        if self._bytes > _BYTES_MAX:  # save() refuses what is not whole
            self._contents.clear()
            return
        self._writes.extend((_to_microseconds(now), offset, len(content)))
        self._contents.append(content)

    def flush(self, now: float, covered: int) -> None:
        """Note that a flush, which covers the first *covered* writes, ends at *now*."""
        if self._ended_us is None:
            self._flushes.extend((_to_microseconds(now), covered, len(self._contents)))

    def end(self, now: float) -> None:
        """Note nothing from *now* on; may be repeated."""
        if self._ended_us is None:
            self._ended_us = _to_microseconds(now)

    def save(self, file: IO[bytes]) -> None:
        """Write the recording, which has ended; raise ValueError if it has not.

        Raise it as well if more was written than a recording may hold.  What *file*
        held before is gone.
        """
        if self._bytes > _BYTES_MAX:
            raise ValueError(
                f"the server wrote more than {_BYTES_MAX >> 20:,} MiB while the drive"
                " was recorded; a shorter load writes less"
            )
        if self._ended_us is None:
            raise ValueError("the recording has not ended: the power was not cut")
        facts = {
            "format": _FORMAT,
            "byteorder": sys.byteorder,
            "size_bytes": self._size,
            "began_us": self._began_us,
            "ended_us": self._ended_us,
        }
        base = _numbers()
        for at, piece in self._base:
            base.extend((at, len(piece)))
        file.seek(0)
        file.truncate()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as to:
            to.writestr("facts.json", json.dumps(facts))
            for name, index, contents in (
                ("base", base, [piece for _, piece in self._base]),
                ("writes", self._writes, self._contents),
            ):
                to.writestr(f"{name}.index", index.tobytes())
                with to.open(name, "w", force_zip64=True) as stream:
                    stream.writelines(contents)
            to.writestr("flushes.index", self._flushes.tobytes())


@dataclass(frozen=True, slots=True)
class Write:
    """One recorded write: when, where it begins on the drive, its bytes."""

    time_us: int
    offset: int
    content: memoryview


class Recording:
    """A stored recording, in memory.

    size_bytes: of the drive.  began_us, ended_us: see the module.
    times_us, offsets, lengths: of each write, in the order in which they took effect.
    flushes: (time_us, covered, written) of each, in the order in which they ended.
    """

    def __init__(self, path: Path) -> None:
        """Read *path*; raise LabError if it is damaged or not a recording."""
        try:
            with plain.open_regular(path) as file, zipfile.ZipFile(file) as stored:
                self._read(stored)
            self._check()
        except OSError as error:
            raise LabError(
                f"{path} cannot be read: {error.strerror or error}",
                id=ErrorId.RECORDING_NOT_USABLE,
                hint=RECORD_ANEW,
            ) from None
        except Exception as error:  # zipfile and each of its codecs have their own
            raise LabError(
                f"{path} is damaged or not a drive's recording:"
                f" {type(error).__name__}: {error}",
                id=ErrorId.RECORDING_NOT_USABLE,
                hint=RECORD_ANEW,
            ) from None
        self._places = _numbers()
        at = 0
        for length in self.lengths:
            self._places.append(at)
            at += length

    def _read(self, stored: zipfile.ZipFile) -> None:
        if sum(member.file_size for member in stored.infolist()) > _READ_MAX:
            raise ValueError(f"it holds more than {_READ_MAX >> 20:,} MiB")
        facts = json.loads(stored.read("facts.json"))
        if (facts["format"], facts["byteorder"]) != (_FORMAT, sys.byteorder):
            raise ValueError("another version or machine made it")
        self.size_bytes: int = facts["size_bytes"]
        self.began_us: int = facts["began_us"]
        self.ended_us: int = facts["ended_us"]
        self._base = list(zip(*_read_columns(stored, "base", 2), strict=True))
        self.times_us, self.offsets, self.lengths = _read_columns(stored, "writes", 3)
        self.flushes = list(zip(*_read_columns(stored, "flushes", 3), strict=True))
        self._base_content = memoryview(stored.read("base"))
        self._content = memoryview(stored.read("writes"))

    def _check(self) -> None:
        """Raise ValueError unless what was read fits together."""
        if any(
            type(fact) is not int
            for fact in (self.size_bytes, self.began_us, self.ended_us)
        ):
            raise ValueError("a fact is not a whole number")
        _check_places(self._base, len(self._base_content), self.size_bytes)
        places = list(zip(self.offsets, self.lengths, strict=True))
        _check_places(places, len(self._content), self.size_bytes)
        for times_us in (self.times_us, [time_us for time_us, _, _ in self.flushes]):
            if not _is_rising([0, self.began_us, *times_us, self.ended_us]):
                raise ValueError("a time is out of order")
        if not _is_rising([0, *(written for *_, written in self.flushes), len(self)]):
            raise ValueError("a flush is out of order")
        if any(not 0 <= covered <= written for _, covered, written in self.flushes):
            raise ValueError("a flush covers more than was written")

    def __len__(self) -> int:
        """Return the number of writes."""
        return len(self.offsets)

    def base(self) -> Iterator[tuple[int, memoryview]]:
        """Yield place and content of the drive at the beginning, without its zeros."""
        at = 0
        for offset, length in self._base:
            yield offset, self._base_content[at : at + length]
            at += length

    def write(self, number: int) -> Write:
        """Return the write *number*, from 0 on."""
        place, length = self._places[number], self.lengths[number]
        content = self._content[place : place + length]
        return Write(self.times_us[number], self.offsets[number], content)


def _read_columns(stored: zipfile.ZipFile, name: str, count: int) -> list[array[int]]:
    """Return the columns of an index, which has *count* of them."""
    numbers = array("q", stored.read(f"{name}.index"))
    if len(numbers) % count:
        raise ValueError(f"{name}.index ends in the middle of an entry")
    return [numbers[column::count] for column in range(count)]


def _check_places(
    places: Sequence[tuple[int, int]], content: int, size_bytes: int
) -> None:
    """Raise ValueError unless each (offset, length) is on a drive of that size.

    content: how many bytes there are for them, in all.
    """
    for offset, length in places:
        if not 0 <= offset <= offset + length <= size_bytes:
            raise ValueError(f"{length} bytes at {offset} are not on the drive")
    if sum(length for _, length in places) != content:
        raise ValueError("an index does not fit its bytes")


def _is_rising(numbers: Sequence[int]) -> bool:
    return all(one <= next_one for one, next_one in pairwise(numbers))


def _to_microseconds(now: float) -> int:
    return int(now * 1e6)
