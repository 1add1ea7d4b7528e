"""Stores records and rows on the client's disk, each file whole or not at all.

Each record is JSON that names its format and has a digest of its content, so that a
file that is damaged on this disk is never held against a server.

Only the user may read them: folders have the mode 0700 and files 0600, with any umask.
dbcheck often runs as root where others can write, so it writes in no folder of another
user, and follows no link that another user made.  It trusts root, the user who called
sudo, and the group of a folder: many systems give the mode 0775 to folders that only
their owner can write to.

Names of programs, hosts and settings in a folder count only if the user's own client
made the folder: anybody may have packed a folder that looks so.  When a campaign's or
exploration's folder is begun, the SHA-256 of the record that describes it becomes the
name of a file where nobody else can write:

    $XDG_STATE_HOME/dbcheck/SUBJECT/SHA256     an empty file; else under ~/.local/state

A run has a key in place of such a file, see client_key.py.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np

from dbcheck.base import plain
from dbcheck.base.decoding import UNDECODABLE, convert, decode_json_lines
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, RunWriteError, UsageError
from dbcheck.base.owners import is_ours, own_users
from dbcheck.base.system import sync
from dbcheck.model.records import StoredRows
from dbcheck.rows.survivors import RECORD, Records

T = TypeVar("T")

FORMAT = 1  # of the records; a record of another format is refused
# The remedy for a damaged record.
JUDGE_FROM_WITNESS = (
    "If it lies in a run folder, and nothing has written to the server since that run,"
    " move that folder away and judge the run from the witness: dbcheck reconcile"
    " --witness URL --run ID --target URL. If it is a campaign's own file, begin a new"
    " campaign."
)
# An ack takes 20 bytes of a run folder and a row that survives 39: this is room for
# 900,000 operations that write three rows each: some minutes of a fast server.
RUN_ROOM_BYTES = 128 << 20
_RECORD_BYTES_MAX = 1 << 28  # bytes; eight times what a bundle may hold


def to_bytes(value: object) -> bytes:
    """Return *value* as JSON that names the format and has the digest of the value."""
    values: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    ordered = msgspec.to_builtins(value, str_keys=True, order="deterministic")
    values = _restore_sets(values, ordered)
    values = {"format": FORMAT, "sha256": _digest(values), **values}
    return json.dumps(values, indent=1).encode()


def _restore_sets(values: Any, ordered: Any) -> Any:
    """Return *values* with its sets in the order that they have in *ordered*.

    A set has no order of its own, and equal values must give the same bytes.
    """
    if isinstance(values, dict):
        return {
            key: _restore_sets(value, ordered[key]) for key, value in values.items()
        }
    if isinstance(values, list) and not all(isinstance(x, str) for x in values):
        pairs = zip(values, ordered, strict=True)
        return [_restore_sets(value, ordered_value) for value, ordered_value in pairs]
    return ordered


def from_bytes(content: bytes, kind: type[T], where: str) -> T:
    """Parse the result of to_bytes(); raise RunFormatError, naming *where*.

    kind: the dataclass to return.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RunFormatError(
            f"{where} is not JSON: {error}",
            id=ErrorId.RECORD_DAMAGED,
            hint=JUDGE_FROM_WITNESS,
        ) from None
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise RunFormatError(
            f"{where} is not a record of dbcheck: it names no format",
            id=ErrorId.RECORD_DAMAGED,
            hint=JUDGE_FROM_WITNESS,
        )
    format_number = values.pop("format")
    if format_number != FORMAT:
        raise RunFormatError(
            f"{where} is of format {format_number}; this dbcheck reads format {FORMAT}",
            id=ErrorId.RECORD_OF_ANOTHER_VERSION,
            hint="Use the version of dbcheck that wrote it.",
        )
    if values.pop("sha256", None) != _digest(values):
        raise RunFormatError(
            f"{where} is damaged or was changed: checksum mismatch",
            id=ErrorId.RECORD_DAMAGED,
            hint=JUDGE_FROM_WITNESS,
        )
    try:
        return convert(values, kind, str_keys=True)
    except UNDECODABLE as error:
        raise damaged_record_error(where, str(error)) from None


def damaged_record_error(where: str, why: str) -> RunFormatError:
    """Return the error for a record that holds what dbcheck did not write."""
    return RunFormatError(
        f"{where} is damaged: {why}",
        id=ErrorId.RECORD_DAMAGED,
        hint=JUDGE_FROM_WITNESS,
    )


