"""The table of MySQL's messages, by code; InnoDB's that share a code, by their text.

They were read in the list of errors that the server 9.7.4 has built in, which is made
from share/messages_to_error_log.txt, and in what the server logged of damaged files
(docs/file-damage.md).  The codes are the same in all versions that have them; the error
log is English whatever lc_messages is.

The server itself writes and syncs auto.cnf and mysqld-auto.cnf (mysqld.cc,
flush_auto_options; persisted_variable.cc, flush_to_file), and people are asked not to
edit them.  Certificates and keys may be a person's work, so nothing is concluded from
them.  InnoDB finds a tablespace by its number; if one is missing, only the data
dictionary's, 4294967294, is known to have been in the data directory.
"""

from __future__ import annotations

from dbcheck.server_log.lines import Entry, Shows, Table, make_rows

_IN_DATA = r"['\"`]?\./"
_ABSOLUTE = r"['\"`]?/"


def make_rows_of_codes(
    shows: Shows,
    source: str,
    *numbers: int,
    early: bool = False,
    always: bool = False,
) -> tuple[Entry, ...]:
    """Return a row for each of several codes, of one source, with the same meaning."""
    return tuple(
        Entry("", shows, source, f"MY-{number:06}", early=early, always=always)
        for number in numbers
    )


_LIFE = (
    *make_rows_of_codes(Shows.BEGINS, "ER_SRV_START, from 8.4 on", 15015),
    *make_rows_of_codes(Shows.STARTS, "ER_STARTING_AS", 10116),
    *make_rows_of_codes(
        Shows.READY, "ER_SERVER_STARTUP_MSG; not the X plugin's 11323", 10931
    ),
    *make_rows_of_codes(
        Shows.CUT,
        "ER_XA_STARTING_RECOVERY; log0recv.cc, recv_init_crash_recovery, as a note",
        *(10229, 12551),
    ),
    *make_rows_of_codes(
        Shows.ASKED,
        "ER_SERVER_SHUTDOWN_INFO; log0log.cc, a shutdown with innodb_fast_shutdown = 2",
        *(13172, 13078),
    ),
    *make_rows_of_codes(
        Shows.STOPPED,
        "ER_SERVER_SHUTDOWN_COMPLETE; srv0start.cc, srv_shutdown",
        *(10910, 12980),
    ),
    *make_rows_of_codes(
        Shows.FAILS,
        "ER_ABORTING; fil0fil.cc and os0file.cc, before exit(3)",
        *(10119, 12154, 12981),
    ),
    *make_rows(
        Shows.CRASHED,
        "signal_handler.cc, print_fatal_signal",
        r"(?:mysqld|mariadbd) got signal (?:4|8|11)\b",
        r"(?:mysqld|mariadbd) got exception",
    ),
    *make_rows(
        Shows.ABORTED, "signal_handler.cc", r"(?:mysqld|mariadbd) got signal 6\b"
    ),
    *make_rows(
        Shows.INNOCENT,
        "signal_handler.cc: a signal that no fault of a program raises",
        r"(?:mysqld|mariadbd) got signal",
    ),
)

# Messages that follow from another line, or do not end a start.
_ASIDE = (
    *make_rows_of_codes(
        Shows.ASIDE,
        "ER_DD_INIT_FAILED; ER_CANT_INIT_TC_LOG; ER_DD_SE_INIT_FAILED;"
        " ER_CANT_CREATE_UUID; ER_TC_RECOVERY_FAILED_THESE_ARE_YOUR_OPTIONS",
        *(10020, 10041, 10076, 10334, 10525),
    ),
    *make_rows_of_codes(
        Shows.ASIDE,
        "srv0start.cc and log0recv.cc: advice",
        *(12522, 12549, 12964),
    ),
    *make_rows_of_codes(
        Shows.ASIDE,
        "os0file.cc, os_file_handle_error: error 2, and a later line names the file",
        *(12593, 12594),
    ),
    *make_rows(
        Shows.ASIDE,
        "srv0start.cc; os0file.cc",
        r"Plugin initialization aborted (?:at [^\n]{0,200} )?with error"
        r" (?!Data structure corruption)",
        r"Operating system error number 2 in a file operation",
        r"Error number 2 means",
    ),
    # The server starts without these files; without certificates TLS is off.
    *make_rows_of_codes(
        Shows.ASIDE,
        "buf0dump.cc; ER_SSL_LIBRARY_ERROR and the like",
        *(11947, 59, 10068, 10069, 13595, 15009, 15010, 10284),
    ),
    # MyISAM does not survive a crash, and does not promise to.
    *make_rows(
        Shows.ASIDE,
        "storage/myisam",
        r"[^\n]{0,400}\.MY[ID]'",
        r"[^\n]{0,400}marked as crashed",
    ),
)

