"""Rules for MySQL and MariaDB; a comment marks what only one of them has."""

from __future__ import annotations

from dbcheck.audit.rule import Harm, Rule
from dbcheck.core.depth import Depth

_ON = frozenset({"on", "1"})
_OFF = frozenset({"off", "0"})
_INNODB = "MySQL 8.4 manual, 17.14 InnoDB Startup Options and System Variables"

RULES = (
    Rule(
        id="my-autocommit",
        fact="autocommit",
        safe=_ON,
        why="With autocommit off an INSERT is acknowledged inside an open transaction"
        " that a cut rolls back; set autocommit = 1.",
        source="MySQL 8.4 manual, 17.7.2.2 autocommit, Commit, and Rollback",
        harm=Harm(Depth.PROCESS),
    ),
    Rule(
        id="my-flush-log-at-trx-commit",
        fact="innodb_flush_log_at_trx_commit",
        safe=frozenset({"1", "3"}),  # 3 is MariaDB's: as 1, with a flush at prepare
        why="With innodb_flush_log_at_trx_commit 0 or 2 the redo log is flushed about"
        " once a second, so a power cut loses the commits of that second; set it to 1.",
        source=f"{_INNODB}, innodb_flush_log_at_trx_commit; MariaDB documentation,"
        " InnoDB System Variables",
        harm=Harm(Depth.PROCESS, end=True),
        harms={
            "2": Harm(Depth.OS, end=True)
        },  # 2 writes at each commit, and flushes later
    ),
    Rule(
        id="my-flush-method",
        fact="innodb_flush_method",
        safe=frozenset(
            {"fsync", "o_direct", "o_dsync", "async_unbuffered", "unbuffered", "normal"}
        ),
        why="Other methods than fsync, O_DIRECT and O_DSYNC leave flushes out, and rely"
        " on a drive cache that survives the cut; set innodb_flush_method = O_DIRECT.",
        source=f"{_INNODB}, innodb_flush_method (O_DIRECT_NO_FSYNC, littlesync,"
        " nosync)",
        harm=Harm(Depth.DRIVE),
        harms={
            "nosync": Harm(Depth.OS, everything=True),
            "littlesync": Harm(Depth.OS, everything=True),
        },
        absent_is_safe=True,  # removed in favour of settings that all flush
    ),
    Rule(
        id="my-doublewrite",
        fact="innodb_doublewrite",
        safe=frozenset({"on", "1", "detect_and_recover", "fast"}),
        why="Without the doublewrite buffer a page that the cut tore in two cannot be"
        " repaired in recovery; set innodb_doublewrite = ON unless the storage writes"
        " whole pages or none.",
        source=f"{_INNODB}, innodb_doublewrite; MariaDB documentation, InnoDB"
        " Doublewrite Buffer",
        harm=Harm(Depth.OS, tears=True),
    ),
    Rule(
        id="my-redo-log",
        fact="innodb_redo_log_enabled",
        safe=_ON,
        why="With the redo log disabled a cut loses commits and may make the server"
        " unusable; run ALTER INSTANCE ENABLE INNODB REDO_LOG.",
        source="MySQL 8.4 manual, 17.6.5 Redo Log, Disabling Redo Logging",
        harm=Harm(Depth.PROCESS, everything=True),
        absent_is_safe=True,  # MariaDB, and MySQL before 8.0.21, cannot disable it
    ),
    Rule(
        id="my-sync-binlog",
        fact="sync_binlog",
        safe=frozenset({"1"}),
        why="With the binary log on, recovery rolls back what the binary log lacks, and"
        " sync_binlog other than 1 lets a cut shorten it; set sync_binlog = 1.",
        source="MySQL 8.4 manual, 19.1.6.4 Binary Logging Options and Variables,"
        " sync_binlog",
        harm=Harm(Depth.OS, end=True),
        unless=("log_bin", _OFF),
    ),
    Rule(
        id="my-binlog-error-action",
        fact="binlog_error_action",
        safe=frozenset({"abort_server"}),
        why="With binlog_error_action = IGNORE_ERROR a failed write of the binary log"
        " is passed over, so log and tables disagree after recovery; set it to"
        " ABORT_SERVER.",
        source="MySQL 8.4 manual, 19.1.6.4 Binary Logging Options and Variables,"
        " binlog_error_action",
        harm=Harm(),
        unless=("log_bin", _OFF),
        absent_is_safe=True,  # MySQL only
    ),
    Rule(
        id="my-force-recovery",
        fact="innodb_force_recovery",
        safe=frozenset({"0"}),
        why="With innodb_force_recovery above 0 recovery leaves work out, so what is"
        " read afterwards proves nothing; set innodb_force_recovery = 0.",
        source="MySQL 8.4 manual, 17.20.3 Forcing InnoDB Recovery",
        harm=Harm(hides=True),
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
        why="Without page checksums a damaged page passes for a good one; set"
        " innodb_checksum_algorithm = crc32.",
        source=f"{_INNODB}, innodb_checksum_algorithm",
        harm=Harm(),
        absent_is_safe=True,
    ),
    Rule(
        id="my-log-checksums",
        fact="innodb_log_checksums",
        safe=_ON,
        why="Without checksums in the redo log recovery takes a torn end of it for a"
        " good one; set innodb_log_checksums = ON.",
        source=f"{_INNODB}, innodb_log_checksums",
        harm=Harm(),
        absent_is_safe=True,  # MariaDB always has them
    ),
    Rule(
        id="my-galera",
        fact="wsrep_on",
        safe=_OFF,
        why="A Galera node may fetch lost rows from its peers when it rejoins, which"
        " hides what its own drive lost; test it alone, with wsrep_on = OFF.",
        source="MariaDB documentation, Galera Cluster System Variables, wsrep_on"
        " and wsrep_provider",
        harm=Harm(hides=True),
        unless=("wsrep_provider", frozenset({"none", ""})),  # replicates nothing
        absent_is_safe=True,
    ),
    Rule(
        id="my-group-replication",
        fact="group_replication_group_name",
        safe=frozenset({""}),
        why="A member of a group may fetch lost rows from its peers when it rejoins,"
        " which hides what its own drive lost; test it outside of the group.",
        source="MySQL 8.4 manual, 20.9 Group Replication Variables,"
        " group_replication_group_name and group_replication_start_on_boot",
        harm=Harm(hides=True),
        unless=("group_replication_start_on_boot", _OFF),  # it does not rejoin
        absent_is_safe=True,
    ),
)
