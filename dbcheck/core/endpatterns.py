"""Patterns of what servers log of their ends, and of what ended them."""

from __future__ import annotations

import re

from dbcheck.core.startpatterns import any_of

# A fault of the program itself: an illegal instruction, an abort, a division by zero, a
# wrong address.  SIGBUS is a fault, too, but also of a machine without huge pages.
FAULT = r"signal (?:4|6|8|11)\b"
_FAULT_OR_BUS = r"signal (?:4|6|7|8|11)\b"
_ASSERTION = r"Assertion failure"
_EXCEPTION = r"d got exception"
_GOT = r"d got (?:signal|exception)"
_STARTUP = r"startup process \(PID \d+\)"
_PANICS = (r"\bPANIC:\s", r",PANIC,", r"\"error_severity\":\"PANIC\"")

# What a server logs of an error, and of a client that it turned away.  PostgreSQL
# refuses a client with FATAL too, and names what the client sent (postgres.c,
# backend_startup.c, auth.c, postinit.c).
ERROR = any_of(
    r"\b(?:PANIC|FATAL):\s",
    r"\"error_severity\":\"(?:PANIC|FATAL)\"",
    r",(?:PANIC|FATAL),",
    r"\[(?:ERROR|FATAL)\]",
    _ASSERTION,
    _GOT,
)
# The same, and what PostgreSQL logs of a damaged page: the statement that read it fails
# with ERROR, after a WARNING where page checksums are on (bufpage.c, bufmgr.c).
COMPLAINT = any_of(
    ERROR.pattern,
    r"\b(?:ERROR|WARNING):\s",
    r"\"error_severity\":\"(?:ERROR|WARNING)\"",
    r",(?:ERROR|WARNING),",
)
PANIC = any_of(*_PANICS)
CLIENT = any_of(
    r"the database system is ",
    r"unsupported frontend protocol",
    r"startup packet",
    r"authentication failed for user",
    r"no pg_hba\.conf entry",
    r"pg_hba\.conf rejects",
    r"too many clients already",
    r"remaining connection slots",
    r"too many connections for",
    r"connection to client lost",
    r"canceling authentication",
    r"requires a valid client cert",
    r"terminating (?:connection|walreceiver|walsender|background worker)",
    r"(?:role|database) \\?\"[^\n]*\" (?:does not exist|is not )",
)

# PostgreSQL's startup process decides alone: a FATAL of any other process, and there
# are many of them, ends only that one (postmaster.c, process_pm_child_exit).
ENDED = any_of(
    *_PANICS,
    r"due to startup process failure",
    r"database system is shut down",
    rf"{_STARTUP} (?:was terminated by signal|exited with exit code)",
    r"\[ERROR\].* Aborting",
    _ASSERTION,
    _GOT,
    r"Shutdown complete",
)
ORDERLY = any_of(r"Shutdown complete", r"database system is shut down")
_CRASHES = (_ASSERTION, rf"got {_FAULT_OR_BUS}", rf"was terminated by {_FAULT_OR_BUS}")
CRASHED = any_of(*_CRASHES)
START_CRASHED = any_of(
    _ASSERTION,
    rf"got {_FAULT_OR_BUS}",
    rf"{_STARTUP} was terminated by {_FAULT_OR_BUS}",
)
THREAD_CRASHED = any_of(_ASSERTION, rf"got {FAULT}", _EXCEPTION)
ENDED_ITSELF = any_of(*_CRASHES, *_PANICS, r"\[FATAL\]", _EXCEPTION)

# What a server logs of data that are not as it wrote them (PostgreSQL 15 xlog.c,
# xlogrecovery.c, relmapper.c, bufmgr.c; MySQL 9.7 messages_to_error_log.txt and
# buf0buf.cc; MariaDB 10.11 log0recv.cc, ma_control_file.c, log.cc).
DAMAGE = any_of(
    r"corrupt",
    r"checksum",
    r"could not locate a valid checkpoint record",
    r"invalid (?:primary |secondary )?checkpoint",
    r"invalid page in block",
    r"references to invalid pages",
    r"contains invalid data",
    r"is not a valid data directory",
    r"could not (?:open|read|access) file \"?(?:base|global|pg_[a-z]+)/",
    r"could not (?:access status of transaction|find redo location)",
    r"Space id and page n",
    _ASSERTION,
    r"not a valid aria control file",
    r"[Rr]ecovery failed",
    r"Missing FILE_",
    r"Log scan aborted",
    r"Bad magic header",
    flags=re.IGNORECASE,
)
# InnoDB logs this once neither log nor doublewrite buffer could help (MY-011906).
HOPELESS = any_of(r"corruption on disk")
# MyISAM does not survive a crash, and does not promise to (mi_check.c, my_error.c).
MYISAM = any_of(r"\.MY[ID]'", r"marked as crashed")

# Files outside the data directory, on a volume that may not be mounted: PostgreSQL's
# tablespaces, InnoDB's tables with DATA DIRECTORY; and what a server logs without them
# (xlogutils.c, log_invalid_page; MariaDB log0recv.cc).
OUTSIDE = any_of(
    r"pg_tblspc/[^\n]*(?:does not exist|is uninitialized|No such file)",
    r"could not [^\n]*pg_tblspc/",
    r"['\" ]/[^'\"\n]+\.(?:ibd|isl)\b",
)
FILES_MISSING = any_of(r"references to invalid pages", r"pg_tblspc/", r"Missing FILE_")

# What ends a start and is not the data's fault.
SURROUNDINGS = any_of(
    r"address already in use",
    r"could not bind",
    r"Bind on ",
    r"Can't start server",
    r"no space left",
    r"disk is full",
    r"out of memory",
    r"cannot allocate",
    r"(?:can|could )not map",
    r"shared memory",
    r"too many open files",
    r"insufficient",
    r"permission denied",
    r"wrong ownership",
    r"group or world access",
    r"lock file",
    r"[Uu]nable to lock",
    r"can't lock",
    r"invalid value for parameter",
    r"unrecognized configuration",
    r"unknown variable",
    r"unknown option",
    r"configuration file",
    r"page size",
    r"innodb_page_size",
    r"incompatible",
    r"not compatible",
    r"backup_label",
    r"upgrade",
    r"downgrade",
    r"read-only file system",
    r"required WAL directory",
    r"signal (?:1|2|3|9|15)\b",
    # settings that the data do not fit (slot.c, origin.c, xlogrecovery.c; log.cc)
    r"wal_level",
    r"too many replication slots",
    r"max_replication_slots",
    r"could not find free replication state",
    r"is not possible because",
    r"prepared transactions! It means",
    # an encryption key that is not there (MariaDB fil0crypt.cc, sql_plugin.cc; MySQL
    # messages_to_error_log.txt)
    r"key_version",
    r"encryption (?:key|info)",
    r"master key",
    r"key management",
    r"decrypt",
    r"file_key_management",
    r"hashicorp",
    r"keyring",
    r"registration as a ENCRYPTION failed",
    # storage that hung (srv0srv.cc)
    r"semaphore wait",
    r"semaphore_wait",
    flags=re.IGNORECASE,
)
