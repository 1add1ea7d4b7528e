"""The archive of a bundle: a tar file that can be written in one way only.

POSIX ustar (IEEE Std 1003.1-2024, pax, "ustar Interchange Format"): regular files of
mode 0644, of user and group 0, from the beginning of 1970, in the order of the index,
which comes first and has the size and the SHA-256 of each.  A reader computes every
other byte, so that a changed one is found wherever it is: in a header, in the padding,
after the end.

tar(1) extracts it.  Files of some size are compressed with gzip (RFC 1952), which does
not change what their digest is of: what is stored.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused, RunFormatError, UsageError
from dbcheck.model.verdict import Verdict
from dbcheck.runs import stored

INDEX = "index.json"
_PACKED = ".gz"
_PACK_FROM = 1 << 16  # bytes
_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
_GET_ANOTHER = "Do not trust it; ask who made it for another copy."
_AT_ONCE = 1 << 20
_INDEX_MAX = 1 << 24
_FILES_MAX = 100_000
_LEVEL = 6
# What would unpack to more times its size is stored as it is, so that a small bundle of
# a stranger does not fill a disk.  The ids, times and digests of evidence hardly
# repeat: losses.csv of millions of losses unpacks to 15 times its size, a log 30 times.
_RATIO_MAX = 100
_PARTS_MAX = 3  # of a name, as in runs/ID/FILE
_SIZE_MAX = (1 << 33) - 1  # eleven octal digits in a header of ustar


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle.

    name:  relative, with slashes; it ends in .gz if it is compressed.
    size, sha256: of what is stored.  raw: its size before it was compressed.
    """

    name: str
    size: int
    sha256: str
    raw: int

    def __post_init__(self) -> None:
        """Refuse a name that leads out of a folder, and a size that none has."""
        path = PurePosixPath(self.name)
        parts = path.parts
        unsafe = path.is_absolute() or ".." in parts or str(path) != self.name
        unsafe = unsafe or len(parts) > _PARTS_MAX
        packed = self.file != self.name
        sized = 0 <= self.raw <= self.size * _RATIO_MAX if packed else self.size >= 0
        sized = sized and (packed or self.raw == self.size)
        if unsafe or not parts or not self.name.isprintable() or not sized:
            sizes = f"stored in {self.size} bytes and said to hold {self.raw}"
            raise ValueError(f"a bundle cannot hold {self.name!r}, {sizes}")

    @property
    def file(self) -> str:
        """Its name without the mark of compression."""
        return self.name.removesuffix(_PACKED)


@dataclass(frozen=True, slots=True)
class Index:
    """Table of contents of a bundle.

    kind: "run" or "campaign".  name: the run's id, or the campaign's name.
    dbcheck: the version that made the bundle.
    redacted: names of hosts and addresses were replaced.
    removed:  how many secrets were removed.
    """

    kind: str
    name: str
    dbcheck: str
    verdict: Verdict
    redacted: bool
    removed: int
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        """Refuse members that would be written over one another."""
        files = {member.file for member in self.members}
        if len(files) != len(self.members) or INDEX in files:
            raise ValueError("two files of a bundle have one name")
        if self.kind not in ("run", "campaign"):
            raise ValueError(f"no bundle is of a {self.kind!r}")


