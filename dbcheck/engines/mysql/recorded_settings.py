"""The settings of MySQL and MariaDB that each run records."""

from __future__ import annotations

from dbcheck.audit.mysql import BINLOG_STORAGE
from dbcheck.audit.mysql import TABLES as TABLES_IN
from dbcheck.audit.rules import facts_of
from dbcheck.engines.mysql.link import FAMILY
from dbcheck.engines.mysql.replicating import SEMI_SYNC
from dbcheck.model.managed import SERVICE
from dbcheck.model.promised import IGNORE_MAJORITY

# All that decides whether, and how fast, a commit is on the drive: what the audit's
# rules judge comes first.
SETTINGS = (
    *facts_of(FAMILY),
    "version_compile_os",
    "innodb_use_native_aio",
    "innodb_use_fdatasync",
    "innodb_read_only",
    "innodb_fast_shutdown",
    TABLES_IN,
    SERVICE,
    "rocksdb_datadir",
    "rocksdb_wal_dir",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
    "innodb_log_file_buffering",
    "innodb_log_file_write_through",
    "innodb_data_file_buffering",
    "innodb_data_file_write_through",
    "innodb_log_writer_threads",
    # Where all of that lies.
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "log_bin_basename",
    "sql_log_bin",
    BINLOG_STORAGE,
    "binlog_format",
    "binlog_group_commit_sync_delay",
    "binlog_commit_wait_count",
    "binlog_order_commits",
    "read_only",
    "super_read_only",
    # Which replicas a commit waits for, and what they keep of it.
    *SEMI_SYNC,
    "relay_log_recovery",
    "sync_relay_log",
    *IGNORE_MAJORITY,
    "group_replication_consistency",
    "group_replication_single_primary_mode",
)
