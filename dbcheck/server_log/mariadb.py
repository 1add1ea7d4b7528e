"""The table of MariaDB's messages, with InnoDB's, Aria's and MyRocks' in it.

They were read in the source of MariaDB 10.11.18 (sql/, storage/innobase, storage/maria,
storage/rocksdb); a message that another version words otherwise is not recognised.
InnoDB's messages are English whatever lc_messages is.  The messages of
sql/share/errmsg-utf8.txt are not; of these only the line that a server takes queries
(ER_STARTUP) is needed in each language.

A path that begins with ./ is in the data directory, where the server itself makes every
file.  An absolute path may be on a volume that is not mounted.
"""

from __future__ import annotations

from dbcheck.server_log.lines import Shows, Table, make_rows

_IN_DATA = r"['\"`]?\./"
_ABSOLUTE = r"['\"`]?/"
_NO_FILE = r"[^\n]*(?:[Ee]rr(?:code|no):? 2\b|No such file)"

_LIFE = (
    *make_rows(
        Shows.STARTS,
        "mysqld.cc, init_common_variables; before 10.11 mysqld_main",
        r"Starting MariaDB [0-9]",
        r"(?:\S{0,200} )?\(server [^)\n]{0,200}\) starting as process [0-9]",
    ),
    *make_rows(
        Shows.READY,
        "errmsg-utf8.txt, ER_STARTUP, in each of its languages",
        r"ready for connections",
        r"bereit für Verbindungen",
        r"preparada para conexiones",
        r"[^\n]{0,200}已经准备好接受连接",
        r"დასაკავშირებლად მზადაა",
    ),
    *make_rows(
        Shows.CUT,
        "log0recv.cc, recv_recovery_from_checkpoint_start; log.cc, TC_LOG; handler.cc",
        r"Starting crash recovery from checkpoint",
        r"Database was not shutdown normally",
        r"Starting (?:table |XA )?crash recovery",
    ),
    *make_rows(
        Shows.ASKED,
        "mysqld.cc, kill_server; errmsg-utf8.txt, ER_NORMAL_SHUTDOWN",
        r"(?:\S{0,200} )?\(initiated by: [^\n]{0,300}\): Normal shutdown",
    ),
    *make_rows(
        Shows.ASKED,
        "srv0start.cc, logs_empty_and_mark_files_at_shutdown: not after a crash",
        r"Executing innodb_fast_shutdown=2",
    ),
    *make_rows(
        Shows.STOPPED,
        "errmsg-utf8.txt, ER_SHUTDOWN_COMPLETE; srv0start.cc, innodb_shutdown",
        r"Shutdown complete",
    ),
    *make_rows(
        Shows.FAILS,
        "mysqld.cc, unireg_abort",
        r"Aborting$",
    ),
    *make_rows(
        Shows.CRASHED,
        "signal_handler.cc, handle_fatal_signal",
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
    *make_rows(
        Shows.ASIDE,
        "srv0start.cc; sql_plugin.cc; mysqld.cc",
        r"Plugin initialization aborted (?:at [^\n]{0,200} )?with error"
        r" (?!Data structure corruption)",
        r"Database creation was aborted",
        r"Plugin '[^']*' (?:init function returned error|registration as a STORAGE"
        r" ENGINE failed)",
        r"Unknown/unsupported storage engine",
        r"Failed to initialize plugins",
        r"Can't init tc log",
        r"Could not open mysql\.plugin table",
        r"Set innodb_force_recovery=1 to ignore corruption",
        r"Aborted connection",
    ),
    # The first has "if it's, for example, out of memory error": advice, and no cause.
    *make_rows(
        Shows.ASIDE,
        "log.cc, TC_LOG_MMAP::recover and TC_LOG_BINLOG::recover",
        r"Crash recovery failed\. Either correct the problem",
        r"Could not open log file",
        r"I/O error reading the header from the binary log$",
    ),
    *make_rows(
        Shows.ASIDE,
        "os0file.cc, os_file_handle_error: the next line names the file",
        r"Operating system error number 2 in a file operation",
        r"The error means the system cannot find the path",
        r"If you are installing InnoDB, remember",
        r"Error number 2 means",
    ),
    # MyISAM does not survive a crash, and does not promise to (mi_check.c, my_error.c).
    *make_rows(
        Shows.ASIDE,
        "storage/myisam",
        r"[^\n]{0,400}\.MY[ID]'",
        r"[^\n]{0,400}marked as crashed",
        r"Got an error from thread_id=\d+, [^\n]*ha_myisam",
    ),
)

_INNOCENT = (
    *make_rows(
        Shows.INNOCENT,
        "errno(3), as %M or %iE in any message",
        r"[^\n]{0,400}(?:No space left on device|Disk quota exceeded|Permission denied|"
        r"Operation not permitted|Read-only file system|Too many open files|"
        r"Cannot allocate memory|Address already in use|Cannot assign requested)",
        r"[^\n]{0,400}\b[Ee]rr(?:code|no)(?:: |:|=| )(?:1|11|12|13|23|24|28|30|122)\b",
    ),
    *make_rows(
        Shows.INNOCENT,
        "os0file.cc, os_file_handle_error and os_file_lock",
        r"Operating system error number (?:1|11|12|13|23|24|28|30|122) in a file",
        r"The error means [^\n]*does not have the access rights",
        r"The error means that (?:another program|there are no sufficient)",
        r"Unable to lock",
        r"[^\n]{0,200}(?:must be writable|must be readable)",
        r"(?:Disk is full|Full disk prevents|Could not set the file size)",
        r"Cannot initialize AIO",
        r"[^\n]{0,200}native AIO failed",
    ),
    *make_rows(
        Shows.INNOCENT,
        "mysqld.cc, activate_tcp_port and set_root",
        r"Can't start server",
        r"Do you already have another server running",
        r"Another process is already listening",
        r"Can't (?:create|start) (?:IP socket|thread)",
        r"Bind on ",
        r"Fatal error: (?:Please read|Can't change to run as user)",
    ),
    *make_rows(
        Shows.INNOCENT,
        "srv0start.cc; buf0buf.cc; my_malloc.c",
        r"Cannot (?:map|allocate)[^\n]*(?:buffer_pool|memory|buffer pool)",
        r"Unable to allocate",
        r"Out of memory",
        r"mmap\(",
    ),
    *make_rows(
        Shows.INNOCENT,
        "my_getopt.c; mysqld.cc; ha_innodb.cc: settings",
        r"unknown (?:variable|option)",
        r"ambiguous option",
        r"Unknown (?:locale|suffix|character set)",
        r"option '[^\n]*' (?:requires|cannot|doesn't)",
        r"Error while setting value",
        r"[^\n]{0,300}innodb_page_size",
        r"Invalid page size",
        r"(?:Data file|The data file) '[^\n]*uses page size",
        r"The server option 'lower_case_table_names'",
        r"Unable to parse innodb_(?:temp_)?data_file_path",
        r"Path '[^\n]*' is a directory name",
        r"syntax error in ",
    ),
    *make_rows(
        Shows.DAMAGED,
        "fsp0sysspace.cc, SysTablespace::check_size: no setting asks for 0 pages",
        r"The (?:Auto-extending )?data file '[^']*' is of a different size 0 pages",
    ),
    *make_rows(
        Shows.INNOCENT,
        "fsp0sysspace.cc; srv0start.cc: so does a data_file_path that was edited",
        r"The (?:Auto-extending )?data file '[^']*' (?:is of a different size|was not)",
        r"Tablespace size stored in header is",
        r"Cannot start InnoDB\. The tail of the system tablespace is missing",
    ),
    *make_rows(
        Shows.INNOCENT,
        "fil0crypt.cc; log0crypt.cc; plugins of encryption keys",
        r"[^\n]{0,400}key_version",
        r"[^\n]{0,400}(?:[Ee]ncryption|[Dd]ecrypt)",
        r"[^\n]{0,400}(?:file_key_management|[Hh]ashicorp|key management|master key)",
    ),
    *make_rows(
        Shows.INNOCENT,
        "log.cc, ha_recover: also where the setting log_bin was changed",
        r"Found \d+ prepared transactions! It means",
        r"Recovery failed! You must enable",
        r"Cannot perform automatic crash recovery when --tc-heuristic-recover",
    ),
    *make_rows(
        Shows.INNOCENT,
        "log0recv.cc; srv0start.cc; mysqld.cc: versions",
        r"Unsupported redo log format",
        r"[^\n]{0,200}You must start up and shut down MariaDB 10\.1",
        r"The redo log was created with",
        r"upgrade from older version",
        r"[^\n]{0,200}[Dd]owngrade",
        r"[^\n]{0,200}[Ii]ncompatible",
        r"MySQL-8\.0 tablespace",
    ),
    *make_rows(
        Shows.INNOCENT,
        "srv0srv.cc: storage that hung",
        r"[^\n]{0,200}semaphore.wait",
        r"Long wait",
    ),
    *make_rows(
        Shows.INNOCENT,
        "ma_control_file.c, ma_control_file_open: a lock, a setting, a version",
        r"Got error 'Could not get an exclusive lock",
        r"Can't lock aria control file",
        r"Got error 'Block size in control file",
        r"Got error 'File is from a future aria system",
        r"Got error 'Can't (?:open|create) file' when trying to use aria control file",
    ),
    *make_rows(
        Shows.OUTSIDE,
        "fil0fil.cc; log.cc; my_error.c: a file that is not in the data directory",
        rf"Tablespace \d+ was not found at {_ABSOLUTE}",
        rf"File {_ABSOLUTE}[^\n]* was not found",
        rf"File {_ABSOLUTE}{_NO_FILE}",
        rf"Failed to open log \(file {_ABSOLUTE}",
        rf"Cannot open datafile [^\n]*{_ABSOLUTE}",
        r"ISL file",
        r"A link file was found",
        r"The first data file '(?!\./ibdata1')",
        always=True,
    ),
)

_DAMAGED = (
    *make_rows(
        Shows.HOPELESS,
        "buf0buf.cc, buf_read_page_low and buf_page_t::read_complete",
        r"Database page corruption on disk",
    ),
    *make_rows(
        Shows.DAMAGED,
        "log0recv.cc",
        r"Invalid log header checksum",
        r"Missing FILE_CHECKPOINT",
        r"Corrupted page identifier",
        r"Unknown log record at LSN",
        r"Malformed log record",
        r"The log was only scanned up to",
        r"Not applying UNDO_APPEND due to corruption",
        r"OPT_PAGE_CHECKSUM mismatch",
        r"Cannot apply log to [^\n]*of corrupted file",
        r"Unable to apply log to corrupted page",
        r"File [^\n]* is too small",
        r"[^\n]{0,300}and it appears corrupted",
        r"Failed to read log at",
    ),
    # It is an error in 10.11, a warning before.
    *make_rows(Shows.DAMAGED, "log0recv.cc", r"Log scan aborted", always=True),
    # A log of zeros has the format 0, which no server writes that dbcheck supports.
    *make_rows(
        Shows.DAMAGED,
        "log0recv.cc, recv_log_recover_pre_10_2",
        r"[^\n]{0,200}This redo log was created before MariaDB 10\.2\.2, and we did not"
        r" find a valid checkpoint",
    ),
    *make_rows(
        Shows.DAMAGED,
        "srv0start.cc; fsp0sysspace.cc; fsp0file.cc",
        r"ib_logfile0 is empty, and LSN is unknown",
        r"Corrupted page \[page id",
        r"The data file '[^\n]*' has the wrong space ID",
        r"Inconsistent tablespace ID in",
        r"Invalid flags [^\n]* in ",
        r"Unable to read first page of file",
        rf"Datafile {_IN_DATA}[^\n]*is corrupted",
        r"Header page consists of zero bytes",
        r"Plugin initialization aborted (?:at [^\n]{0,200} )?with error Data structure"
        r" corruption",
    ),
    *make_rows(
        Shows.DAMAGED,
        "fil0fil.cc; os0file.cc; buf0dblwr.cc; buf0buf.cc",
        rf"The size of (?:the |tablespace )?file {_IN_DATA}[^\n]* is only",
        r"File '[^\n]*' is corrupted",
        r"The first page of file",
        r"Expected tablespace (?:flags|id)",
        r"Failed to read page",
        r"Failed to read the (?:system tablespace header page|first|second)",
        r"(?:Compressed )?[Pp]age checksum mismatch",
        r"Your database may be corrupt",
        r"Apparent corruption of an index page",
        r"Recovery failed to read page",
        r"Space id and page n",
        r"Read error [0-9]+ of page",
    ),
    *make_rows(
        Shows.DAMAGED,
        "trx0undo.cc; dict0load.cc; dict0boot.cc; row0mysql.cc; handler",
        r"unsupported undo header",
        r"invalid undo header offset",
        r"corrupted TRX_(?:ID|NO)",
        r"Refusing to load corrupted table",
        r"Corrupted SYS_INDEXES record",
        r"Index [^\n]* (?:is|of table [^\n]* is) corrupt",
        r"Index for table [^\n]* is corrupt",
        r"Table [^\n]* is corrupted",
        r"We detected index corruption",
        r"Assertion failure",
    ),
    *make_rows(
        Shows.MISSING,
        "log0recv.cc; fil0fil.cc; os0file.cc; srv0start.cc: in the data directory",
        r"Missing FILE_",
        rf"Tablespace \d+ was not found at {_IN_DATA}",
        rf"File {_IN_DATA}[^\n]* was not found",
        rf"redo log file {_IN_DATA}ib_logfile0' exists\. Creating system tablespace",
        r"Could not find a valid tablespace file",
    ),
    *make_rows(
        Shows.DAMAGED,
        "ma_control_file.c, ma_control_file_open; ma_loghandler.c",
        r"Got error '(?:Size of control file is smaller|File size bigger|Missing valid"
        r" id|Sizes stored in control file|Fixed part checksum|Changeable part)",
        r"Aria engine: log data error",
        r"Aria recovery failed",
        r"Redo phase failed",
    ),
    *make_rows(
        Shows.DAMAGED,
        "log.cc, TC_LOG_MMAP::recover, open_binlog and check_binlog_magic; errno 175 is"
        " HA_ERR_FILE_TOO_SHORT",
        r"Bad magic header in tc log",
        r"Binlog has bad magic number",
        r"I/O error reading the header from the binary log, errno=175",
    ),
    *make_rows(
        Shows.MISSING,
        "log.cc, open_binlog and TC_LOG_BINLOG::do_binlog_recovery; my_error.c",
        rf"Failed to open log \(file {_IN_DATA}[^\n]*errno 2\b",
        rf"File {_IN_DATA}{_NO_FILE}",
        r"Binlog file '[^\n]*' not found in binlog index, needed for recovery",
    ),
    *make_rows(
        Shows.DAMAGED,
        "sql_acl.cc, acl_init; errmsg-utf8.txt",
        rf"(?:Fatal error: Can't open and lock privilege tables: )?"
        rf"Incorrect information in file: {_IN_DATA}",
        r"Fatal error: Can't open and lock privilege tables: (?:Incorrect file format|"
        r"Unknown storage engine '')",
    ),
    *make_rows(
        Shows.MISSING,
        "sql_acl.cc, acl_init; errmsg-utf8.txt",
        r"Fatal error: Can't open and lock privilege tables: (?:Can't find file: |"
        rf"File ){_IN_DATA}{_NO_FILE}",
    ),
    *make_rows(
        Shows.DAMAGED,
        "rdb_utils.cc, rdb_log_status_error: RocksDB's Status::kCorruption",
        r"(?:RocksDB: )?[^\n]{0,300}Status: Corruption",
        r"LibRocksDB:[^\n]{0,300}Corruption",
    ),
)

TABLE = Table(_LIFE, _ASIDE, _INNOCENT, _DAMAGED)
