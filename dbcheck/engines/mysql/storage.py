"""The storage engines that dbcheck's tables can be made in: InnoDB and MyRocks.

No other engine of MySQL, MariaDB or Percona Server has durable commits (MySQL 8.4
manual, 18 Alternative Storage Engines).  A URL chooses MyRocks:
mysql://db1/dbcheck?storage_engine=rocksdb.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.audit.mysql import INNODB, ROCKSDB
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.server import LogPosition

OPTION = "storage_engine"  # of a URL


@dataclass(frozen=True, slots=True)
class StorageEngine:
    """One of them.

    name:       as the server writes it.
    shown:      as people write it.
    flush_log:  the variable by which a commit in such a table waits for its log.
    durable:    values of it under which a commit is flushed before it is acknowledged.
    durability, set_flush_log: statements that read it and set it.
    identities: statement that reads a table's identity, by product.
    positions:  status variables of its log: the newest byte, and where recovery would
                begin to replay; one pair for each product that shows them.
    purges:     what removes old versions of rows.
    no_rewrite: why no chore rewrites a table, "" if one can.
    """

    name: str
    shown: str
    flush_log: str
    durable: frozenset[int]
    durability: str
    set_flush_log: str
    identities: Mapping[str, str]
    positions: tuple[tuple[str, str], ...]
    purges: str
    no_rewrite: str = ""

    def log_position(self, status: Mapping[str, str]) -> LogPosition | None:
        """Return where its log stands, None if no status variable shows it."""
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
        durability="durability",
        set_flush_log="set_flush_log",
        identities={"MySQL": "table_identity", "MariaDB": "table_identity_mariadb"},
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
        durability="durability_rocksdb",
        set_flush_log="set_flush_log_rocksdb",
        identities=dict.fromkeys(("MySQL", "MariaDB"), "table_identity_rocksdb"),
        positions=(),
        purges="MyRocks compacts by itself",
        no_rewrite="MyRocks copies the rows, as many as it answers (MariaDB 10.11)",
    ),
}


def storage_of(options: Mapping[str, object]) -> StorageEngine:
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
