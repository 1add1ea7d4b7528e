"""The storage engines of dbcheck's tables, and where the files of a commit lie.

No engine of MySQL, MariaDB or Percona Server but InnoDB and MyRocks has durable commits
(MySQL 8.4 manual, 18 Alternative Storage Engines).  A URL chooses MyRocks:
mysql://db1/dbcheck?storage_engine=rocksdb.
"""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.audit.mysql import BINLOG_STORAGE, INNODB, ROCKSDB, TABLES
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.host import JOURNAL, STDERR
from dbcheck.model.places import (
    BINARY_LOG,
    DATA,
    REDO_LOG,
    ROCKSDB_LOG,
    TABLE,
    Place,
    number_places,
)
from dbcheck.model.server import LogPosition
from dbcheck.server_log import Product

OPTION = "storage_engine"  # of a URL
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


@dataclass(frozen=True, slots=True)
class StorageEngine:
    """One of them.

    name:       as the server writes it.
    shown:      as people write it.
    flush_log:  the variable by which a commit in such a table waits for its log.
    durable:    values of it under which a commit is flushed before it is acknowledged.
    set_flush_log: statement that sets it.
    identities: statement that reads a table's identity, by product.
    positions:  status variables of its log: the newest byte, and where recovery would
                begin to replay; one pair for each product that shows them.
    purges:     what removes old versions of rows.
    no_rewrite: why no task rewrites a table, "" if one can.
    """

    name: str
    shown: str
    flush_log: str
    durable: frozenset[int]
    set_flush_log: str
    identities: Mapping[Product, str]
    positions: tuple[tuple[str, str], ...]
    purges: str
    no_rewrite: str = ""

    def log_position(self, status: Mapping[str, str]) -> LogPosition | None:
        """Return the position of its log, None if no status variable shows it."""
        for written, checkpoint in self.positions:
            if written in status and checkpoint in status:
                return LogPosition(int(status[written]), int(status[checkpoint]))
        return None


ENGINES: Mapping[str, StorageEngine] = {
    "innodb": StorageEngine(
        name=INNODB,
        shown="InnoDB",
        flush_log="innodb_flush_log_at_trx_commit",
        durable=frozenset({1, 3}),  # 3 is MariaDB's: as 1, and more
        set_flush_log="set_flush_log",
        identities={
            Product.MYSQL: "table_identity",
            Product.MARIADB: "table_identity_mariadb",
        },
        positions=(
            ("innodb_redo_log_current_lsn", "innodb_redo_log_checkpoint_lsn"),  # MySQL
            ("innodb_lsn_current", "innodb_lsn_last_checkpoint"),  # MariaDB
        ),
        purges="InnoDB purges by itself",
    ),
    "rocksdb": StorageEngine(
        name=ROCKSDB,
        shown="MyRocks",
        flush_log="rocksdb_flush_log_at_trx_commit",
        durable=frozenset({1}),
        set_flush_log="set_flush_log_rocksdb",
        identities=dict.fromkeys(
            (Product.MYSQL, Product.MARIADB), "table_identity_rocksdb"
        ),
        positions=(),
        purges="MyRocks compacts by itself",
        no_rewrite="MyRocks copies the rows, as many as it answers (MariaDB 10.11)",
    ),
}


def choose_storage_engine(options: Mapping[str, object]) -> StorageEngine:
    """Return the storage engine that a URL's options choose, InnoDB if none.

    Raise UsageError for one that dbcheck cannot test.
    """
    name = str(options.get(OPTION, "innodb")).lower()
    found = ENGINES.get("rocksdb" if name == "myrocks" else name)
    if found is None:
        raise UsageError(
            f"dbcheck makes no tables in the storage engine {name!r}",
            id=ErrorId.STORAGE_ENGINE_NOT_SUPPORTED,
            hint=f"Write {OPTION}=innodb or {OPTION}=rocksdb in the target's URL: no"
            " other one has durable commits.",
        )
    return found


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
    named += (_file_place("system tablespace", path) for path in _system(variables))
    in_innodb = variables.get(BINLOG_STORAGE, "").lower() == "innodb"
    if variables.get("log_bin", "").lower() not in _OFF and not in_innodb:
        basename = variables.get("log_bin_basename", "")
        named.append(_file_place(BINARY_LOG, basename, ".*"))
    if in_rocksdb:
        named += _rocksdb(variables)
    if database:
        named.append(("database", _filename(database, variables), _EVERY_FILE))
    directories = _parse_directories(statement, database, variables)
    named += ((TABLE, path, _EVERY_FILE) for path in directories)
    found = [
        Place(name, posixpath.normpath(posixpath.join(data, path)), files)
        for name, path, files in named
    ]
    found += (Place(f"tablespace {name}", "") for name in _parse_tablespaces(statement))
    return number_places(found)


def _file_place(name: str, file: str, suffix: str = "") -> tuple[str, str, tuple[str]]:
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


def name_database_folder(database: str) -> str:
    """Return InnoDB's spelling of a database's name, and the name of its folder.

    MySQL 8.4 manual, 11.2.4 Mapping of Identifiers to File Names.
    """
    return "".join(
        each if _PLAIN.fullmatch(each) else f"@{ord(each):04x}" for each in database
    )


def _filename(database: str, variables: Mapping[str, str]) -> str:
    """Return the folder of a database, whose case the server may have changed."""
    if variables.get("lower_case_table_names") == "1":
        database = database.lower()
    return name_database_folder(database)


def _parse_directories(
    statement: str, database: str, variables: Mapping[str, str]
) -> Iterable[str]:
    """Yield the folders that the table's files were put in by DATA DIRECTORY."""
    for text in _DIRECTORY.findall(statement):
        folder = re.sub(r"\\(.)|'(')", r"\1\2", text)
        yield posixpath.join(folder, _filename(database, variables))


def _parse_tablespaces(statement: str) -> list[str]:
    """Return the general tablespaces that the table is in."""
    names = (text.replace("``", "`") for text in _TABLESPACE.findall(statement))
    return [name for name in names if name not in _KNOWN_TABLESPACES]


def innodb_log(variables: Mapping[str, str]) -> str:
    """Return MySQL's or MariaDB's log; JOURNAL or STDERR and the data directory.

    log_error is relative to the data directory; "" (MariaDB) and "stderr" (MySQL) are
    standard error.  With a sink of its own, MySQL logs by way of syslog instead (MySQL
    Reference Manual, Error Logging to the System Log).
    """
    if "log_error" not in variables:
        return ""
    value = variables["log_error"]
    sinks = variables.get("log_error_services", "log_sink_internal")
    if "log_sink_syseventlog" in sinks and "log_sink_internal" not in sinks:
        return JOURNAL + variables.get("datadir", "")
    if value in ("", "stderr"):
        return STDERR + variables.get("datadir", "")
    return posixpath.join(variables.get("datadir", ""), value)
