"""The directories that a server's acknowledged commits depend on.

In a container, beside a second server or after a move, the path that a server names may
hold nothing, another server's data, or an old copy of its own.  Its drives then show
nothing of the server's, so nothing may be measured there: find_sign_of_other_data()
compares.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
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


def list_places_outside_data(places: Sequence[Place]) -> list[Place]:
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


def list_moved_places(
    before: Sequence[Place], after: Sequence[Place]
) -> dict[str, str]:
    """Return the places that are not where they were, by name, and where they are.

    A table that was yet to be created was expected in the folder of its tablespace; it
    lies there or below.  So does a place that was not known at all before.  Several
    places of one kind may be numbered in another order than before.
    """
    paths = {place.name: place.path for place in before}
    alike: dict[str, list[str]] = {}
    for name, path in paths.items():
        alike.setdefault(_strip_number(name, paths), []).append(path)
    found = {}
    for place in after:
        known = list(paths.values())
        if place.name in paths:
            known = alike[_strip_number(place.name, paths)]
        if not any(_is_in(place.path, path) for path in known):
            was = paths.get(place.name, "")
            now = place.path or "in a folder that the server does not show"
            found[place.name] = f"it was {was} and is {now}" if was else f"it is {now}"
    return found


def _strip_number(name: str, names: Container[str]) -> str:
    """Return *name* without the number that number_places() put after it."""
    kind, _, number = name.rpartition(" ")
    return kind if number.isdecimal() and kind in names else name


def _is_in(path: str, folder: str) -> bool:
    if not path or not folder:
        return path == folder
    return PurePosixPath(path).is_relative_to(folder)


def number_places(found: Iterable[Place]) -> tuple[Place, ...]:
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


# PostgreSQL takes the time for postmaster.pid (MyStartTime) before it sets up its
# memory, and that which SQL shows (PgStartTime) after it (postmaster.c).
_EARLIER_MAX_S, _LATER_MAX_S = 5, 300


@dataclass(frozen=True, slots=True)
class DataNames:
    """Marks in a directory that show whose data it holds.

    empty:             nothing is in it.
    system_identifier: PostgreSQL's, of global/pg_control, in decimal.
    started_s:         when the server on it started, of PostgreSQL's postmaster.pid, in
                       seconds since the epoch.
    is_standby:        the PostgreSQL on it is in recovery, by standby.signal.
    server_uuid:       MySQL's, of auto.cnf.
    marks:             the marks that dbcheck left in tables of MariaDB.
    unreadable:        name of one of these -> why it is "", None or not whole.
    """

    empty: bool
    system_identifier: str
    started_s: int | None
    server_uuid: str
    marks: frozenset[str]
    unreadable: Mapping[str, str]
    is_standby: bool = False


@dataclass(frozen=True, slots=True)
class FoundData:
    """A directory at the path that the server names: its own data, or another's.

    process: the first process of the server in a container that has it at that path;
             0 if the host itself has it there.
    hostname: of the container or the host, "" if unknown.
    """

    process: int
    names: DataNames
    hostname: str = ""


def find_sign_of_other_data(
    identity: Mapping[str, str],
    started_us: int,
    found: DataNames,
    *,
    is_standby: bool = False,
) -> str:
    """Return the sign that a directory is not the server's, "" if there is none.

    The others are what the server reports over SQL, as model.server.ServerFacts.
    """
    if text := find_sign_of_other_names(identity, found):
        return text
    if "data_directory" in identity:  # as PostgreSQL calls it
        if found.is_standby != is_standby:
            return f"it is that of a {'standby' if found.is_standby else 'primary'}"
        return _find_sign_of_other_start(started_us, found)
    return ""


def find_sign_of_other_names(identity: Mapping[str, str], found: DataNames) -> str:
    """Return as find_sign_of_other_data(), but of what stays over a restart alone."""
    if found.empty:
        return "it is empty"
    for name in ("system_identifier", "server_uuid"):
        wanted = identity.get(name, "")
        seen = getattr(found, name)
        if wanted and not seen:
            return found.unreadable.get(name, f"it has no {name}")
        if wanted.casefold() != seen.casefold() and wanted:
            return f"its {name} is {seen}, and the server's is {wanted}"
    return ""


def find_missing_mark(mark: str, found: DataNames) -> str:
    """Return the sign that a directory lacks its server's *mark*, "" if it has it."""
    if mark in found.marks:
        return ""
    why = found.unreadable.get("marks", "")
    return why or "what the server just wrote into its data directory is not in it"


def _find_sign_of_other_start(started_us: int, found: DataNames) -> str:
    if found.started_s is None:
        why = found.unreadable.get("started_s", "its postmaster.pid has no start time")
        return f"no server runs on it: {why}"
    later_s = started_us // 1_000_000 - found.started_s
    if -_EARLIER_MAX_S <= later_s <= _LATER_MAX_S:
        return ""
    return (
        "a different server runs, or ran, on it: by its postmaster.pid it "
        f"started {abs(later_s):,} s {'before' if later_s > 0 else 'after'} this one"
    )
