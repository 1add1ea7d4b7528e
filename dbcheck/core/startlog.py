"""What a server's log tells of its attempts to start, and of what ended them."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

LINES_MAX = 3
LINE_CHARS_MAX = 300

# An attempt to start begins with one of these (PostgreSQL 12 or newer, postmaster.c;
# MySQL 8.0 or newer, MY-010116; MariaDB, mysqld.cc), and the server takes
# queries after one of those.
_START = re.compile(
    r"starting PostgreSQL [0-9]|starting as process [0-9]|Starting MariaDB [0-9]"
)
_READY = re.compile(r"ready to accept (?:read-only )?connections|ready for connections")

# PostgreSQL has read its control file and begins to recover (xlogrecovery.c).
_RECOVERING = re.compile(r"database system was (?:interrupted|not properly shut down)")

# A backend crashed, and PostgreSQL starts over in the same process (postmaster.c).
_REINITIALIZING = re.compile(r"all server processes terminated; reinitializing")

# What a server says of an error, and of a client that it turned away.  PostgreSQL
# refuses a client with FATAL too, and names what the client sent (postgres.c,
# backend_startup.c, auth.c, postinit.c).
_ERROR = re.compile(
    r"\b(?:PANIC|FATAL):\s|\"error_severity\":\"(?:PANIC|FATAL)\"|,(?:PANIC|FATAL),"
    r"|\[(?:ERROR|FATAL)\]|Assertion failure|d got (?:signal|exception)"
)
_PANIC = re.compile(r"\bPANIC:\s|,PANIC,|\"error_severity\":\"PANIC\"")
_CLIENT = re.compile(
    r"the database system is |unsupported frontend protocol|startup packet"
    r"|authentication failed for user|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r"|too many clients already|remaining connection slots|too many connections for"
    r"|connection to client lost|canceling authentication|requires a valid client cert"
    r"|terminating (?:connection|walreceiver|walsender|background worker)"
    r"|(?:role|database) \\?\"[^\n]*\" (?:does not exist|is not )"
)

# PostgreSQL's startup process decides alone: a FATAL of any other process, and there
# are many of them, ends only that one (postmaster.c, process_pm_child_exit).
_STARTUP_CRASHED = (
    r"startup process \(PID \d+\) was terminated by signal (?:4|6|7|8|11)\b"
)
_ENDED = re.compile(
    _PANIC.pattern + r"|due to startup process failure|database system is shut down"
    r"|startup process \(PID \d+\) (?:was terminated by signal|exited with exit code)"
    r"|\[ERROR\].* Aborting|Assertion failure|d got (?:signal|exception)"
    r"|Shutdown complete"
)
_ORDERLY = re.compile(r"Shutdown complete|database system is shut down")
_CRASHED = re.compile(
    r"Assertion failure|got signal (?:4|6|7|8|11)\b|"
    r"was terminated by signal (?:4|6|7|8|11)\b"
)
_START_CRASHED = re.compile(
    r"Assertion failure|got signal (?:4|6|7|8|11)\b|" + _STARTUP_CRASHED
)
# A fault of the program itself: an illegal instruction, an abort, a division by zero, a
# wrong address.  SIGBUS is not among them: a machine without huge pages raises it.
_FAULT = r"signal (?:4|6|8|11)\b"
_THREAD_CRASHED = re.compile(rf"Assertion failure|got {_FAULT}|got exception")
_ENDED_ITSELF = re.compile(
    rf"{_CRASHED.pattern}|{_PANIC.pattern}|\[FATAL\]|d got exception"
)

# What a server says of data that are not as it wrote them (PostgreSQL 15 xlog.c,
# xlogrecovery.c, relmapper.c, bufmgr.c; MySQL 9.7 messages_to_error_log.txt and
# buf0buf.cc; MariaDB 10.11 log0recv.cc, ma_control_file.c, log.cc).
_DAMAGE = re.compile(
    r"corrupt|checksum|could not locate a valid checkpoint record"
    r"|invalid (?:primary |secondary )?checkpoint|invalid page in block"
    r"|references to invalid pages|contains invalid data|is not a valid data directory"
    r"|could not (?:open|read|access) file \"?(?:base|global|pg_[a-z]+)/"
    r"|could not (?:access status of transaction|find redo location)"
    r"|Space id and page n|Assertion failure|not a valid aria control file"
    r"|[Rr]ecovery failed|Missing FILE_|Log scan aborted"
    r"|Bad magic header",
    re.IGNORECASE,
)
# InnoDB says this once neither log nor doublewrite buffer could help (MY-011906).
_HOPELESS = re.compile(r"corruption on disk")
# MyISAM does not survive a crash, and does not promise to (mi_check.c, my_error.c).
_MYISAM = re.compile(r"\.MY[ID]'|marked as crashed")

# Files outside the data directory, on a volume that may not be mounted: PostgreSQL's
# tablespaces, InnoDB's tables with DATA DIRECTORY; and what a server says without them
# (xlogutils.c, log_invalid_page; MariaDB log0recv.cc).
_OUTSIDE = re.compile(
    r"pg_tblspc/[^\n]*(?:does not exist|is uninitialized|No such file)"
    r"|could not [^\n]*pg_tblspc/|['\" ]/[^'\"\n]+\.(?:ibd|isl)\b"
)
_FILES_MISSING = re.compile(r"references to invalid pages|pg_tblspc/|Missing FILE_")

# What ends a start and is not the data's fault.
_SURROUNDINGS = re.compile(
    r"address already in use|could not bind|Bind on |Can't start server"
    r"|no space left|disk is full|out of memory|cannot allocate|(?:can|could )not map"
    r"|shared memory|too many open files|insufficient|permission denied"
    r"|wrong ownership|group or world access|lock file|[Uu]nable to lock|can't lock"
    r"|invalid value for parameter|unrecognized configuration|unknown variable"
    r"|unknown option|configuration file|page size|innodb_page_size|incompatible"
    r"|not compatible"
    r"|backup_label|upgrade|downgrade|read-only file system|required WAL directory"
    r"|signal (?:1|2|3|9|15)\b"
    # settings that the data do not fit (slot.c, origin.c, xlogrecovery.c; log.cc)
    r"|wal_level|too many replication slots|max_replication_slots"
    r"|could not find free replication state|is not possible because"
    r"|prepared transactions! It means"
    # an encryption key that is not there (MariaDB fil0crypt.cc, sql_plugin.cc; MySQL
    # messages_to_error_log.txt)
    r"|key_version|encryption (?:key|info)|master key|key management|decrypt"
    r"|file_key_management|hashicorp|keyring|registration as a ENCRYPTION failed"
    # storage that hung (srv0srv.cc)
    r"|semaphore wait|semaphore_wait",
    re.IGNORECASE,
)


class StartOutcome(enum.Enum):
    """What came of a server's attempts to start."""

    NEVER_STARTED = "never started"
    RUNNING = "running"  # recovering, or ready
    DESTROYED = "destroyed"  # its own data ended it
    FAILED = "failed"  # something else did, or something that is not known


