"""The directories that what a server acknowledges depends on."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

DATA = "data"  # the name of the data directory, which comes first
WAL, REDO_LOG, BINARY_LOG = "WAL", "redo log", "binary log"
ROCKSDB_LOG = "RocksDB log"
TABLE, INDEX = "table", "index"
OF_TABLES = (TABLE, INDEX)  # they come and go with a table
# What a server flushes before it answers a commit.
LOGS = (WAL, REDO_LOG, BINARY_LOG, ROCKSDB_LOG)


@dataclass(frozen=True, slots=True)
class Place:
    """One directory, as the server's own settings give it; links are not followed.

    name: what is kept there, as reports show it, e.g. "WAL"; unlike any other's.
    path: absolute; "" if the server does not show it.
    files: names of what counts of the files directly in it, as shell patterns; each
           may be a link to another filesystem, or mounted from there.
    """

    name: str
    path: str
    files: tuple[str, ...] = ()


def outside(places: Sequence[Place]) -> list[Place]:
    """Return the places whose path is not below that of the data directory.

    A link inside the data directory may lead elsewhere all the same, which only its
    host can see.
    """
    data = next((place.path for place in places if place.name == DATA), "")
    return [
        place
        for place in places
        if place.name != DATA
        and not (data and PurePosixPath(place.path).is_relative_to(data))
    ]


def moved(before: Sequence[Place], after: Sequence[Place]) -> dict[str, str]:
    """Return the places that are not where they were, by name, and where they are.

    A table that was yet to be created was expected in the folder of its tablespace; it
    lies there or below.  So does a place that was not known at all before.  Several
    places of one kind may be numbered in another order than before.
    """
    paths = {place.name: place.path for place in before}
    alike: dict[str, list[str]] = {}
    for name, path in paths.items():
        alike.setdefault(_kind(name, paths), []).append(path)
    found = {}
    for place in after:
        known = list(paths.values())
        if place.name in paths:
            known = alike[_kind(place.name, paths)]
        if not any(_is_in(place.path, path) for path in known):
            was = paths.get(place.name, "")
            now = place.path or "in a folder that the server does not show"
            found[place.name] = f"it was {was} and is {now}" if was else f"it is {now}"
    return found


def _kind(name: str, names: Container[str]) -> str:
    """Return *name* without the number that numbered() put after it."""
    kind, _, number = name.rpartition(" ")
    return kind if number.isdecimal() and kind in names else name


def _is_in(path: str, folder: str) -> bool:
    if not path or not folder:
        return path == folder
    return PurePosixPath(path).is_relative_to(folder)


def numbered(found: Iterable[Place]) -> tuple[Place, ...]:
    """Return the places without repetitions, a number after a name that recurs.

    The names of files of one place are put together.
    """
    files: dict[tuple[str, str], dict[str, None]] = {}
    for place in found:
        files.setdefault((place.name, place.path), {}).update(
            dict.fromkeys(place.files)
        )
    kept: list[Place] = []
    counts: dict[str, int] = {}
    for (name, path), names in files.items():
        count = counts[name] = counts.get(name, 0) + 1
        label = f"{name} {count}" if count > 1 else name
        kept.append(Place(label, path, tuple(names)))
    return tuple(kept)
