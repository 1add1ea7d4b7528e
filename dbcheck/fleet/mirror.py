"""The client's copy of a campaign's folder, kept equal to that on a worker.

A file is written once all of it came with the right digest, and a file that the worker
removed is removed here.  A worker holds no run that is settled and kept here, and such
a run is never changed here.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from io import BufferedRandom, BufferedReader
from pathlib import Path, PurePosixPath

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.fleet.messages import Listing, Piece
from dbcheck.runs import stored

PIECE_BYTES = 1 << 18
_LOCK = "lock"  # each end has its own
_RUNS, _CYCLES, _MANIFEST = "runs", "cycles", "manifest.json"


def read_needed_files(folder: CampaignFolder) -> dict[str, bytes]:
    """Return the files that a worker needs to go on: all but the settled runs."""
    settled = {cycle.run for cycle in folder.cycles()}
    return {
        name: path.read_bytes()
        for name, path in _list_files(folder.path).items()
        if _find_run_name(name) not in settled
    }


def unpack_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the result of read_needed_files() into *folder*; raise RunWriteError."""
    for name in (_RUNS, _CYCLES):
        stored.make_folder(folder / name)
    for name, content in files.items():
        place = _resolve_inside(folder, name)
        stored.make_folder(place.parent)
        stored.write_file(place, [content])


class Outgoing:
    """The worker's sending side of its folder, which nothing writes to meanwhile."""

    def __init__(self, folder: Path, given: Mapping[str, bytes]) -> None:
        """Send nothing that the client has; given: what it gave."""
        self._folder = folder
        self._sent = {name: _digest(content) for name, content in given.items()}
        self._seen: dict[str, tuple[int, int, int]] = {}

    def pieces(self) -> Iterator[Piece]:
        """Yield what the client lacks.

        A run's manifest comes first: what came in part is a run that --resume settles.
        What names a run as settled comes last.
        """
        files = _list_files(self._folder)
        self._sent = {n: digest for n, digest in self._sent.items() if n in files}
        for name in sorted(files, key=_sort_key):
            status = files[name].stat()
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._seen.get(name) == seen:
                continue
            with files[name].open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                if self._sent.get(name) != digest:
                    file.seek(0)
                    yield from _split_file(name, file, status.st_size, digest)
            self._sent[name], self._seen[name] = digest, seen

    def listing(self) -> Listing:
        """Return the list of files that the client should hold now."""
        return Listing(dict(self._sent))

    def drop_settled(self) -> None:
        """Remove the runs that the client has, and that nothing here needs any more."""
        for cycle in CampaignFolder(self._folder).cycles():
            settled = self._folder / _RUNS / cycle.run
            if cycle.run and settled.is_dir():  # at once, or not at all
                shutil.rmtree(settled.rename(self._folder / f".{cycle.run}"))

    def lacks(self, names: tuple[str, ...]) -> None:
        """Send these files once more with the next pieces()."""
        for name in names:
            self._sent.pop(name, None)
            self._seen.pop(name, None)


class Incoming:
    """The client's receiving side of a worker's folder."""

    def __init__(self, folder: Path, given: Mapping[str, bytes]) -> None:
        """Keep the files in *folder*; given: those that the worker was given."""
        self._folder = folder
        self._held = {name: _digest(content) for name, content in given.items()}
        self._part: tuple[str, BufferedRandom] | None = None

    def take(self, piece: Piece) -> None:
        """Take a part of a file; ignore one that does not follow the part before it.

        Raise RunWriteError if the folder cannot be written.
        """
        place = _resolve_inside(self._folder, piece.path)
        with stored.translate_write_errors(self._folder):
            if piece.offset == 0:
                self.close()
                self._part = (piece.path, _open_unnamed_file(self._folder))
            if self._part is None or self._part[0] != piece.path:
                return
            file = self._part[1]
            if file.tell() != piece.offset:
                return
            file.write(piece.content)
        if piece.sha256:
            self._write(place, file, piece)

    def missing(self, listing: Listing) -> tuple[str, ...]:
        """Return the files that the folder lacks; if none, remove the superfluous ones.

        Raise RunWriteError if the folder cannot be written.
        """
        missing = {
            n for n, digest in listing.files.items() if self._held.get(n) != digest
        }
        if not missing:
            self._remove(listing)
        return tuple(sorted(missing))

    def _remove(self, listing: Listing) -> None:
        """Remove files that the worker no longer has, except whole runs."""
        runs = {_find_run_name(name) for name in listing.files}
        for name in self._held.keys() - listing.files.keys():
            if _find_run_name(name) in runs:
                with stored.translate_write_errors(self._folder):
                    _resolve_inside(self._folder, name).unlink(missing_ok=True)
            del self._held[name]

    def close(self) -> None:
        """Forget a file that did not come whole."""
        if self._part is not None:
            self._part[1].close()
            self._part = None

    def _write(self, place: Path, file: BufferedRandom, piece: Piece) -> None:
        file.seek(0)
        if hashlib.file_digest(file, "sha256").hexdigest() == piece.sha256:
            file.seek(0)
            stored.make_folder(place.parent)
            stored.write_file(place, iter(lambda: file.read(PIECE_BYTES), b""))
            self._held[piece.path] = piece.sha256
        self.close()


def _open_unnamed_file(folder: Path) -> BufferedRandom:
    """Return a file in *folder* that goes away with its last user."""
    file: BufferedRandom = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    return file


def _list_files(folder: Path) -> dict[str, Path]:
    """Return the files of a campaign's folder: relative path -> file.

    A run without a manifest is none: its client ended as it made the folder.
    """
    inside = (*folder.glob("*"), *(folder / _CYCLES).glob("*"))
    found = {
        path.relative_to(folder).as_posix(): path
        for path in (*inside, *(folder / _RUNS).rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and path.name != _LOCK
        and path.suffix != ".part"
    }
    return {
        name: path
        for name, path in found.items()
        if not (run := _find_run_name(name)) or f"{_RUNS}/{run}/{_MANIFEST}" in found
    }


def _sort_key(name: str) -> tuple[bool, bool, str]:
    return name.startswith(_CYCLES), not name.endswith(f"/{_MANIFEST}"), name


def _split_file(
    name: str, file: BufferedReader, size: int, digest: str
) -> Iterator[Piece]:
    offset = 0
    while True:
        content = file.read(PIECE_BYTES)
        over = offset + len(content) >= size or not content
        yield Piece(name, offset, content, digest if over else "")
        if over:
            return
        offset += len(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _find_run_name(name: str) -> str:
    """Return the run that a file is of, "" if it is of none."""
    parts = PurePosixPath(name).parts
    return parts[1] if parts[0] == _RUNS and len(parts) > 2 else ""


def _resolve_inside(folder: Path, name: str) -> Path:
    """Return the place of *name*; raise RunWriteError if it is not in *folder*."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise RunWriteError(
            f"a worker sent a file with the name {name!r}, which is not in its folder",
            id=ErrorId.WORKER_SENDS_STRANGE_FILE,
            hint="Check which program runs on the workers of this scheduler.",
        )
    return folder / path
