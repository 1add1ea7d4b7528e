"""The archive of a bundle: a tar file that can be written in one way only.

POSIX ustar (IEEE Std 1003.1-2024, pax, "ustar Interchange Format"): regular files of
mode 0644, of user and group 0, from the beginning of 1970, in the order of the index,
which comes first and has the size and the SHA-256 of each.  A reader computes every
other byte, so that a changed one is found wherever it is: in a header, in the padding,
after the end.

tar(1) extracts it.  Files of 64 KiB or more are compressed with gzip (RFC 1952); the
digest of a file is that of its stored, compressed bytes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zlib
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
_GZIP_SUFFIX = ".gz"
_COMPRESSED_FROM_BYTES = 1 << 16
_BLOCK = tarfile.BLOCKSIZE
_END_OF_ARCHIVE = bytes(2 * _BLOCK)
GET_ANOTHER = "Do not trust it; ask who made it for another copy."
_OTHER_FOLDER = (
    "Set TMPDIR to a folder with more room, whose filesystem tells upper from lower"
    " case."
)
_CHUNK_BYTES = 1 << 20
_INDEX_BYTES_MAX = 1 << 24
_FILES_MAX = 100_000
_GZIP_LEVEL = 6
# A file that would unpack to more times its size is stored as it is, so that a small
# bundle of a stranger does not fill a disk.  The ids, times and digests of evidence
# hardly repeat: losses.csv of millions of losses unpacks to 15 times its size, a log 30
# times.
_COMPRESSION_RATIO_MAX = 100
_NAME_PARTS_MAX = 3  # as in runs/ID/FILE
_FILE_BYTES_MAX = (1 << 33) - 1  # eleven octal digits in a header of ustar


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle.

    name:  relative, with slashes; it ends in .gz if it is compressed.
    size, sha256: of the stored bytes.  raw: the size before compression.
    """

    name: str
    size: int
    sha256: str
    raw: int

    def __post_init__(self) -> None:
        """Refuse a name that leads out of a folder, and sizes that no file has."""
        path = PurePosixPath(self.name)
        parts = path.parts
        is_unsafe = path.is_absolute() or ".." in parts or str(path) != self.name
        is_unsafe = is_unsafe or len(parts) > _NAME_PARTS_MAX
        is_compressed = self.file != self.name
        has_valid_size = (
            0 <= self.raw <= self.size * _COMPRESSION_RATIO_MAX
            if is_compressed
            else self.size >= 0
        )
        has_valid_size = has_valid_size and (is_compressed or self.raw == self.size)
        if is_unsafe or not parts or not self.name.isprintable() or not has_valid_size:
            sizes = f"stored in {self.size} bytes and said to hold {self.raw}"
            raise ValueError(f"a bundle cannot hold {self.name!r}, {sizes}")

    @property
    def file(self) -> str:
        """The name without the mark of compression."""
        return self.name.removesuffix(_GZIP_SUFFIX)