def pack_files(folder: Path) -> tuple[Member, ...]:
    """Compress the large files below *folder*, in place; return all, in their order."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        raw = path.stat().st_size
        if raw >= _PACK_FROM:
            path = _compress_if_smaller(path, raw)
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append(Member(name, path.stat().st_size, digest, raw))
    return tuple(found)


def _compress_if_smaller(path: Path, raw: int) -> Path:
    """Compress a file; return its new name, or as it was if it repeats itself.

    raw: its size.
    """
    target = path.with_name(path.name + _PACKED)
    with (
        path.open("rb") as file,
        target.open("xb") as written,
        gzip.GzipFile("", "wb", _LEVEL, written, mtime=0) as pack,
    ):
        shutil.copyfileobj(file, pack, _AT_ONCE)
    kept, other = path, target
    if raw <= target.stat().st_size * _RATIO_MAX:
        kept, other = target, path
    other.unlink()
    return kept


def make_chunks(folder: Path, index: Index) -> Iterator[bytes]:
    """Yield the archive of what pack_files() made of *folder*."""
    content = stored.to_bytes(index)
    if len(content) > _INDEX_MAX or len(index.members) > _FILES_MAX:
        raise UsageError(
            f"{len(index.members):,} files are too many for a bundle",
            id=ErrorId.BUNDLE_TOO_LARGE,
            hint="Bundle the runs of the campaign one by one.",
        )
    for member in index.members:
        if member.size > _SIZE_MAX:
            raise UsageError(
                f"{member.name} is too large for a bundle",
                id=ErrorId.BUNDLE_TOO_LARGE,
                hint="Share the report alone (dbcheck report).",
            )
    yield from (_make_header(INDEX, len(content)), content, _make_padding(len(content)))
    for member in index.members:
        yield _make_header(member.name, member.size)
        with (folder / member.name).open("rb") as file:
            while chunk := file.read(_AT_ONCE):
                yield chunk
        yield _make_padding(member.size)
    yield _END


def _make_header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, 0, 0o644
    return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def _make_padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a bundle for all that is read of it; raise BundleRefused, and OSError.

    The open file is read, and not what may have its name by then.
    """
    try:
        file = plain.open_regular(path)
    except OSError as error:
        raise BundleRefused(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.NOT_A_BUNDLE,
            hint="Name a regular file that you may read.",
        ) from None
    with file:
        yield Archive(file, path)