def advise_on_unreadable_record(error: OSError) -> str:
    """Return the remedy for a record that cannot be read, "" if none is known."""
    if isinstance(error, PermissionError):
        return "Work as the user who made the run."
    return ""


def unreadable_record_error(path: Path, error: OSError) -> RunFormatError:
    """Return the error for a record that cannot be read."""
    return RunFormatError(
        f"{path} cannot be read: {error.strerror}",
        id=ErrorId.RECORD_UNREADABLE,
        hint=advise_on_unreadable_record(error),
    )


def read_content(path: Path) -> bytes:
    """Return the bytes of a record's file; raise RunFormatError if it is unreadable.

    Another user may have made the folder: the file may be a FIFO, or without end.
    """
    try:
        return plain.read_regular(path, _RECORD_BYTES_MAX)
    except OSError as error:
        raise unreadable_record_error(path, error) from None


def read_record(path: Path, kind: type[T]) -> T:
    """Return the record in *path*; raise RunFormatError if it holds none.

    kind: as for from_bytes().
    """
    return from_bytes(read_content(path), kind, str(path))


def require_room(folder: Path) -> None:
    """Raise UsageError if less than RUN_ROOM_BYTES are free where *folder* is to be."""
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < RUN_ROOM_BYTES:
        raise UsageError(
            f"{folder} has {free >> 20} MiB free, and a run may need"
            f" {RUN_ROOM_BYTES >> 20} MiB there",
            id=ErrorId.RUNS_NEED_ROOM,
            hint="Make room, or name a folder on another filesystem: by --runs, or by"
            " --folder of a campaign or a go-live check, which then begins anew.",
        )


def make_folder(path: Path) -> None:
    """Make the folder *path*, and what is missing above it, for this user alone.

    Raise RunWriteError if that fails, or if the folder is there and is another user's,
    or one where everyone may add files and remove files of others.
    """
    with translate_write_errors(path):
        if not path.parent.exists():
            make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            _make_private_folder(path)
        status = path.stat()
        _require_own_folder(path, is_ours(path.lstat()) and is_ours(status))
        _require_not_open(path, status.st_mode, stat.S_ISVTX)


def make_new_folder(path: Path) -> None:
    """Make the folder *path* in a folder that exists, for this user alone.

    Raise RunWriteError if that fails, also if *path* exists.
    """
    with translate_write_errors(path):
        _make_private_folder(path)


def is_own_folder(folder: Path) -> bool:
    """Return True if *folder*, and a link that leads there, are this user's."""
    return {folder.lstat().st_uid, folder.stat().st_uid} <= own_users()


def may_write(folder: Path) -> bool:
    """Return True if write_file() accepts *folder*, whatever its permissions."""
    return is_own_folder(folder) and not folder.stat().st_mode & stat.S_IWOTH


def open_private(path: Path, mode: str) -> IO[bytes]:
    """Open a file as open() does, for this user alone; follow no link.

    Raise OSError if *path* is anything but a plain file of this user.
    """
    return open(path, mode, opener=_open_file)


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Store a file whole or not at all; an error of *chunks* goes to the caller.

    Raise RunWriteError if it cannot be written, or if the folder is another user's.
    """
    part = path.with_name(f"{path.name}.part")
    require_own(path.parent)
    try:
        with translate_write_errors(path.parent):
            part.unlink(missing_ok=True)  # left by a client that was killed
        with translate_write_errors(path.parent), open_private(part, "xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            sync(file.fileno())
        with translate_write_errors(path.parent):
            part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def translate_write_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a RunWriteError that names the folder."""
    try:
        yield
    except OSError as error:
        raise RunWriteError(
            f"the folder {folder} cannot be written: {error.strerror}",
            id=ErrorId.FOLDER_NOT_WRITABLE,
            hint="Give another folder, or make room.",
        ) from error


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep every other dbcheck out of *folder*.

    Raise RunWriteError if another dbcheck uses it, or if it is another user's.
    """
    require_own(folder)
    with translate_write_errors(folder):
        lock = open_private(folder / "lock", "ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunWriteError(
                f"another dbcheck is using {folder}",
                id=ErrorId.FOLDER_IN_USE,
                hint="Wait until it has ended.",
            ) from None
        yield


@contextlib.contextmanager
def lock_folder_to_judge(folder: Path) -> Iterator[None]:
    """Lock *folder* if this user may store a judgement in it; else lock nothing."""
    if folder.is_dir() and may_write(folder):
        with lock_folder(folder):
            yield
    else:
        yield


def _open_file(path: str, flags: int) -> int:
    # O_NONBLOCK, as the opening of a FIFO would wait.
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid in own_users():
        if flags & os.O_CREAT:
            _give_to_owner(descriptor, Path(path).parent)
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, f"{path} is not a plain file of this user's")


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    _give_to_owner(folder, folder.parent)


def _give_to_owner(made: Path | int, folder: Path) -> None:
    """Give what root made to the user who called sudo, if the folder is that user's."""
    owner = folder.stat()
    if os.geteuid() == 0 and owner.st_uid and owner.st_uid in own_users():
        os.chown(made, owner.st_uid, owner.st_gid)