@dataclass(frozen=True, slots=True)
class Index:
    """Table of contents of a bundle.

    kind: "run", "runs" or "campaign".  name: the run's id, that of the oldest of
              several with their number, or the campaign's name.
    dbcheck: the version that made the bundle.
    redacted: the names of hosts and the addresses were replaced.
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
        if self.kind not in ("run", "runs", "campaign"):
            raise ValueError(f"no bundle is of a {self.kind!r}")


def pack_files(folder: Path) -> tuple[Member, ...]:
    """Compress the large files below *folder*, in place; return all, in their order."""
    members = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        raw = path.stat().st_size
        if raw >= _COMPRESSED_FROM_BYTES:
            path = _compress_if_smaller(path, raw)
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        members.append(Member(name, path.stat().st_size, digest, raw))
    return tuple(members)


def _compress_if_smaller(path: Path, raw: int) -> Path:
    """Compress a file unless it shrinks too much; return the path of what is kept.

    raw: the size of the file.
    """
    target = path.with_name(path.name + _GZIP_SUFFIX)
    with (
        path.open("rb") as file,
        target.open("xb") as written,
        gzip.GzipFile("", "wb", _GZIP_LEVEL, written, mtime=0) as pack,
    ):
        shutil.copyfileobj(file, pack, _CHUNK_BYTES)
    kept_file, dropped_file = path, target
    if raw <= target.stat().st_size * _COMPRESSION_RATIO_MAX:
        kept_file, dropped_file = target, path
    dropped_file.unlink()
    return kept_file


def make_chunks(folder: Path, index: Index) -> Iterator[bytes]:
    """Yield the archive of what pack_files() made of *folder*."""
    content = stored.to_bytes(index)
    if len(content) > _INDEX_BYTES_MAX or len(index.members) > _FILES_MAX:
        raise UsageError(
            f"{len(index.members):,} files are too many for a bundle",
            id=ErrorId.BUNDLE_TOO_LARGE,
            hint="Bundle the runs of the campaign one by one.",
        )
    for member in index.members:
        if member.size > _FILE_BYTES_MAX:
            raise UsageError(
                f"{member.name} is too large for a bundle",
                id=ErrorId.BUNDLE_TOO_LARGE,
                hint="Share the report alone (dbcheck report).",
            )
    yield from (_make_header(INDEX, len(content)), content, _make_padding(len(content)))
    for member in index.members:
        yield _make_header(member.name, member.size)
        with (folder / member.name).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
        yield _make_padding(member.size)
    yield _END_OF_ARCHIVE


def _make_header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, 0, 0o644
    return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def _make_padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a bundle once for all reading; raise BundleRefused, and OSError.

    A file that takes its name meanwhile is not read.
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

    Raise BundleRefused if it is no bundle, or damaged, and OSError.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self.path = file, path

    def require_room(self, folder: Path) -> None:
        """Raise BundleRefused if its length belies its index, or it does not fit."""
        index, reader = self._read_index_first()
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
        """Yield the bytes of the file, as many as it had when this began."""
        self._file.seek(0)
        left = os.fstat(self._file.fileno()).st_size
        while left and (chunk := self._file.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk

    def extract(self, folder: Path) -> tuple[Index, str]:
        """Check every byte, and write the files below the empty *folder*.

        Return the index, and the SHA-256 of the bytes that were checked.
        """
        index, reader = self._read_index_first()
        for member in index.members:
            reader.member(member, folder)
        reader.expect(_END_OF_ARCHIVE, "its end")
        if self._file.read(1):
            raise BundleRefused(
                f"{self.path} goes on after its end",
                id=ErrorId.BUNDLE_DAMAGED,
                hint=GET_ANOTHER,
            )
        return index, reader.digest.hexdigest()

    def _read_index_first(self) -> tuple[Index, _Reader]:
        self._file.seek(0)
        reader = _Reader(self._file, self.path)
        return reader.index(), reader


class _Reader:
    """Reads a bundle once.

    digest: of all bytes read so far.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self.digest = hashlib.sha256()

    def damaged(self, what: str) -> BundleRefused:
        """Return the error for a bundle in which *what* is not what it must be."""
        return BundleRefused(
            f"{self._path} is damaged or was changed: {what}",
            id=ErrorId.BUNDLE_DAMAGED,
            hint=GET_ANOTHER,
        )

    def length(self, index: Index) -> int:
        """Return the length of a bundle with that index, which was just read."""
        sizes = (member.size for member in index.members)
        whole = sum(_BLOCK + size + -size % _BLOCK for size in sizes)
        return self._file.tell() + whole + len(_END_OF_ARCHIVE)

    def _read(self, size: int) -> bytes:
        content = self._file.read(size)
        self.digest.update(content)
        return content

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
            raise self._not_a_bundle_error() from None
        if info.name != INDEX or not 0 < size <= _INDEX_BYTES_MAX:
            raise self._not_a_bundle_error()
        if header != _make_header(INDEX, size):
            raise self.damaged("its start")
        content = self._read(size)
        try:
            index = stored.from_bytes(content, Index, f"the index of {self._path}")
        except RunFormatError as error:
            # The remedy for a damaged record is one for a run folder.
            is_damaged = error.id is ErrorId.RECORD_DAMAGED
            hint = GET_ANOTHER if is_damaged else error.hint
            raise BundleRefused(str(error), id=error.id, hint=hint) from None
        if stored.to_bytes(index) != content or len(index.members) > _FILES_MAX:
            raise self.damaged("its index")
        self.expect(_make_padding(size), "after its index")
        return index

    def _not_a_bundle_error(self) -> BundleRefused:
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
                hint=GET_ANOTHER,
            ) from None
        self.expect(header, f"the header of {member.name}")
        target = folder / member.name
        digest, left = hashlib.sha256(), member.size
        with _create_file(self._path, target) as file:
            while left and (chunk := self._read(min(left, _CHUNK_BYTES))):
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
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise BundleRefused(
                f"{self._path}: {member.name} cannot be unpacked: {error}",
                id=ErrorId.BUNDLE_NOT_UNPACKED,
                hint=_OTHER_FOLDER if getattr(error, "errno", None) else GET_ANOTHER,
            ) from None
        source.unlink()


def _create_file(path: Path, target: Path) -> IO[bytes]:
    """Open a new file; raise BundleRefused if another file has its name or place."""
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
    """Copy *size* bytes; raise ValueError if *file* holds fewer, or more."""
    left = size
    while chunk := file.read(min(left + 1, _CHUNK_BYTES)):
        left -= len(chunk)
        if left < 0:
            raise ValueError("it holds more than the index says")
        written.write(chunk)
    if left:
        raise ValueError("it holds less than the index says")
