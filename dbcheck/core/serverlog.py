"""What a server's own log tells of the cut, whoever read it and wherever."""

from __future__ import annotations

import re

from dbcheck.core import startwords
from dbcheck.core.evidence import Item, Standing
from dbcheck.core.target import LogTail

# What a server logs when it starts after a crash, and when it was shut down (sources:
# PostgreSQL 15 xlogrecovery.c; MariaDB 10.11 log.cc and log0recv.cc; MySQL 9.7
# messages_to_error_log.txt, and its logs as read).  "Crash recovery finished" is no
# sign: MySQL logs it (MY-013911) at every start.  The words stand in JSON and CSV logs
# too.  InnoDB's and MySQL's are English whatever lc_messages is; PostgreSQL's are not,
# and bear no code of their own, so its log in another language tells nothing.  The
# search for the name before a shutdown ends at the next one, or a line of names would
# take minutes.
_CRASHED = re.compile(
    r"was not properly shut down|was interrupted; last known up|"
    r"[Ss]tarting (?:XA |table )?crash recovery|was not shutdown normally"
)
_SHUT_DOWN = re.compile(
    r"database system was shut down at|database system is shut down|"
    r"(?:mysqld|mariadbd)(?:(?!mysqld|mariadbd)[^\n])*: Shutdown complete|"
    r"Shutdown completed;|"
    r"Received SHUTDOWN from user"
)


def crash_item(name: str, log: LogTail) -> Item:
    """Judge what the log called *name* says since the preflight.

    Where more was logged than was read, a shutdown may stand in the rest; where a log
    does not continue what it was, its lines may be older than the load.
    """
    text = log.text
    if log.rewound:
        said = "it does not go on from before the load, so its lines may be older"
        return Item(name, Standing.NOT_OBSERVABLE, said, False)
    if found := _shutdown(text):
        said = f"it says {found[0]!r}: it was shut down, not cut"
        return Item(name, Standing.CONTRADICTED, said, True)
    if log.truncated:
        said = "more was logged since the preflight than is read"
        return Item(name, Standing.NOT_OBSERVABLE, said, False)
    if found := _CRASHED.search(text):
        said = f"it says {found[0]!r}: crash recovery"
        return Item(name, Standing.PRESENT, said, True)
    said = "no word of a crash or of a shutdown"
    return Item(name, Standing.NOT_OBSERVABLE, said, False)


def _shutdown(text: str) -> re.Match[str] | None:
    """Return the words of a shutdown.

    PostgreSQL ends a failed start with "database system is shut down", too
    (postmaster.c): that server never took queries.
    """
    for found in _SHUT_DOWN.finditer(text):
        failed = text.rfind("due to startup process failure", 0, found.start())
        if failed < 0 or startwords.READY.search(text, failed, found.start()):
            return found
        if startwords.START.search(text, failed, found.start()):
            return found
    return None


def replayed(log: LogTail) -> Item | None:
    """Judge how much of its redo log the server replayed, None if *log* is silent.

    It replays what was written since the last checkpoint: only that was at risk in
    the redo log alone.  Of several recoveries the last counts that came to its end.
    """
    if log.rewound or log.truncated:
        return None
    text = log.text
    for first, last, base in _REPLAYS:
        ends = list(last.finditer(text))
        begins = first.findall(text, 0, ends[-1].start()) if ends else []
        if not begins:
            continue
        size = _position(ends[-1][1], base) - _position(begins[-1], base)
        if size >= 0:
            standing = Standing.PRESENT if size else Standing.ABSENT
            said = f"recovery replayed {size:,} bytes written since the checkpoint"
            return Item("log replayed", standing, said, False)
    if _NO_REPLAY in text and not any(last.search(text) for _, last, _ in _REPLAYS):
        said = (
            f"recovery found nothing to replay ({_NO_REPLAY!r}): a checkpoint came "
            "after the last commit, as a shutdown makes one"
        )
        return Item("log replayed", Standing.ABSENT, said, True)
    return None


_NO_REPLAY = "redo is not required"  # PostgreSQL: nothing follows the last checkpoint
# Where recovery began and ended, as numbers of 64 bits: PostgreSQL in hexadecimal
# halves, InnoDB in bytes.
_HALVES = r"([0-9A-F]{1,8}/[0-9A-F]{1,8})(?![0-9A-F])"
_BYTES = r"([0-9]{1,20})(?![0-9])"
_REPLAYS = (
    (
        re.compile("redo starts at " + _HALVES),
        re.compile("redo done at " + _HALVES),
        16,
    ),
    (
        re.compile("crash recovery from checkpoint LSN=" + _BYTES),
        re.compile("End of log at LSN=" + _BYTES),
        10,
    ),
    (
        re.compile("whereas checkpoint_lsn = " + _BYTES),
        re.compile("scanned up to log sequence number " + _BYTES),
        10,
    ),
)


def _position(text: str, base: int) -> int:
    high, slash, low = text.rpartition("/")
    return (int(high, base) << 32) + int(low, base) if slash else int(low, base)
