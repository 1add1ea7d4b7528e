"""group_vars/ and host_vars/: variables in files of their own, beside the inventory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dbcheck.inventory.document import entries, read
from dbcheck.inventory.groups import Variables
from dbcheck.inventory.trusted import require_trusted

_SUFFIXES = ("", ".yml", ".yaml", ".json")


def variables(folder: Path, names: Iterable[str]) -> dict[str, Variables]:
    """Return what *folder* holds for each of *names* that it holds something for.

    For a name there is a file, also with .yml, .yaml or .json behind it, or a folder
    of them, which are read in the order of their paths.  Raise UsageError if anybody
    may write there.
    """
    found: dict[str, Variables] = {}
    require_trusted(folder)
    for name in names if folder.is_dir() else ():
        for file in _files(folder, name):
            found.setdefault(name, {}).update(entries(read(file), f"{file}"))
    return found


def _files(folder: Path, name: str) -> list[Path]:
    for suffix in _SUFFIXES:
        path = folder / f"{name}{suffix}"
        if os.path.isfile(path):  # which also takes what no file can be called
            return [path]
        if os.path.isdir(path):
            return list(_inside(path))
    return []


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the files that count, as ansible.parsing.dataloader finds them."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir() and not path.suffix:
            yield from _inside(path)
        elif path.is_file() and path.suffix in _SUFFIXES:
            yield path