@dataclass(frozen=True, slots=True)
class Starts:
    """What a log tells since a mark.

    lines: the decisive ones, in the log's order; () if there are none.
    """

    ending: StartOutcome
    lines: tuple[str, ...] = ()


def starts_in(text: str) -> Starts:
    """Return what came of the attempts to start that *text* tells of.

    One attempt that its data ended says DESTROYED only if the server did not begin
    another since; of several, two do, unless the last one took queries.
    """
    begins = [match.start() for match in _START.finditer(text)]
    if not begins:
        return Starts(StartOutcome.NEVER_STARTED)
    ends = [*begins[1:], len(text)]
    attempts = [
        _attempt(text[begin:end], last=end == len(text))
        for begin, end in zip(begins, ends, strict=True)
    ]
    destroyed = [one for one in attempts if one.ending is StartOutcome.DESTROYED]
    if (
        attempts[-1].ending is StartOutcome.RUNNING
        and len(destroyed) > 1
        and not _READY.search(text, begins[-1])
    ):
        return destroyed[-1]
    return attempts[-1]


def before_starts(text: str) -> str:
    """Return what was logged before the first attempt to start."""
    first = _START.search(text)
    return text[: first.start()] if first else text


def decisive(text: str) -> tuple[str, ...]:
    """Return the first errors in *text*, those about damaged data if there are any."""
    errors = _errors(text)
    damage = [line for line in errors if _DAMAGE.search(line)]
    return _shown(damage or errors)


