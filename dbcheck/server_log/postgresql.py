"""The table of PostgreSQL's messages.

They were read in the source of PostgreSQL 15.18; a message that another version words
otherwise is not recognised.  Messages are English only if lc_messages is; in any other
language none is recognised.

What counts as damage.  The server's promise covers the files that it writes and flushes
itself: pg_control, PG_VERSION, the relation maps, WAL, the commit log and its like, the
files of slots, origins and prepared transactions, relations, postgresql.auto.conf,
which ALTER SYSTEM writes to a new file, flushes and renames (guc.c,
AlterSystemSetConfigFile), and postmaster.pid, which is flushed as the server starts
(miscinit.c, CreateLockFile).  If one of these files has other content after a cut, it
has lost what was on the drive.  postgresql.conf, pg_hba.conf and pg_ident.conf are
written by people and their tools, many of which do not flush.  A zero byte in such a
file, which the lexer shows as an empty token, is lost content, but it may never have
been flushed.  So the message is quoted, and proves nothing.
"""

from __future__ import annotations

from dbcheck.server_log.lines import Shows, Table, make_rows, parse_line

_FILE = r"\"?(?:base|global|pg_[a-z_]+)/[^\"]*\"?"
_NO_FILE = r".*No such file or directory"
_ENDED_BY_SIGNAL = r".{0,200} \(PID \d+\) was terminated by signal "

_LIFE = (
    *make_rows(
        Shows.STARTS, "postmaster.c, PostmasterMain", r"starting PostgreSQL [0-9]"
    ),
    *make_rows(
        Shows.READY,
        "postmaster.c, process_pm_pmsignal and reaper",
        r"database system is ready to accept (?:read-only |read only )?connections",
    ),
    *make_rows(
        Shows.RESTARTS,
        "postmaster.c, PostmasterStateMachine",
        r"all server processes terminated; reinitializing",
    ),
    *make_rows(
        Shows.CUT,
        "xlogrecovery.c, InitWalRecovery and xlog.c, StartupXLOG",
        r"database system was not properly shut down",
        r"database system was interrupted",
    ),
    *make_rows(
        Shows.SHUT,
        "xlog.c, StartupXLOG",
        r"database system was shut down (?:in recovery )?at",
    ),
    *make_rows(
        Shows.ASKED,
        "postmaster.c, pmdie; xlog.c, ShutdownXLOG",
        r"received (?:smart|fast) shutdown request",
        r"shutting down$",
    ),
    *make_rows(
        Shows.STOPPED,
        "miscinit.c, UnlinkLockFiles; postmaster.c, pmdie: it recovers at its next"
        " start, but it ended by itself",
        r"database system is shut down",
        r"received immediate shutdown request",
    ),
    *make_rows(
        Shows.FAILS,
        "postmaster.c, reaper and HandleChildCrash",
        r"(?:aborting startup|shutting down) due to startup process failure",
        r"startup process \(PID \d+\) exited with exit code",
    ),
    *make_rows(
        Shows.INNOCENT,
        "postmaster.c, LogChildExit: a signal that no fault of a program raises",
        r"startup process \(PID \d+\) was terminated by signal (?!4\b|6\b|8\b|11\b)",
    ),
    *make_rows(
        Shows.CRASHED,
        "postmaster.c, LogChildExit",
        rf"{_ENDED_BY_SIGNAL}(?:4|8|11)\b",
    ),
    *make_rows(Shows.ABORTED, "postmaster.c, LogChildExit", rf"{_ENDED_BY_SIGNAL}6\b"),
)

# PostgreSQL refuses a client with FATAL, too; the message repeats what the client sent.
_CLIENTS = (
    *make_rows(
        Shows.ASIDE,
        "postmaster.c, ProcessStartupPacket and canAcceptConnections",
        r"the database system is ",
        r"unsupported frontend protocol",
        r"received unencrypted data after",
        r"no PostgreSQL user name specified in startup packet",
        r"in(?:valid|complete) (?:length of )?startup packet",
        r"sorry, too many clients already",
    ),
    *make_rows(
        Shows.ASIDE,
        "auth.c; miscinit.c, InitializeSessionUserId; postinit.c",
        r".{0,200}authentication failed for user",
        r"no pg_hba\.conf entry",
        r"pg_hba\.conf rejects",
        r"remaining connection slots",
        r"too many connections for",
        r"connection requires a valid client cert",
        r"canceling authentication",
        r"(?:role|database) \"[^\n]*\" (?:does not exist|is not )",
        r"permission denied for database",
        r"must be superuser",
    ),
    *make_rows(
        Shows.ASIDE,
        "postgres.c, ProcessInterrupts",
        r"connection to client lost",
        r"terminating (?:connection|walreceiver|walsender|background worker|autovacuum"
        r"|logical replication)",
    ),
)