def require_own(folder: Path) -> None:
    """Raise RunWriteError if others than this user may change what *folder* holds."""
    with translate_write_errors(folder):
        _require_own_folder(folder, is_own_folder(folder))
        _require_not_open(folder, folder.stat().st_mode, 0)


def _require_own_folder(folder: Path, is_own: bool) -> None:
    if not is_own:
        raise RunWriteError(
            f"the folder {folder} belongs to another user",
            id=ErrorId.FOLDER_OF_OTHER_USER,
            hint="Work as that user, or name a folder of your own; one that is not"
            " there yet is made, also inside of that one.",
        )


def _require_not_open(folder: Path, mode: int, excusing_bits: int) -> None:
    if mode & stat.S_IWOTH and not mode & excusing_bits:
        raise RunWriteError(
            f"everyone may write to the folder {folder}",
            id=ErrorId.FOLDER_OPEN_TO_OTHERS,
            hint=f"Run chmod o-w {shlex.quote(str(folder))}, or use another folder.",
        )


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def state_folder(subject: str) -> Path:
    """Return the folder for what is kept about *subject*; it need not exist yet."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if state.startswith("/") else Path("~/.local/state")
    return folder.expanduser() / "dbcheck" / subject


def note_made_here(subject: str, record: bytes) -> None:
    """Note that this client made what *record* describes.

    subject: "campaigns" or "explorations".  Raise RunWriteError if it cannot be noted.
    """
    path = _find_mark_path(subject, record)
    make_folder(path.parent)
    write_file(path, [])


def is_made_here(subject: str, record: bytes) -> bool:
    """Return True if note_made_here() noted this very *record*."""
    try:
        with open_private(_find_mark_path(subject, record), "rb") as file:
            return not os.fstat(file.fileno()).st_mode & 0o077
    except OSError:
        return False


def _find_mark_path(subject: str, record: bytes) -> Path:
    return state_folder(subject) / hashlib.sha256(record).hexdigest()


_RECORDS_PER_READ = 1 << 16


def read_rows(path: Path, stored_rows: StoredRows) -> Iterator[Records]:
    """Stream the survivors stored in *path*.

    Raise RunFormatError if they are not those that *stored_rows* describes.
    """
    digest, rows = hashlib.sha256(), 0
    try:
        with plain.open_regular(path) as file:
            while content := file.read(_RECORDS_PER_READ * RECORD.itemsize):
                digest.update(content)
                rows_read = len(content) // RECORD.itemsize
                rows += rows_read
                yield np.frombuffer(content, RECORD, rows_read)
    except OSError as error:
        raise RunFormatError(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.STORED_ROWS_MISSING,
            hint="A campaign keeps the rows of cycles that passed no longer than"
            " it takes to judge them.",
        ) from None
    if StoredRows(rows, digest.hexdigest()) != stored_rows:
        raise RunFormatError(
            f"{path} is damaged: its checksum differs from what was stored",
            id=ErrorId.STORED_ROWS_DAMAGED,
            hint=JUDGE_FROM_WITNESS,
        )


class _Id(msgspec.Struct):
    row_id: int


def read_ids(path: Path) -> list[int] | None:
    """Return the ids of the rows in *path*, a line of JSON each; None if it is missing.

    Raise RunFormatError if it is damaged.
    """
    try:
        with plain.open_regular(path) as file:
            return [row.row_id for row in decode_json_lines(file.read(), _Id)]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable_record_error(path, error) from None
    except UNDECODABLE as error:
        raise damaged_record_error(str(path), str(error)) from None