_INNOCENT = (
    *make_rows_of_codes(
        Shows.INNOCENT,
        "ER_CONN_TCP_* and ER_CONN_UNIX_*: a port, a socket",
        *(10257, 10258, 10259, 10261, 10262, 10267, 10268, 10270, 10131),
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "ER_OOM and the like: memory",
        *(1037, 1041, 10134, 10089, 10090, 10111, 10744, 10934, 10935, 11041, 12565),
        *(12956, 12954),
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "ER_DISK_FULL_NOWAIT and the like: space",
        *(13132, 13133),
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "ER_CANT_CREATE_PID_FILE; ER_USER_REQUIRES_ROOT and the like: permissions",
        *(10092, 10122, 10123, 10124, 10187),
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "settings, and a data directory of another version",
        *(10158, 10338, 12526, 12529, 12546, 12561, 13171, 13871, 13872, 13873),
        *(12972, 12973, 12974, 12975, 13109, 13598),
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "an encryption key that is not there",
        *(12098, 12137, 12497, 12657, 12668, 12671, 12890, 12900, 12908, 12916, 13278),
        *(13279, 13280, 13281, 13287, 13288, 13362, 13675),
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "ER_XA_RECOVER_EXPLANATION: also where the setting log_bin was changed",
        10231,
    ),
    *make_rows_of_codes(
        Shows.INNOCENT,
        "ER_CREATING_NEW_UUID: another data directory, or one that is not mounted",
        10075,
        always=True,
    ),
    *make_rows(
        Shows.INNOCENT,
        "errno(3) in any message; os0file.cc, os_file_handle_error",
        r"[^\n]{0,400}(?:No space left on device|Disk quota exceeded|Permission denied|"
        r"Operation not permitted|Read-only file system|Too many open files|"
        r"Cannot allocate memory|Address already in use|Cannot assign requested)",
        r"[^\n]{0,300}(?:[Ee]rr(?:code|no)(?:: |:|=| )|OS errno: |error number )"
        r"(?:1|11|12|13|23|24|28|30|122)\b",
        r"The error means [^\n]*does not have the access rights",
        r"Unable to lock",
        r"[^\n]{0,200}must be (?:writable|readable)",
        r"[^\n]{0,200}[Dd]isk is full",
        r"unknown (?:variable|option)",
        r"[^\n]{0,300}innodb_page_size",
        r"[^\n]{0,300}(?:[Ee]ncryption|[Dd]ecrypt|[Kk]eyring|master key)",
        r"[^\n]{0,200}semaphore.wait",
    ),
    *make_rows(
        Shows.DAMAGED,
        "fsp0sysspace.cc, SysTablespace::check_size: no setting asks for 0 pages",
        r"The Auto-extending innodb_system data file '[^']*' is of a different size 0 ",
    ),
    *make_rows(
        Shows.INNOCENT,
        "fsp0sysspace.cc: a data_file_path that was edited looks the same",
        r"The (?:Auto-extending )?(?:innodb_\w+ )?data file '[^']*'"
        r" (?:is of a different size|was not)",
    ),
    *make_rows(
        Shows.OUTSIDE,
        "fil0fil.cc; os0file.cc: a file that is not in the data directory",
        rf"[^\n]{{0,120}}File {_ABSOLUTE}[^\n]*OS error 71",
        rf"Cannot open datafile [^\n]*{_ABSOLUTE}",
        rf"Unable to (?:open|read) undo tablespace {_ABSOLUTE}",
        rf"Tablespace [^\n]*file '{_ABSOLUTE}[^\n]*is missing",
        rf"Missing redo log file {_ABSOLUTE}",
        rf"Neither found [^\n]* subdirectory, nor ib_logfile\* files in {_ABSOLUTE}",
        rf"Missing ib_logfile0 in the directory {_ABSOLUTE}",
    ),
)