class Archive:
    """A bundle that is open; each method reads it from its start.

    Raise BundleRefused if it is none, or damaged, and OSError.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self.path = file, path

    def require_room(self, folder: Path) -> None:
        """Raise BundleRefused if it is not as long as it says, or does not fit."""
        index, reader = self._begun()
        if os.fstat(self._file.fileno()).st_size != reader.length(index):
            raise reader.damaged("its size")
        wanted = sum(member.size + member.raw for member in index.members)
        free = shutil.disk_usage(folder).free
        if wanted > free:
            raise BundleRefused(
                f"{self.path} needs {wanted:,} bytes to be unpacked, and"
                f" {folder.parent.parent} has {free:,} left",
                id=ErrorId.BUNDLE_NEEDS_ROOM,
                hint="Set TMPDIR to a folder with more room, if you trust its size.",
            )

    def content(self) -> Iterator[bytes]:
        """Yield all of its bytes, as many as there were in the beginning."""
        self._file.seek(0)
        left = os.fstat(self._file.fileno()).st_size
        while left and (chunk := self._file.read(min(left, _AT_ONCE))):
            left -= len(chunk)
            yield chunk

    def extract(self, folder: Path) -> tuple[Index, str]:
        """Check every byte, and write its files below the empty *folder*.

        Return its index, and the SHA-256 of the bytes that were checked.
        """
        index, reader = self._begun()
        for member in index.members:
            reader.member(member, folder)
        reader.expect(_END, "its end")
        if self._file.read(1):
            raise BundleRefused(
                f"{self.path} goes on after its end",
                id=ErrorId.BUNDLE_DAMAGED,
                hint=_GET_ANOTHER,
            )
        return index, reader.digest.hexdigest()

    def _begun(self) -> tuple[Index, _Reader]:
        self._file.seek(0)
        reader = _Reader(self._file, self.path)
        return reader.index(), reader


class _Reader:
    """Reads a bundle once; digest: of all that it has read."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self.digest = hashlib.sha256()

    def damaged(self, what: str) -> BundleRefused:
        """Return the error for a bundle in which *what* is not what it must be."""
        return BundleRefused(
            f"{self._path} is damaged or was changed: {what}",
            id=ErrorId.BUNDLE_DAMAGED,
            hint=_GET_ANOTHER,
        )

    def length(self, index: Index) -> int:
        """Return the length of a bundle with that index, which was just read."""
        sizes = (member.size for member in index.members)
        whole = sum(_BLOCK + size + -size % _BLOCK for size in sizes)
        return self._file.tell() + whole + len(_END)

    def _read(self, size: int) -> bytes:
        found = self._file.read(size)
        self.digest.update(found)
        return found

    def expect(self, wanted: bytes, what: str) -> None:
        """Read as many bytes as *wanted* has; raise BundleRefused if they differ."""
        if self._read(len(wanted)) != wanted:
            raise self.damaged(what)

    def index(self) -> Index:
        """Read the index."""
        header = self._read(_BLOCK)
        try:
            info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
            size = info.size
        except (tarfile.TarError, UnicodeError):
            raise self._none() from None
        if info.name != INDEX or not 0 < size <= _INDEX_MAX:
            raise self._none()
        if header != _make_header(INDEX, size):
            raise self.damaged("its start")
        content = self._read(size)
        try:
            found = stored.from_bytes(content, Index, f"the index of {self._path}")
        except RunFormatError as error:
            raise BundleRefused(str(error), id=error.id, hint=error.hint) from None
        if stored.to_bytes(found) != content or len(found.members) > _FILES_MAX:
            raise self.damaged("its index")
        self.expect(_make_padding(size), "after its index")
        return found

    def _none(self) -> BundleRefused:
        return BundleRefused(
            f"{self._path} is not a bundle of dbcheck, or its beginning is damaged",
            id=ErrorId.NOT_A_BUNDLE,
            hint="Check the name, or copy the file again.",
        )

    def member(self, member: Member, folder: Path) -> None:
        """Read one file, and write what it holds below *folder*."""
        try:
            header = _make_header(member.name, member.size)
        except (ValueError, UnicodeError):
            raise BundleRefused(
                f"{self._path} names a file that none can be",
                id=ErrorId.BUNDLE_DAMAGED,
                hint=_GET_ANOTHER,
            ) from None
        self.expect(header, f"the header of {member.name}")
        target = folder / member.name
        digest, left = hashlib.sha256(), member.size
        with _create_file(self._path, target) as file:
            while left and (chunk := self._read(min(left, _AT_ONCE))):
                digest.update(chunk)
                file.write(chunk)
                left -= len(chunk)
        if left or digest.hexdigest() != member.sha256:
            raise self.damaged(f"{member.name} is not what the index says")
        self.expect(_make_padding(member.size), f"after {member.name}")
        if member.name != member.file:
            self._unpack(target, folder / member.file, member)

    def _unpack(self, source: Path, target: Path, member: Member) -> None:
        try:
            with gzip.open(source) as file, target.open("xb") as written:
                _copy(file, written, member.raw)
        except (OSError, EOFError, ValueError) as error:
            raise BundleRefused(
                f"{self._path}: {member.name} cannot be unpacked: {error}",
                id=ErrorId.BUNDLE_NOT_UNPACKED,
            ) from None
        source.unlink()


def _create_file(path: Path, target: Path) -> IO[bytes]:
    """Open a new file; raise BundleRefused if another one has its name or its place."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb")
    except (FileExistsError, NotADirectoryError):
        raise BundleRefused(
            f"{path} holds two files that have one name here: {target.name}",
            id=ErrorId.BUNDLE_NOT_UNPACKED,
            hint="Set TMPDIR to a folder that tells upper from lower case.",
        ) from None


def _copy(file: io.BufferedIOBase | IO[bytes], written: IO[bytes], size: int) -> None:
    """Copy *size* bytes; raise ValueError if there are fewer, or more."""
    left = size
    while chunk := file.read(min(left + 1, _AT_ONCE)):
        left -= len(chunk)
        if left < 0:
            raise ValueError("it holds more than the index says")
        written.write(chunk)
    if left:
        raise ValueError("it holds less than the index says")
