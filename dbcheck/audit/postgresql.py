"""Rules for PostgreSQL."""

from __future__ import annotations

from dbcheck.audit.rule import Harm, Rule
from dbcheck.audit.storage import NO, SYNCFS_REPORTS, WHOLE_PAGES, YES
from dbcheck.model.audited import Severity
from dbcheck.model.depth import Depth
from dbcheck.server_log import Product

_ON = frozenset({"on"})
_OFF = frozenset({"off"})
_WAL = "PostgreSQL 18 manual, 19.5 Write Ahead Log"
_DEVELOPER = "PostgreSQL 18 manual, 19.17 Developer Options"
# Names of facts that are no settings, see engines.postgresql.audited.
ARCHIVER, UNLOGGED = "archive command", "unlogged tables"
COPIES = "copies without a flush"

RULES = (
    Rule(
        id="pg-fsync",
        fact="fsync",
        safe=_ON,
        why="With fsync off nothing is flushed: a power cut may lose every commit and"
        " corrupt the cluster.",
        fix="alter system set fsync = on; select pg_reload_conf();",
        source=f"{_WAL}, fsync",
        severity=Severity.ERROR,
        harm=Harm(Depth.OS, everything=True),
    ),
    Rule(
        id="pg-synchronous-commit",
        fact="synchronous_commit",
        # remote_write waits for the local flush too, and only then for a standby.
        safe=frozenset({"on", "local", "remote_write", "remote_apply"}),
        why="With synchronous_commit off a commit is acknowledged before its log record"
        " is flushed, up to three times wal_writer_delay later.",
        fix="set synchronous_commit = on where it was set to off: for the server (alter"
        " system), the role (alter role) or the database (alter database)",
        source=f"{_WAL}, synchronous_commit, and 28.4 Asynchronous Commit",
        severity=Severity.ERROR,
        harm=Harm(Depth.PROCESS, end=True),
    ),
    Rule(
        id="pg-full-page-writes",
        fact="full_page_writes",
        safe=_ON,
        why="With full_page_writes off a page that the cut tore in two cannot be"
        " repaired in recovery.",
        fix="alter system set full_page_writes = on; select pg_reload_conf(); -- unless"
        " the storage writes whole pages or none",
        source=f"{_WAL}, full_page_writes",
        severity=Severity.ERROR,
        harm=Harm(Depth.OS, tears=True),
        unless=((WHOLE_PAGES, YES),),
    ),
    Rule(
        id="pg-data-sync-retry",
        fact="data_sync_retry",
        safe=_OFF,
        why="With data_sync_retry on a failed flush is tried again although the kernel"
        " may have dropped the data, so a checkpoint can count what is not on the"
        " drive.",
        fix="alter system set data_sync_retry = off, then restart the server",
        source="PostgreSQL 18 manual, 19.14 Error Handling, data_sync_retry",
        severity=Severity.ERROR,
        harm=Harm(),
        no_receipt="it takes a drive that reports errors of writing",
    ),
    Rule(
        id="pg-zero-damaged-pages",
        fact="zero_damaged_pages",
        safe=_OFF,
        why="With zero_damaged_pages on a damaged page is read as empty, so its rows"
        " vanish without an error.",
        fix="set zero_damaged_pages = off where it was set to on",
        source=f"{_DEVELOPER}, zero_damaged_pages",
        severity=Severity.ERROR,
        harm=Harm(hides=True),
        no_receipt="it loses what another fault has damaged",
    ),
    Rule(
        id="pg-ignore-checksum-failure",
        fact="ignore_checksum_failure",
        safe=_OFF,
        why="With ignore_checksum_failure on a damaged page passes for a good one.",
        fix="set ignore_checksum_failure = off where it was set to on",
        source=f"{_DEVELOPER}, ignore_checksum_failure",
        severity=Severity.WARNING,
        harm=Harm(hides=True),
    ),
    Rule(
        id="pg-ignore-invalid-pages",
        fact="ignore_invalid_pages",
        safe=_OFF,
        why="With ignore_invalid_pages on recovery skips log records whose pages are"
        " missing, and loses them.",
        fix="alter system set ignore_invalid_pages = off, then restart the server",
        source=f"{_DEVELOPER}, ignore_invalid_pages",
        severity=Severity.ERROR,
        harm=Harm(),
        no_receipt="it loses what another fault has damaged",
    ),
    Rule(
        id="pg-sync-method-macos",
        fact="wal_sync_method",
        safe=frozenset({"fsync_writethrough"}),
        why="On macOS a sync other than fsync_writethrough does not empty the drive's"
        " cache, so a power cut loses commits.",
        fix="alter system set wal_sync_method = fsync_writethrough; select"
        " pg_reload_conf();",
        source="PostgreSQL 18 manual, 28.1 Reliability; fsync(2) of macOS, F_FULLFSYNC",
        severity=Severity.ERROR,
        only=(("platform", frozenset({"macos"})),),
        no_receipt="it takes macOS",
    ),
    Rule(
        id="pg-sync-method-windows",
        fact="wal_sync_method",
        safe=frozenset({"fsync", "fsync_writethrough"}),
        why="On Windows open_datasync leaves the WAL in the drive's cache unless write"
        " caching is disabled for that drive.",
        fix="alter system set wal_sync_method = fsync; select pg_reload_conf(); -- or"
        " disable the drive's write cache in the Device Manager",
        source="PostgreSQL 18 manual, 28.1 Reliability",
        severity=Severity.ERROR,
        only=(("platform", frozenset({"windows"})),),
        no_receipt="it takes Windows",
    ),
    Rule(
        id="pg-standby-not-awaited",
        fact="synchronous_commit",
        safe=frozenset({"on", "remote_apply"}),
        why="synchronous_standby_names is set, yet with synchronous_commit off, local"
        " or remote_write a commit does not wait until a standby has flushed it, so it"
        " may be missing after a failover.",
        fix="set synchronous_commit = on, unless only this server's own drive counts",
        source=f"{_WAL}, synchronous_commit",
        severity=Severity.WARNING,
        unless=(("synchronous_standby_names", frozenset({""})),),
    ),
    Rule(
        id="pg-wal-level-minimal",
        fact="wal_level",
        unsafe=frozenset({"minimal"}),
        why="With wal_level minimal the WAL is not enough for archiving, standbys or"
        " point-in-time recovery, so what a drive loses has no other copy; data that"
        " are loaded into a new table are flushed at commit and not logged.",
        fix="alter system set wal_level = replica, then restart the server",
        source=f"{_WAL}, wal_level",
        severity=Severity.NOTE,
    ),
    Rule(
        id="pg-data-checksums",
        fact="data_checksums",
        safe=_ON,
        why="Without data checksums the server cannot notice that a page was torn, or"
        " rotted on the drive.",
        fix="stop the server, run pg_checksums --enable, and start it again",
        source="PostgreSQL 18 manual, 28.2 Data Checksums",
        severity=Severity.NOTE,
    ),
    Rule(
        id="pg-wal-recycle",
        fact="wal_recycle",
        safe=_OFF,
        why="On a filesystem that copies on write, a recycled WAL file is slower than a"
        " new one, and its rename is one more step that must be durable.",
        fix="alter system set wal_recycle = off; select pg_reload_conf();",
        source=f"{_WAL}, wal_recycle",
        severity=Severity.NOTE,
        only=((WHOLE_PAGES, YES),),
    ),
    Rule(
        id="pg-archive-command",
        fact=ARCHIVER,
        unsafe=frozenset({COPIES}),
        why="The archive command copies files without flushing them, and the server"
        " recycles a WAL file once it returns: a power cut of the archive's host then"
        " leaves a gap in the archive.",
        fix="have archive_command flush what it wrote (sync FILE), or use an archiver"
        " that does, such as archive_library = basic_archive",
        source="PostgreSQL 18 manual, 25.3.1 Setting Up WAL Archiving, and F.5"
        " basic_archive",
        severity=Severity.WARNING,
        absent_is_safe=True,
    ),
    Rule(
        id="pg-sync-of-recovery",
        fact="recovery_init_sync_method",
        safe=frozenset({"fsync"}),
        why="Before Linux 5.8 syncfs() does not report errors of writing, so recovery"
        " may build on data that did not reach the drive.",
        fix="alter system set recovery_init_sync_method = fsync; select"
        " pg_reload_conf();",
        source="PostgreSQL 18 manual, 19.14 Error Handling, recovery_init_sync_method",
        severity=Severity.WARNING,
        only=((SYNCFS_REPORTS, NO),),
        product=Product.POSTGRESQL,
        since=(14,),
        absent_is_safe=True,
    ),
    Rule(
        id="pg-unlogged-tables",
        fact=UNLOGGED,
        safe=frozenset({"0"}),
        why="Recovery after a crash empties unlogged tables, whatever was committed to"
        " them.",
        fix="alter table NAME set logged; for each of them (\\dt+ shows which)",
        source="PostgreSQL 18 manual, CREATE TABLE, UNLOGGED",
        severity=Severity.WARNING,
        absent_is_safe=True,
    ),
)