_DAMAGED = (
    *make_rows(
        Shows.HOPELESS,
        "buf0buf.cc, Buf_fetch::read_page",
        r"Database page corruption on disk",
    ),
    *make_rows_of_codes(Shows.DAMAGED, "ER_JSON_PARSE_ERROR", 10214, early=True),
    *make_rows_of_codes(Shows.DAMAGED, "ER_UUID_INVALID; ER_UUID_SCRUB", 10073, 10074),
    *make_rows_of_codes(
        Shows.DAMAGED,
        "log0recv.cc: records and blocks of the redo log",
        *(12519, 12520, 12523, 12525, 12531, 12545, 12562, 12965, 15090),
    ),
    *make_rows_of_codes(
        Shows.DAMAGED,
        "log0files_io.cc and log0log.cc: files of the redo log",
        *(12962, 12963, 13089, 13856, 13857, 13858, 13859, 13866, 13896),
    ),
    *make_rows_of_codes(
        Shows.MISSING,
        "log0log.cc: a file of the redo log that is not there, beside others",
        *(12960, 12961, 13893),
    ),
    *make_rows(
        Shows.MISSING,
        "log0log.cc, ER_IB_MSG_LOG_FILE_MISSING_FOR_ID and the like",
        rf"Missing redo log file {_IN_DATA}",
        rf"Neither found [^\n]* subdirectory, nor ib_logfile\* files in {_IN_DATA}",
        rf"Missing ib_logfile0 in the directory {_IN_DATA}",
    ),
    *make_rows_of_codes(
        Shows.DAMAGED,
        "buf0dblwr.cc",
        *(13535, 14047, 14048),
    ),
    *make_rows_of_codes(
        Shows.DAMAGED,
        "ER_TC_BAD_MAGIC_IN_TC_LOG",
        10523,
    ),
    # A log of zeros has the format 0, which no server writes that dbcheck supports.
    *make_rows(
        Shows.DAMAGED,
        "log0files_finder.cc, ER_IB_MSG_LOG_FILE_FORMAT_TOO_OLD",
        r"Found redo log file [^\n]*has format \(v0\) and is stored inside",
        r"Unknown redo log format \(v",
    ),
    *make_rows(
        Shows.MISSING,
        "fil0fil.cc, Fil_system::open_for_recovery: the data dictionary, mysql.ibd",
        r"Could not find any file associated with the tablespace ID: 4294967294\b",
    ),
    *make_rows(
        Shows.MISSING,
        "os0file.cc, os_file_handle_error: a file of the data directory",
        rf"File {_IN_DATA}[^\n]*OS error 71",
    ),
    *make_rows(
        Shows.DAMAGED,
        "fil0fil.cc; fsp0file.cc; fsp0sysspace.cc",
        r"Corrupted page \[page id",
        r"(?:\[FATAL\] )?Tablespace id is \d+ in the data dictionary but in file",
        r"Header page consists of zero bytes",
        r"Header page contains inconsistent data",
        r"Checksum mismatch in datafile",
        r"Cannot read first page (?:of|in)",
        r"Trying to access page number [^\n]*outside the tablespace bounds",
        rf"The size of (?:the |tablespace )?file {_IN_DATA}[^\n]* is only",
        r"Space id (?:and page n|is )",
        r"Plugin initialization aborted (?:at [^\n]{0,200} )?with error Data structure"
        r" corruption",
        r"Index [^\n]* is corrupt",
        r"Table [^\n]* is corrupt",
        rf"Unable to (?:open|read) undo tablespace {_IN_DATA}",
        r"Assertion failure",
    ),
    *make_rows(
        Shows.DAMAGED,
        "binlog_reader.h, Binlog_read_error; binlog_istream.cc",
        r"Binlog has bad magic number",
        r"I/O error reading the header from the binary log",
    ),
)

TABLE = Table(_LIFE, _ASIDE, _INNOCENT, _DAMAGED)
