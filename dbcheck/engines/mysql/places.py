"""Where MySQL and MariaDB keep what a commit depends on, from their own settings."""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from dbcheck.audit.mysql import BINLOG_STORAGE, ROCKSDB, TABLES
from dbcheck.model.places import (
    BINARY_LOG,
    DATA,
    REDO_LOG,
    ROCKSDB_LOG,
    TABLE,
    Place,
    numbered,
)

_OFF = frozenset({"off", "0", "false", ""})
# [path]name:size, then :autoextend and :max:size (MySQL 8.4 manual, 17.6.3.1 The System
# Tablespace)
_DATA_FILE = re.compile(r"(.+?):[0-9]+[KMG]?(?::.*)?", re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(r"[0-9A-Za-z_]")
_DIRECTORY = re.compile(r"\bDATA DIRECTORY *= *'((?:[^'\\]|\\.|'')*)'", re.IGNORECASE)
_TABLESPACE = re.compile(r"\bTABLESPACE *=? *`((?:[^`]|``)*)`", re.IGNORECASE)
# Files that a commit depends on, by the place whose folder they are in: MySQL 8.4
# manual, 17.6.5 Redo Log, 17.6.3.4 Undo Tablespaces, 17.6.4 Doublewrite Buffer and
# 16.1 Data Dictionary Schema; MariaDB documentation, InnoDB Redo Log and Aria.
_EVERY_FILE = ("*",)
_REDO_FILES = ("ib_logfile*", "#ib_redo*")
_UNDO_FILES = ("undo*", "*.ibu")
_DOUBLEWRITE_FILES = ("*.dblwr", "*.bdblwr")
_DATA_FILES = ("mysql.ibd", "aria_log*", "tc.log")
_KNOWN_TABLESPACES = frozenset({"innodb_file_per_table", "innodb_system"})


def places(
    variables: Mapping[str, str],
    database: str,
    *,
    statement: str,
    undo_files: Sequence[str] | None,
) -> tuple[Place, ...]:
    """Return the directories and what counts in each, the data directory first.

    variables:  as SHOW VARIABLES gives them, and the engine of the tables if it is not
                InnoDB.
    database:   name of the table's database; "" if it does not exist yet.
    statement:  that created the table, "" if it does not exist yet.
    undo_files: of undo tablespaces; None if the account may not see them.
    MySQL 8.4 manual, 17.14 InnoDB Startup Options and System Variables; MariaDB
    documentation, InnoDB System Variables: relative paths are relative to the data
    directory.
    """
    data = variables.get("datadir", "")
    in_rocksdb = variables.get(TABLES) == ROCKSDB
    # Commits to tables of MyRocks leave InnoDB's log alone.
    redo_log = "InnoDB redo log" if in_rocksdb else REDO_LOG
    named = [(DATA, "", _DATA_FILES), (redo_log, _redo(variables), _REDO_FILES)]
    named += (("undo", path, _UNDO_FILES) for path in _undo(variables, undo_files))
    where = _doublewrite(variables)
    if where is not None:
        named.append(("doublewrite", where, _DOUBLEWRITE_FILES))
    named += (_in_folder("system tablespace", path) for path in _system(variables))
    in_innodb = variables.get(BINLOG_STORAGE, "").lower() == "innodb"
    if variables.get("log_bin", "").lower() not in _OFF and not in_innodb:
        basename = variables.get("log_bin_basename", "")
        named.append(_in_folder(BINARY_LOG, basename, ".*"))
    if in_rocksdb:
        named += _rocksdb(variables)
    if database:
        named.append(("database", _filename(database, variables), _EVERY_FILE))
    directories = _directories(statement, database, variables)
    named += ((TABLE, path, _EVERY_FILE) for path in directories)
    found = [
        Place(name, posixpath.normpath(posixpath.join(data, path)), files)
        for name, path, files in named
    ]
    found += (Place(f"tablespace {name}", "") for name in _tablespaces(statement))
    return numbered(found)


def _in_folder(name: str, file: str, suffix: str = "") -> tuple[str, str, tuple[str]]:
    """Return the place of a file, and of those whose names continue with *suffix*."""
    folder, base = posixpath.split(file)
    return name, folder, (glob.escape(base) + suffix,)


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
    if folder is None or variables.get("innodb_doublewrite", "").lower() in _OFF:
        return None
    return folder or variables.get("innodb_data_home_dir", "")


def _rocksdb(
    variables: Mapping[str, str],
) -> Iterable[tuple[str, str, tuple[str, ...]]]:
    """Yield MyRocks' folder, and that of its log.

    MariaDB documentation, MyRocks System Variables, rocksdb_datadir and
    rocksdb_wal_dir.
    """
    data = variables.get("rocksdb_datadir", "")
    yield "RocksDB", data, _EVERY_FILE
    yield ROCKSDB_LOG, variables.get("rocksdb_wal_dir", "") or data, ("*.log",)


def _system(variables: Mapping[str, str]) -> Iterable[str]:
    """Yield the files of the system tablespace."""
    home = variables.get("innodb_data_home_dir", "")
    for text in variables.get("innodb_data_file_path", "").split(";"):
        if file := _DATA_FILE.fullmatch(text.strip()):
            yield posixpath.join(home, file[1])


def folder_of(database: str) -> str:
    """Return how InnoDB writes the name of a database, and how its folder is called.

    MySQL 8.4 manual, 11.2.4 Mapping of Identifiers to File Names.
    """
    return "".join(
        each if _PLAIN.fullmatch(each) else f"@{ord(each):04x}" for each in database
    )


def _filename(database: str, variables: Mapping[str, str]) -> str:
    """Return the folder of a database, whose case the server may have changed."""
    if variables.get("lower_case_table_names") == "1":
        database = database.lower()
    return folder_of(database)


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