def damage(text: str) -> tuple[str, ...]:
    """Return the first errors in *text* that name damaged data, () if none does."""
    errors = _errors(text)
    if any(_SURROUNDINGS.search(line) for line in errors):
        return ()
    lines = [
        line for line in errors if _DAMAGE.search(line) and not _MYISAM.search(line)
    ]
    if _OUTSIDE.search(text):
        lines = [line for line in lines if not _FILES_MISSING.search(line)]
    return _shown(lines)


def damage_that_ended(text: str) -> tuple[str, ...]:
    """Return the errors that name damaged data, if the running server ended itself.

    text: what a server logged that took queries when the text began.  It ended itself
    if it says that it crashed, or if it started again without an orderly shutdown.
    """
    running = before_starts(text)
    again = len(running) < len(text) and not _ORDERLY.search(running)
    return damage(running) if again or _ENDED_ITSELF.search(running) else ()


def crash_of(text: str, session: int) -> tuple[str, ...]:
    """Return what *text* says of a crash of what served that session, () if nothing.

    session: PostgreSQL's process or, for the others, the connection's number.  A signal
    that no fault of a program raises, as SIGKILL and SIGTERM, is no crash.
    """
    lines = text.splitlines()
    process = re.compile(rf"\(PID {session}\) was terminated by {_FAULT}")
    for at, line in enumerate(lines):
        if process.search(line):
            return _shown([line, *lines[at + 1 : at + 2]])
    thread = re.compile(rf"Connection ID \(thread ID\): {session}\b")
    if any(map(thread.search, lines)):
        return _shown([line for line in lines if _THREAD_CRASHED.search(line)])
    return ()


def _attempt(text: str, *, last: bool) -> Starts:
    text = _REINITIALIZING.split(text)[-1]
    ready = max((found.end() for found in _READY.finditer(text)), default=None)
    ended = not last or _ENDED.search(_without_clients(text[ready or 0 :])) is not None
    if ready is not None:
        return _ended_ready(text[ready:]) if ended else Starts(StartOutcome.RUNNING)
    lines = damage(text)
    if not ended and not _HOPELESS.search("".join(lines)):
        return Starts(StartOutcome.RUNNING)
    if lines:
        return Starts(StartOutcome.DESTROYED, lines)
    recovering = _RECOVERING.search(text)
    errors = decisive(text[recovering.start() :] if recovering else text)
    crashed = _START_CRASHED.search(text) or (recovering and _PANIC.search(text))
    if errors and crashed and not _blameless(text):
        return Starts(StartOutcome.DESTROYED, errors)
    return Starts(StartOutcome.FAILED, errors)


def _ended_ready(text: str) -> Starts:
    """Return what ended a server that took queries before it logged *text*."""
    lines = damage(text)
    if lines and _ENDED_ITSELF.search(text) and not _ORDERLY.search(text):
        return Starts(StartOutcome.DESTROYED, lines)
    return Starts(StartOutcome.FAILED, decisive(text))


def _blameless(text: str) -> bool:
    """Return whether something other than the data may have ended this start."""
    if _SURROUNDINGS.search("\n".join(_errors(text))):
        return True
    return bool(_OUTSIDE.search(text) and _FILES_MISSING.search(text))


def _errors(text: str) -> list[str]:
    return [
        line
        for line in _without_clients(text).splitlines()
        if _ERROR.search(line) or _CRASHED.search(line)
    ]


def _without_clients(text: str) -> str:
    """Return *text* without the lines about clients that were turned away."""
    return "\n".join(
        line
        for line in text.splitlines()
        if _PANIC.search(line) or not _CLIENT.search(line)
    )


def _shown(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the first of *lines*, each from its severity on and of bearable length."""
    return tuple(_from_severity(line)[:LINE_CHARS_MAX] for line in lines[:LINES_MAX])


def _from_severity(line: str) -> str:
    found = _ERROR.search(line)
    return line[found.start() :].strip() if found else line.strip()