_INNOCENT = (
    # An error of the system that any message may end with.
    *make_rows(
        Shows.INNOCENT,
        "errno(3), as %m in any message",
        r".{0,600}: (?:No space left on device|Disk quota exceeded|Permission denied|"
        r"Operation not permitted|Read-only file system|Too many open files|"
        r"Cannot allocate memory|Address already in use|"
        r"Cannot assign requested address)",
    ),
    *make_rows(
        Shows.INNOCENT,
        "miscinit.c, checkDataDir and CreateLockFile",
        r"data directory \"[^\n]*\" (?:does not exist|has wrong ownership|has invalid)",
        r"lock file \"[^\n]*\" already exists",
        r"could not (?:create|open|read|write|remove old) lock file",
        r"pre-existing shared memory block",
        early=True,
    ),
    *make_rows(
        Shows.INNOCENT,
        "guc-file.l, ParseConfigFp and ProcessConfigFile; guc.c",
        r"could not access the server configuration file",
        r"unrecognized configuration parameter \"[^\n]*\" in file",
        early=True,
    ),
    # A client that asks for such a value gets the same message.
    *make_rows(
        Shows.INNOCENT,
        "guc.c, set_config_option",
        r"invalid value for parameter",
        r"unrecognized configuration parameter",
        r"parameter \"[^\n]*\" cannot be changed",
    ),
    *make_rows(
        Shows.ASIDE,
        "guc-file.l, ProcessConfigFile: a LOG before it names each",
        r"configuration file \"[^\n]*\" contains errors$",
        early=True,
    ),
    *make_rows(
        Shows.INNOCENT,
        "hba.c, load_hba; postmaster.c and be-secure-openssl.c",
        r"could not load pg_hba\.conf",
        r"could not load (?:server certificate|private key|root certificate)",
        r"private key file \"[^\n]*\" (?:must be owned|has group)",
        r"could not create any (?:TCP/IP|Unix-domain) sockets",
        r"no socket created for listening",
    ),
    *make_rows(
        Shows.INNOCENT,
        "sysv_shmem.c, CreateSharedMemory; fd.c; fork_process",
        r"could not (?:map|create) (?:anonymous )?shared memory",
        r"could not map",
        r"insufficient file descriptors",
        r"out of memory",
        r"could not load library",
        r"could not access file \"[^/\n]*\": No such",
    ),
    # A control file of version 0, which no server has, is damaged; one of another
    # version, in the rows below, is not.
    *make_rows(
        Shows.DAMAGED,
        "xlog.c, ReadControlFile",
        r"database files are incompatible with server\s[^\n]*initialized with"
        r" PG_CONTROL_VERSION 0[ ,(]",
        r"incorrect checksum in control file",
        early=True,
    ),
    *make_rows(
        Shows.INNOCENT,
        "xlog.c, ReadControlFile",
        r"database files are incompatible with server\s[^\n]*The database cluster was",
        early=True,
    ),
    *make_rows(
        Shows.INNOCENT,
        "miscinit.c, ValidatePgVersion: also of one database, as it is entered",
        r"database files are incompatible with server",
    ),
    *make_rows(
        Shows.INNOCENT,
        "xlog.c, ValidateXLOGDirectoryStructure",
        r"required WAL directory",
    ),
    # Settings that the data do not fit.
    *make_rows(
        Shows.INNOCENT,
        "slot.c, RestoreSlotFromDisk; origin.c; xlogrecovery.c; twophase.c",
        r"(?:logical|physical) replication slot \"[^\n]*\" exists, but wal_level",
        r"too many replication slots active",
        r"could not find free replication state",
        r"maximum number of prepared transactions reached",
        r"recovery aborted because of insufficient parameter settings",
        r"hot standby is not possible because",
        r"WAL was generated with wal_level=minimal",
        r"recovery target",
        r"recovery ended before configured recovery target",
        r"requested recovery stop point is before",
        r"must specify restore_command",
        r"using recovery command file",
        r"requested timeline",
    ),
    # The data are a copy or a backup, and not what a cut left.
    *make_rows(
        Shows.INNOCENT,
        "xlogrecovery.c, read_backup_label",
        r"could not (?:locate required checkpoint record|find redo location referenced"
        r" by checkpoint record)$",
        r"invalid data in file \"(?:backup_label|tablespace_map)\"",
        r"backup_label contains",
        r"WAL ends before end of online backup",
    ),
    *make_rows(
        Shows.OUTSIDE,
        "md.c; xlogutils.c, log_invalid_page; xlog.c",
        r"(?:page \d+ of relation |could not [^\n]*\"?)pg_tblspc/",
        r"[^\n]*\bpg_tblspc/[^\n]*(?:does not exist|is uninitialized|No such file)",
        always=True,
    ),
)

