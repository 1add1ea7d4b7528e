"""Rules for MySQL and MariaDB; a comment marks what only one of them has.

A rule with harm=Harm() has values that can spoil the rows of a run, but no cut loses a
commit by them alone.  A rule without *harm* says nothing about the rows of a run.
"""

from __future__ import annotations

from dbcheck.audit.rule import Harm, Rule
from dbcheck.audit.storage import (
    NO,
    SHARED_DRIVE,
    VOLATILE_DOUBLEWRITE,
    WHOLE_PAGES,
    YES,
)
from dbcheck.model.audited import Severity
from dbcheck.model.depth import Depth
from dbcheck.model.managed import AURORA, SERVICE
from dbcheck.server_log import Product

_ON = frozenset({"on", "1"})
_OFF = frozenset({"off", "0"})
_DURABLE = frozenset({"1", "3"})  # 3 is MariaDB's: as 1, with a flush at prepare
_INNODB = "MySQL 8.4 manual, 17.14 InnoDB Startup Options and System Variables"
_BINLOG = "MySQL 8.4 manual, 19.1.6.4 Binary Logging Options and Variables"
# What Aurora shows and ignores: its storage takes log records, and no pages
# (Amazon Aurora User Guide, MySQL parameters that don't apply to Aurora MySQL).
_NOT_IN_AURORA = (SERVICE, frozenset({AURORA.lower()}))
_SEMI_SYNC = "MySQL 8.4 manual, 19.4.10 Semisynchronous Replication"
_ARIA = "MariaDB documentation, Aria System Variables"
_FIX_RECOVERY_MODE = (
    "rocksdb_wal_recovery_mode = 2 in the configuration file, then restart the server"
)
_MYROCKS = (
    "MariaDB documentation, MyRocks System Variables; Percona Server 8.0"
    " documentation, MyRocks server variables"
)
# The storage engines that dbcheck's tables can have, as servers write them.
INNODB, ROCKSDB = "InnoDB", "ROCKSDB"
# The setting under which MyRocks writes the rows of a session past its log.
BULK_LOAD = "rocksdb_bulk_load"
# The setting that says which storage engine keeps the binary log (MariaDB 12.3 on).
BINLOG_STORAGE = "binlog_storage_engine"
# Facts that are derived, and no server variables: engines.mysql.engine and
# engines.mysql.facts set them.
TABLES = "engine of dbcheck's tables"
UNSAFE_TABLES = "tables of engines without durable commits"

