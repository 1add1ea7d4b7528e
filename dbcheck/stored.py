"""How records are kept on the client's disk: whole or not at all, and recognisable.

Each record is JSON that names its format and bears a digest of its content, so that a
bit that rots here is never held against a server.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dbcheck.errors import RunFormatError, RunWriteError

FORMAT = 3

T = TypeVar("T")


def to_bytes(value: object) -> bytes:
    """Return *value* as JSON that names the format and bears its digest."""
    values: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    values = {"format": FORMAT, "sha256": _digest(values), **values}
    return json.dumps(values, indent=1).encode()


def from_bytes(content: bytes, kind: type[T], where: str) -> T:
    """Return what to_bytes() was given; raise RunFormatError, naming *where*, if not.

    kind: the dataclass that it was.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RunFormatError(f"{where} is not JSON: {error}") from None
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise RunFormatError(
            f"{where} is not of format {FORMAT}",
            hint="Read it with the version of dbcheck that wrote it.",
        )
    if values.pop("sha256", None) != _digest(values):
        raise RunFormatError(
            f"{where} is damaged or was changed: its digest does not fit",
            hint="Judge the run from the witness: reconcile --witness URL --run ID "
            "--target URL.",
        )
    try:
        return msgspec.convert(values, kind, str_keys=True)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise RunFormatError(f"{where} is damaged: {error}") from None


def write(path: Path, chunks: Iterable[bytes]) -> None:
    """Store a file whole or not at all; an error of *chunks* goes to the caller.

    Raise RunWriteError if it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with writing(path.parent), part.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        with writing(path.parent):
            part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError into a RunWriteError that names the folder."""
    try:
        yield
    except OSError as error:
        raise RunWriteError(
            f"the folder {folder} cannot be written: {error.strerror}",
            hint="Give another folder, or make room.",
        ) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other dbcheck out of *folder*; raise RunWriteError if one is in."""
    with writing(folder):
        lock = (folder / "lock").open("wb")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunWriteError(
                f"another dbcheck is using {folder}",
                hint="Wait until it has ended.",
            ) from None
        yield


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