_DAMAGED = (
    *make_rows(
        Shows.DAMAGED,
        "miscinit.c, ValidatePgVersion",
        r"\"/[^\n]*\" is not a valid data directory\s[^\n]*does not contain valid data",
        early=True,
    ),
    *make_rows(
        Shows.DAMAGED,
        "miscinit.c, ValidatePgVersion: of one database, as it is entered",
        r"\"base/[^\n]*\" is not a valid data directory\s[^\n]*does not contain valid",
    ),
    # PG_VERSION is the first file that is missing where a volume is not mounted.
    *make_rows(
        Shows.INNOCENT,
        "miscinit.c, ValidatePgVersion",
        r"\"/[^\n]*\" is not a valid data directory\s[^\n]*is missing",
        early=True,
    ),
    *make_rows(
        Shows.MISSING,
        "miscinit.c, ValidatePgVersion",
        r"\"base/[^\n]*\" is not a valid data directory\s[^\n]*is missing",
    ),
    *make_rows(
        Shows.DAMAGED,
        "miscinit.c, CreateLockFile",
        r"lock file \"postmaster\.pid\" is empty",
        r"bogus data in lock file \"postmaster\.pid\"",
        early=True,
    ),
    *make_rows(
        Shows.DAMAGED,
        "guc-file.l: an empty token is a zero byte; guc.c, AlterSystemSetConfigFile",
        r"syntax error in file \"[^\n]*postgresql\.auto\.conf\" line \d+,"
        r" near token \"[\x00]*\"",
        early=True,
    ),
    *make_rows(
        Shows.INNOCENT,
        "guc-file.l, ParseConfigFp: a file that people write",
        r"syntax error in file",
        early=True,
    ),
    *make_rows(
        Shows.MISSING,
        "postmaster.c, checkControlFile",
        r"could not find the database system",
        early=True,
    ),
    *make_rows(
        Shows.DAMAGED,
        "xlog.c, ReadControlFile and StartupXLOG",
        r"could not read file \"[^\n]*global/pg_control\": read \d+ of",
        early=True,
    ),
    *make_rows(
        Shows.DAMAGED,
        "xlog.c, StartupXLOG and xlog_redo",
        r"control file contains invalid (?:checkpoint location|database cluster state)",
        r"WAL ends before consistent recovery point",
        r"unexpected timeline ID \d+ \(should be",
    ),
    *make_rows(
        Shows.CONTENT,
        "xlogreader.c, report_invalid_record; xlogrecovery.c, XLogPageRead",
        r"invalid (?:record (?:length|offset)|contrecord length|resource manager ID|"
        r"magic number [0-9A-F]|info bits|block_id)",
        r"record with (?:incorrect prev-link|invalid length)",
        r"incorrect resource manager data checksum",
        r"there is no contrecord flag",
        r"contrecord is requested by",
        r"unexpected pageaddr",
        r"out-of-(?:sequence timeline ID|order block_id)",
        r"could not read from (?:log|WAL) segment [^\n]*: read \d+ of",
        r"WAL file is from different database system",
    ),
    # Without a message of xlogreader.c before it, the segment of WAL is missing.
    *make_rows(
        Shows.MISSING,
        "xlogrecovery.c, InitWalRecovery",
        r"could not locate a valid checkpoint record",
        r"could not find redo location [0-9A-F]+/",
    ),
    *make_rows(
        Shows.DAMAGED,
        "xlogrecovery.c, InitWalRecovery and PerformWalRecovery",
        r"invalid (?:next transaction ID|redo (?:record )?in (?:shutdown )?checkpoint)",
        r"mismatching overwritten LSN",
        r"inconsistent page found",
        r"unexpected (?:previous )?timeline ID \d+ [^\n]*in checkpoint record",
    ),
    *make_rows(
        Shows.MISSING,
        "xlogutils.c, XLogCheckInvalidPages",
        r"WAL contains references to invalid pages",
    ),
    *make_rows(
        Shows.DAMAGED,
        "bufmgr.c, ReadBuffer_common and ExtendBufferedRelShared; bufpage.c; md.c",
        r"invalid page in block \d+",
        r"unexpected data beyond EOF",
        r"page verification failed",
        r"corrupted (?:page pointers|line pointer|item pointer|item lengths)",
        r"could not read blocks? [^\n]*: read only \d+ of",
    ),
    *make_rows(
        Shows.DAMAGED,
        "relmapper.c, read_relmap_file; relcache.c; nbtpage.c, _bt_checkpage",
        r"relation mapping file \"[^\n]*\" contains",
        r"could not open critical system index",
        r"index \"[^\n]*\" (?:contains (?:unexpected zero|corrupted) page|is not a)",
    ),
    *make_rows(
        Shows.MISSING,
        "slru.c, SlruReportIOError",
        rf"could not access status of transaction \d+\s{_NO_FILE}",
    ),
    *make_rows(
        Shows.DAMAGED,
        "slru.c, SlruReportIOError; multixact.c",
        r"could not access status of transaction \d+\s[^\n]*read too few bytes",
        r"MultiXact(?:Id)? \d+ (?:has|does no|has not)",
    ),
    *make_rows(
        Shows.DAMAGED,
        "slot.c, RestoreSlotFromDisk; origin.c, StartupReplicationOrigin; snapbuild.c",
        r"replication slot file \"[^\n]*\" has (?:wrong magic|corrupted length)",
        r"checksum mismatch for (?:replication slot|snapbuild state) file",
        r"replication (?:slot )?checkpoint has wrong (?:magic|checksum)",
        r"snapbuild state file \"[^\n]*\" has wrong magic",
    ),
    *make_rows(
        Shows.DAMAGED,
        "twophase.c, ReadTwoPhaseFile and ProcessTwoPhaseBuffer",
        r"incorrect (?:size of|alignment of CRC offset for) file \"pg_twophase/",
        r"invalid (?:magic number|size) stored in file \"pg_twophase/",
        r"calculated CRC checksum does not match value stored in file",
        r"corrupted two-phase state",
        r"could not recover two-phase state file",
    ),
    *make_rows(
        Shows.DAMAGED,
        "timeline.c, readTimeLineHistory",
        r"(?:syntax error|invalid data) in history file",
    ),
    *make_rows(
        Shows.MISSING,
        "any: a file of the data directory that is not there (ENOENT)",
        rf"could not (?:open|access|read|stat) file {_FILE}: No such file",
    ),
    *make_rows(
        Shows.DAMAGED,
        "any: a file of the data directory that is too short, or whose medium fails",
        rf"could not read file {_FILE}: read \d+ of",
        rf"could not (?:open|read|access) (?:file|block \d+ in file) {_FILE}:"
        r" (?:Input/output error|Structure needs cleaning|Bad message)",
    ),
    *make_rows(
        Shows.DAMAGED,
        "heapam.c, nbtxlog.c, xlogutils.c and the like: a record that does not fit its"
        " page",
        r"(?:btree|heap|heap2|gin|gist|hash|spg|brin|seq|clog|multixact|relmap)_redo:",
        r"(?:_bt_restore_page|failed to (?:add (?:tuple|new item)|locate backup"
        r" block))",
        r"(?:invalid (?:lp|max offset number)|wrong tuple length|total tuple length"
        r" mismatch)$",
    ),
)

