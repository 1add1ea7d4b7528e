"""Where MySQL and MariaDB keep what a commit depends on, from their own settings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from dbcheck.core.places import DATA, Place

_OFF = frozenset({"off", "0", "false", ""})
# [path]name:size, then :autoextend and :max:size (MySQL 8.4 manual, 17.6.3.1 The System
# Tablespace)
_DATA_FILE = re.compile(r"(.+?):[0-9]+[KMG]?(?::.*)?", re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(r"[0-9A-Za-z_]")
_DIRECTORY = re.compile(r"\bDATA DIRECTORY *= *'((?:[^'\\]|\\.|'')*)'", re.IGNORECASE)
_TABLESPACE = re.compile(r"\bTABLESPACE *=? *`((?:[^`]|``)*)`", re.IGNORECASE)
_KNOWN_TABLESPACES = frozenset({"innodb_file_per_table", "innodb_system"})


def places(
    variables: Mapping[str, str],
    database: str,
    *,
    statement: str,
    undo_files: Sequence[str] | None,
) -> tuple[Place, ...]:
    """Return the directories, the data directory first.

    variables:  as SHOW VARIABLES gives them.
    database:   name of the table's database; "" if it does not exist yet.
    statement:  that created the table, "" if it does not exist yet.
    undo_files: of undo tablespaces; None if the account may not see them.
    MySQL 8.4 manual, 17.14 InnoDB Startup Options and System Variables; MariaDB
    documentation, InnoDB System Variables: relative paths are relative to the data
    directory.
    """
    data = variables.get("datadir", "")
    named: list[tuple[str, str]] = [(DATA, "")]
    named.append(("redo log", _redo(variables)))
    named += (("undo", path) for path in _undo(variables, undo_files))
    if variables.get("innodb_doublewrite", "").lower() not in _OFF and (
        where := _doublewrite(variables)
    ):
        named.append(("doublewrite", where))
    named += (("system tablespace", path) for path in _system(variables))
    if variables.get("log_bin", "").lower() not in _OFF:
        basename = variables.get("log_bin_basename", "")
        named.append(("binary log", posixpath.dirname(basename)))
    if database:
        named.append(("database", _filename(database, variables)))
    named += (("table", path) for path in _directories(statement, database, variables))
    found = [
        Place(name, posixpath.normpath(posixpath.join(data, path)))
        for name, path in named
    ]
    found += (Place(f"tablespace {name}", "") for name in _tablespaces(statement))
    return tuple(numbered(found))


def numbered(found: Iterable[Place]) -> list[Place]:
    """Return the places without repetitions, a number after a name that recurs."""
    kept: list[Place] = []
    counts: dict[str, int] = {}
    for place in dict.fromkeys(found):
        count = counts[place.name] = counts.get(place.name, 0) + 1
        name = f"{place.name} {count}" if count > 1 else place.name
        kept.append(Place(name, place.path))
    return kept


def _redo(variables: Mapping[str, str]) -> str:
    """Return the redo log's folder; MySQL 8.0.30 and later have one of their own."""
    home = variables.get("innodb_log_group_home_dir", "")
    if "innodb_redo_log_capacity" in variables:
        return posixpath.join(home, "#innodb_redo")
    return home


def _undo(
    variables: Mapping[str, str], undo_files: Sequence[str] | None
) -> Iterable[str]:
    """Yield the folders of undo tablespaces.

    One that CREATE UNDO TABLESPACE put elsewhere is in a folder that the server
    knows: MySQL 8.4 manual, 17.6.3.4 Undo Tablespaces.
    """
    yield variables.get("innodb_undo_directory", "")
    if undo_files is None:
        for folder in variables.get("innodb_directories", "").split(";"):
            if folder.strip():
                yield folder.strip()
    else:
        yield from map(posixpath.dirname, undo_files)


def _doublewrite(variables: Mapping[str, str]) -> str | None:
    """Return the folder of doublewrite files, None if there are none.

    MariaDB, and MySQL before 8.0.20, have the buffer in the system tablespace.
    """
    folder = variables.get("innodb_doublewrite_dir")
    return folder or (variables.get("innodb_data_home_dir") if folder == "" else None)


def _system(variables: Mapping[str, str]) -> Iterable[str]:
    home = variables.get("innodb_data_home_dir", "")
    for text in variables.get("innodb_data_file_path", "").split(";"):
        if file := _DATA_FILE.fullmatch(text.strip()):
            yield posixpath.dirname(posixpath.join(home, file[1]))


def _filename(database: str, variables: Mapping[str, str]) -> str:
    """Return the folder of a database (MySQL 8.4 manual, 11.2.4)."""
    if variables.get("lower_case_table_names") == "1":
        database = database.lower()
    return "".join(
        each if _PLAIN.fullmatch(each) else f"@{ord(each):04x}" for each in database
    )


def _directories(
    statement: str, database: str, variables: Mapping[str, str]
) -> Iterable[str]:
    """Yield the folders that the table's files were put in by DATA DIRECTORY."""
    for text in _DIRECTORY.findall(statement):
        folder = re.sub(r"\\(.)|'(')", r"\1\2", text)
        yield posixpath.join(folder, _filename(database, variables))


def _tablespaces(statement: str) -> list[str]:
    """Return the general tablespaces that the table is in."""
    names = (text.replace("``", "`") for text in _TABLESPACE.findall(statement))
    return [name for name in names if name not in _KNOWN_TABLESPACES]
