"""Writes an inventory of one host, once all that it names was checked."""

from __future__ import annotations

import shlex
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.newhost import NewHost, format_inventory, parse_inventory
from dbcheck.runner import assemble
from dbcheck.runs.stored import open_private
from dbcheck.witness.window import WindowLimits

DEFAULT = Path("inventory.yml")  # where each command looks


def write_new_inventory(file: Path, host: NewHost) -> Entry:
    """Write the inventory of *host* to *file*, which must not exist; return the host.

    Raise UsageError, with nothing written, if a value cannot be used.
    """
    # The URLs first: these errors advise on the URL as it was typed, not on a variable.
    assemble.make_engine(host.target, None)
    text = format_inventory(host)
    entry = parse_inventory(text, host.name, file)
    assemble.make_witness(entry, WindowLimits()).close()
    write_new_file(file, text)
    return entry


def require_new(file: Path) -> None:
    """Raise UsageError if *file* is there already."""
    if file.exists():
        raise _exists_error(file)


def write_new_file(file: Path, text: str) -> None:
    """Write *file* for this user alone; raise UsageError if it exists, or cannot be."""
    try:
        with open_private(file, "xb") as new:
            new.write(text.encode())
    except FileExistsError:
        raise _exists_error(file) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}",
            id=ErrorId.FILE_NOT_WRITABLE,
            hint="Name a file in a folder where you may write, or make room.",
        ) from None


def _exists_error(file: Path) -> UsageError:
    return UsageError(
        f"{file} already exists",
        id=ErrorId.FILE_EXISTS,
        hint="Name another file, or remove that one.",
    )


def format_command(file: Path, *words: str) -> str:
    """Return a command that takes a host of the inventory in *file*, to be typed."""
    is_default = file.resolve() == DEFAULT.resolve()
    more = [] if is_default else ["--inventory", str(file)]
    return shlex.join(["dbcheck", *words, *more])