TABLE = Table(_LIFE, _CLIENTS, _INNOCENT, _DAMAGED)

# The last message that a start writes to standard error (syslogger.c, SysLogger_Start),
# and its hint.  From PostgreSQL 13 on the message of Shows.STARTS comes after it
# (postmaster.c).
_LAST_EARLY_MESSAGE = "redirecting log output to logging collector process"
_HINT_OF_LAST_EARLY_MESSAGE = "Future log output will appear in directory"


def merge_early_log(collected: str, early: str) -> str:
    """Return the logging collector's log with what was logged before it, in order.

    early: what the starts of that time wrote to standard error.

    A start that reached the collector is in both logs, so the starts that failed
    between two such starts are put between them.  Times do not give the order: until a
    start has read its settings, its lines have GMT.  If the logs have different numbers
    of starts, the order is not known, and *early* is left out.
    """
    if not early:
        return collected
    before: list[list[str]] = [[]]
    after: list[list[str]] = [[]]
    for raw in early.split("\n"):
        line = parse_line(raw)
        if line and line.message.startswith(_LAST_EARLY_MESSAGE):
            before.append([])
        elif not (line and line.message.startswith(_HINT_OF_LAST_EARLY_MESSAGE)):
            before[-1].append(raw)
    for raw in collected.split("\n"):
        line = parse_line(raw)
        entry = TABLE.find(line.message) if line else None
        if entry and entry.shows is Shows.STARTS:
            after.append([])
        after[-1].append(raw)
    if len(before) != len(after):
        return collected
    parts = (part for pair in zip(after, before, strict=True) for part in pair)
    return "".join(f"{raw}\n" for part in parts for raw in part if raw)