RULES = (
    Rule(
        id="my-autocommit",
        fact="autocommit",
        safe=_ON,
        why="With autocommit off an INSERT is acknowledged inside an open transaction"
        " that a cut rolls back.",
        fix="set global autocommit = 1; and in the configuration file",
        source="MySQL 8.4 manual, 17.7.2.2 autocommit, Commit, and Rollback",
        severity=Severity.WARNING,
        harm=Harm(Depth.PROCESS),
    ),
    Rule(
        id="my-flush-log-at-trx-commit",
        fact="innodb_flush_log_at_trx_commit",
        safe=_DURABLE,
        why="With innodb_flush_log_at_trx_commit 0 or 2 the redo log is flushed about"
        " once a second, so a power cut loses the commits of that second, also on a"
        " Galera node.",
        fix="set global innodb_flush_log_at_trx_commit = 1; and in the configuration"
        " file",
        source=f"{_INNODB}, innodb_flush_log_at_trx_commit; MariaDB documentation,"
        " InnoDB System Variables; Jepsen, MariaDB Galera Cluster 12.1.2 (2026-03)",
        severity=Severity.ERROR,
        harm=Harm(Depth.PROCESS, end=True),
        # 2 writes at each commit, and flushes later.
        harms={"2": Harm(Depth.OS, end=True)},
        tables=INNODB,
    ),
    Rule(
        id="my-flush-log-at-timeout",
        fact="innodb_flush_log_at_timeout",
        safe=frozenset({"1"}),
        why="The redo log is flushed only every so many seconds, so a power cut loses"
        " the commits of all of them.",
        fix="set global innodb_flush_log_at_trx_commit = 1; the timeout then has no"
        " effect on commits",
        source=f"{_INNODB}, innodb_flush_log_at_timeout",
        severity=Severity.WARNING,
        unless=(("innodb_flush_log_at_trx_commit", _DURABLE),),
        absent_is_safe=True,
    ),
    Rule(
        id="my-global-flush-log",
        fact="innodb_use_global_flush_log_at_trx_commit",
        safe=_ON,
        why="With this off an account with SUPER can set"
        " innodb_flush_log_at_trx_commit for its own session, where no audit sees it.",
        fix="set global innodb_use_global_flush_log_at_trx_commit = on;",
        source="Percona Server 8.0 documentation, XtraDB performance improvements",
        severity=Severity.NOTE,
        absent_is_safe=True,  # Percona Server only
    ),
    Rule(
        id="my-flush-method",
        fact="innodb_flush_method",
        safe=frozenset(
            {"fsync", "o_direct", "o_dsync", "async_unbuffered", "unbuffered", "normal"}
        ),
        why="Other methods than fsync, O_DIRECT and O_DSYNC leave flushes out, and rely"
        " on a drive cache that survives the cut.",
        fix="innodb_flush_method = O_DIRECT in the configuration file, then restart the"
        " server",
        source=f"{_INNODB}, innodb_flush_method (O_DIRECT_NO_FSYNC, littlesync,"
        " nosync)",
        severity=Severity.ERROR,
        harm=Harm(Depth.DRIVE),
        harms={
            "nosync": Harm(Depth.OS, everything=True),
            "littlesync": Harm(Depth.OS, everything=True),
        },
        absent_is_safe=True,  # removed in favour of settings that all flush
        unless=(_NOT_IN_AURORA,),
    ),
    Rule(
        id="my-redo-on-another-drive",
        fact="innodb_flush_method",
        unsafe=frozenset({"o_direct_no_fsync"}),
        why="The redo log is on another drive than the data: its flush at a checkpoint"
        " does not reach the data's drive, so a cut can keep the checkpoint and lose"
        " pages from before it.",
        fix="innodb_flush_method = O_DIRECT in the configuration file, then restart the"
        " server",
        source=f"{_INNODB}, innodb_flush_method, O_DIRECT_NO_FSYNC; MySQL bug 94912",
        severity=Severity.ERROR,
        only=((SHARED_DRIVE, NO),),
        absent_is_safe=True,
        unless=(_NOT_IN_AURORA,),
    ),
    Rule(
        id="my-doublewrite",
        fact="innodb_doublewrite",
        safe=frozenset({"on", "1", "detect_and_recover", "fast"}),
        why="Without the doublewrite buffer a page that the cut tore in two cannot be"
        " repaired in recovery; DETECT_ONLY shows that it is torn, and no more.",
        fix="innodb_doublewrite = ON in the configuration file, then restart the"
        " server, unless the storage writes whole pages or none",
        source=f"{_INNODB}, innodb_doublewrite; MariaDB documentation, InnoDB"
        " Doublewrite Buffer",
        severity=Severity.ERROR,
        harm=Harm(Depth.OS, tears=True),
        unless=((WHOLE_PAGES, YES), _NOT_IN_AURORA),
    ),
    Rule(
        id="my-doublewrite-not-flushed",
        fact="innodb_flush_method",
        unsafe=frozenset({"o_direct", "o_direct_no_fsync"}),
        why="MySQL does not flush the doublewrite file under O_DIRECT, so a drive with"
        " a volatile cache can lose a page and its copy in one power cut; the server"
        " then ends itself in every start.",
        fix="innodb_flush_method = fsync in the configuration file, then restart the"
        " server; or switch the drive's write cache off",
        source="MySQL 8.4 and 9.7, storage/innobase/buf/buf0dblwr.cc,"
        " Double_write::is_fsync_required; docs/findings.md, with a recorded case",
        severity=Severity.WARNING,
        only=((VOLATILE_DOUBLEWRITE, YES),),
        product=Product.MYSQL,
        since=(8, 4),
        absent_is_safe=True,
        unless=(_NOT_IN_AURORA,),
    ),
    Rule(
        id="my-redo-log",
        fact="innodb_redo_log_enabled",
        safe=_ON,
        why="With the redo log disabled a cut loses commits and may make the server"
        " unusable.",
        fix="alter instance enable innodb redo_log;",
        source="MySQL 8.4 manual, 17.6.5 Redo Log, Disabling Redo Logging",
        severity=Severity.ERROR,
        harm=Harm(Depth.PROCESS, everything=True),
        absent_is_safe=True,  # MariaDB, and MySQL before 8.0.21, cannot disable it
        no_receipt="a lab sets variables, and this is a statement",
    ),
    Rule(
        id="my-sync-binlog",
        fact="sync_binlog",
        safe=frozenset({"1"}),
        why="With the binary log on, recovery rolls back what the binary log lacks, and"
        " sync_binlog other than 1 lets a cut shorten it.",
        fix="set global sync_binlog = 1; and in the configuration file",
        source=f"{_BINLOG}, sync_binlog; MySQL bug 75519; MariaDB documentation,"
        " InnoDB-Based Binary Log: it is ignored there",
        severity=Severity.ERROR,
        harm=Harm(Depth.OS, end=True),
        unless=(("log_bin", _OFF), (BINLOG_STORAGE, frozenset({INNODB.lower()}))),
    ),
    Rule(
        id="my-binlog-error-action",
        fact="binlog_error_action",
        safe=frozenset({"abort_server"}),
        why="With binlog_error_action = IGNORE_ERROR a failed write of the binary log"
        " is passed over, so log and tables disagree after recovery.",
        fix="set global binlog_error_action = ABORT_SERVER; and in the configuration"
        " file",
        source=f"{_BINLOG}, binlog_error_action",
        severity=Severity.WARNING,
        harm=Harm(),
        unless=(("log_bin", _OFF),),
        absent_is_safe=True,  # MySQL only
    ),
    Rule(
        id="my-force-recovery",
        fact="innodb_force_recovery",
        safe=frozenset({"0"}),
        why="With innodb_force_recovery above 0 recovery leaves work out, so what is"
        " read afterwards proves nothing.",
        fix="innodb_force_recovery = 0 in the configuration file, then restart the"
        " server",
        source="MySQL 8.4 manual, 17.20.3 Forcing InnoDB Recovery",
        severity=Severity.ERROR,
        harm=Harm(hides=True),
        no_receipt="it hides what is lost",
    ),
    Rule(
        id="my-checksum-algorithm",
        fact="innodb_checksum_algorithm",
        safe=frozenset(
            {
                "crc32",
                "strict_crc32",
                "full_crc32",
                "strict_full_crc32",
                "innodb",
                "strict_innodb",
            }
        ),
        why="Without page checksums a damaged page passes for a good one.",
        fix="set global innodb_checksum_algorithm = crc32; and in the configuration"
        " file",
        source=f"{_INNODB}, innodb_checksum_algorithm",
        severity=Severity.WARNING,
        harm=Harm(),
        absent_is_safe=True,
        unless=(_NOT_IN_AURORA,),
    ),
    Rule(
        id="my-log-checksums",
        fact="innodb_log_checksums",
        safe=_ON,
        why="Without checksums in the redo log recovery takes a torn end of it for a"
        " good one.",
        fix="set global innodb_log_checksums = ON; and in the configuration file",
        source=f"{_INNODB}, innodb_log_checksums",
        severity=Severity.ERROR,
        harm=Harm(),
        absent_is_safe=True,  # MariaDB always has them
        no_receipt="it takes a release that still has the setting",
    ),
    Rule(
        id="my-galera",
        fact="wsrep_on",
        safe=_OFF,
        why="A Galera node may fetch lost rows from its peers when it rejoins, which"
        " hides what its own drive lost.",
        fix="test the whole cluster (dbcheck_topology: galera), or the node alone,"
        " with wsrep_on = OFF",
        source="MariaDB documentation, Galera Cluster System Variables, wsrep_on"
        " and wsrep_provider",
        severity=Severity.NOTE,
        harm=Harm(hides=True, peers=True),
        # Without a provider it replicates nothing.
        unless=(("wsrep_provider", frozenset({"none", ""})),),
        absent_is_safe=True,
    ),
    Rule(
        id="my-group-replication",
        fact="group_replication_group_name",
        safe=frozenset({""}),
        why="A member of a group may fetch lost rows from its peers when it rejoins,"
        " which hides what its own drive lost.",
        fix="test the whole group (dbcheck_topology: group-replication), or the member"
        " outside of it",
        source="MySQL 8.4 manual, 20.9 Group Replication Variables,"
        " group_replication_group_name and group_replication_start_on_boot",
        severity=Severity.NOTE,
        harm=Harm(hides=True, peers=True),
        # If it does not rejoin at boot, AfterRecord.refill shows what it took anyway.
        unless=(("group_replication_start_on_boot", _OFF),),
        absent_is_safe=True,
    ),
    Rule(
        id="my-default-engine",
        fact="default_storage_engine",
        safe=frozenset({"innodb", "rocksdb"}),
        why="A table that is created without ENGINE = ... gets this storage engine,"
        " which has no durable commits.",
        fix="set global default_storage_engine = InnoDB; and in the configuration file",
        source="MySQL 8.4 manual, 7.1.8 Server System Variables,"
        " default_storage_engine; 18 Alternative Storage Engines",
        severity=Severity.WARNING,
        absent_is_safe=True,
    ),
    Rule(
        id="my-tables-not-durable",
        fact=UNSAFE_TABLES,
        safe=frozenset({"none"}),
        why="Tables of MyISAM, Aria, MEMORY and the like lose rows in a crash, whatever"
        " was acknowledged: their changes are not part of a durable transaction.",
        fix="alter table NAME engine = InnoDB; for each of them",
        source="MySQL 8.4 manual, 18 Alternative Storage Engines; MariaDB"
        " documentation, Aria Storage Engine",
        severity=Severity.WARNING,
        absent_is_safe=True,
    ),
    *(
        Rule(
            id=f"my-semi-sync-{word}-wait",
            fact=f"rpl_semi_sync_{word}_wait_point",
            unsafe=frozenset({"after_commit"}),
            why="With AFTER_COMMIT other clients read a commit before a replica has it,"
            " so a failover takes back what they have seen.",
            fix=f"set global rpl_semi_sync_{word}_wait_point = AFTER_SYNC; and in the"
            " configuration file",
            source=f"{_SEMI_SYNC}; MariaDB documentation, Semisynchronous Replication",
            severity=Severity.WARNING,
            only=((f"rpl_semi_sync_{word}_enabled", _ON),),
            absent_is_safe=True,
        )
        for word in ("source", "master")
    ),
    *(
        Rule(
            id=f"my-semi-sync-{word}-timeout",
            fact=f"rpl_semi_sync_{word}_enabled",
            safe=_OFF,
            why="If no replica answers within"
            f" rpl_semi_sync_{word}_timeout (10 s by default), the server goes on"
            " without replicas and tells no client: such commits are missing after a"
            " failover.",
            fix=f"raise rpl_semi_sync_{word}_timeout to what clients can wait for, and"
            " watch Rpl_semi_sync_*_no_tx",
            source=f"{_SEMI_SYNC}; MariaDB documentation, Semisynchronous Replication",
            severity=Severity.NOTE,
            absent_is_safe=True,
        )
        for word in ("source", "master")
    ),
    Rule(
        id="my-rocksdb-flush-log",
        fact="rocksdb_flush_log_at_trx_commit",
        safe=frozenset({"1"}),
        why="With this setting 0 or 2 MyRocks flushes its log about once a second, so"
        " any crash loses the commits of that second in its tables; and a log that ends"
        " in the midst of a record keeps the server from starting, with"
        " rocksdb_wal_recovery_mode = 1.",
        fix="set global rocksdb_flush_log_at_trx_commit = 1; and in the configuration"
        " file",
        source=f"{_MYROCKS}, rocksdb_flush_log_at_trx_commit; RocksDB wiki, WAL"
        " Recovery Modes",
        severity=Severity.ERROR,
        # Both: in MariaDB 10.11 also 2 leaves the log's end in the server's memory.
        harm=Harm(Depth.PROCESS, end=True),
        tables=ROCKSDB,
        absent_is_safe=True,
    ),
    Rule(
        id="my-rocksdb-disable-wal",
        fact="rocksdb_write_disable_wal",
        safe=_OFF,
        why="With this on MyRocks writes no log: any crash loses all that it has not"
        " written to its data files yet.",
        fix="set global rocksdb_write_disable_wal = off; and in the configuration file",
        source=f"{_MYROCKS}, rocksdb_write_disable_wal; RocksDB wiki, Write Ahead Log",
        severity=Severity.ERROR,
        harm=Harm(Depth.PROCESS, everything=True),
        tables=ROCKSDB,
        absent_is_safe=True,
        no_receipt="MyRocks of MariaDB 10.11 refuses every commit under it",
    ),
    Rule(
        id="my-rocksdb-bulk-load",
        fact=BULK_LOAD,
        safe=_OFF,
        why="With this on MyRocks collects the inserts of each session that begins in a"
        " data file of its own, past the log: until that is full, or the session ends,"
        " no other session sees them, and any crash loses them.",
        fix="set global rocksdb_bulk_load = off; and in the configuration file; then"
        " end the sessions that began under it",
        source=f"{_MYROCKS}, rocksdb_bulk_load; MariaDB 10.11,"
        " storage/rocksdb/ha_rocksdb.cc, Rdb_transaction::finish_bulk_load",
        severity=Severity.ERROR,
        harm=Harm(Depth.PROCESS),
        tables=ROCKSDB,
        absent_is_safe=True,
        no_receipt="no row is seen before its session ends, so no run begins under it",
    ),
    Rule(
        id="my-rocksdb-commit-in-the-middle",
        fact="rocksdb_commit_in_the_middle",
        safe=_OFF,
        why="With this on MyRocks commits a larger transaction in parts, each of"
        " rocksdb_bulk_load_size rows (1000 by default) and past the binary log, so a"
        " crash or a rollback leaves a part of it.",
        fix="set global rocksdb_commit_in_the_middle = off; and in the configuration"
        " file; then end the sessions that began under it",
        source=f"{_MYROCKS}, rocksdb_commit_in_the_middle; MariaDB 10.11,"
        " storage/rocksdb/ha_rocksdb.cc, Rdb_transaction::flush_batch",
        severity=Severity.WARNING,
        harm=Harm(),
        tables=ROCKSDB,
        absent_is_safe=True,
    ),
    Rule(
        id="my-rocksdb-wal-recovery-mode",
        fact="rocksdb_wal_recovery_mode",
        unsafe=frozenset({"3"}),
        why="With this 3 recovery leaves damaged records of the log out without an"
        " error, so commits vanish from between others.",
        fix=_FIX_RECOVERY_MODE,
        source=f"{_MYROCKS}, rocksdb_wal_recovery_mode; RocksDB wiki, WAL Recovery"
        " Modes",
        severity=Severity.WARNING,
        harm=Harm(),
        tables=ROCKSDB,
        absent_is_safe=True,
    ),
    Rule(
        id="my-rocksdb-wal-torn",
        fact="rocksdb_wal_recovery_mode",
        unsafe=frozenset({"0", "1"}),
        why="With this 0 or 1 MyRocks may not start after a power cut in the midst of a"
        " write to its log: it takes the torn record for corruption. No acknowledged"
        " commit is in that record.",
        fix=_FIX_RECOVERY_MODE,
        source="docs/findings.md, with a recorded case; RocksDB wiki, WAL Recovery"
        " Modes; facebook/rocksdb issue 1351: mode 1 is not crash safe",
        severity=Severity.WARNING,
        harm=Harm(),
        tables=ROCKSDB,
        absent_is_safe=True,
    ),
    Rule(
        id="my-aurora-data-loss",
        fact="innodb_trx_commit_allow_data_loss",
        safe=_OFF,
        why="With this on Aurora lets innodb_flush_log_at_trx_commit be other than 1,"
        " under which a commit is acknowledged before the storage has it.",
        fix="innodb_trx_commit_allow_data_loss = 0 and innodb_flush_log_at_trx_commit ="
        " 1 in the cluster's parameter group",
        source="Amazon Aurora User Guide, Best practices with Aurora MySQL, Configuring"
        " how frequently the log buffer is flushed",
        severity=Severity.WARNING,
        absent_is_safe=True,  # Aurora only
    ),
    Rule(
        id="my-aria-recover",
        fact="aria_recover_options",
        unsafe=frozenset({"", "off"}),
        why="With aria_recover_options off a damaged Aria table, which system tables"
        " are, is not repaired when it is opened.",
        fix="set global aria_recover_options = 'BACKUP,QUICK'; and in the configuration"
        " file",
        source=f"{_ARIA}, aria_recover_options",
        severity=Severity.WARNING,
        absent_is_safe=True,  # MariaDB only
    ),
    Rule(
        id="my-aria-log-folder",
        fact="aria_sync_log_dir",
        unsafe=frozenset({"never"}),
        why="With aria_sync_log_dir = NEVER a power cut may take a new file of Aria's"
        " log away, and what was written to it.",
        fix="set global aria_sync_log_dir = NEWFILE; and in the configuration file",
        source=f"{_ARIA}, aria_sync_log_dir",
        severity=Severity.WARNING,
        absent_is_safe=True,  # MariaDB only
    ),
    Rule(
        id="my-sync-method-macos",
        fact="platform",
        unsafe=frozenset({"macos"}),
        why="On macOS a plain fsync() leaves data in the drive's cache; InnoDB asks for"
        " F_FULLFSYNC and falls back to fsync() where the filesystem refuses it.",
        fix="do not judge a server by a copy that runs on macOS",
        source="fsync(2) of macOS; MySQL, storage/innobase/os/os0file.cc,"
        " os_file_fsync_posix",
        severity=Severity.NOTE,
        absent_is_safe=True,
    ),
)
