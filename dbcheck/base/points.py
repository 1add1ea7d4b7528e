"""Points of a server's log to which its archive is restored.

A restore to a point brings back what was committed by then.  Which commits these are
follows from when the point was read, if no commit that was sent after the reading can
come before it in the log, and none that was acknowledged before can come after it.
Both hold for each kind here:

lsn: PostgreSQL inserts the record of a commit before it answers it, and
    pg_current_wal_insert_lsn() is the end of all that was inserted.  Recovery stops at
    the first record that begins there or later: before that one, or after it with
    recovery_target_inclusive (xlogrecovery.c, recoveryStopsBefore() and
    recoveryStopsAfter(); PostgreSQL 17).  That one record may be the commit of a
    transaction that had begun, but never of one that had not: its rows come before.
restore-point: pg_create_restore_point() inserts a record of its own.  Recovery stops
    after it.  It stops at the first of that name, so each has a name of its own
    (PostgreSQL 17 manual, 9.28.3).
gtid: MariaDB writes a transaction to the binary log before it commits it, and
    gtid_binlog_pos is the last one of each domain there (MariaDB manual, Global
    Transaction ID).  mariadb-binlog --stop-position takes it, and includes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class PointKind(StrEnum):
    """A kind of point, as users name it."""

    RESTORE_POINT = "restore-point"
    LSN = "lsn"
    GTID = "gtid"


_NAME_CHARS_MAX = 63  # PostgreSQL's MAXFNAMELEN is 64 (xlog_internal.h)
# Users' programs write a value into settings and commands, so nothing else is one.
_VALUES = {
    PointKind.RESTORE_POINT: re.compile(rf"[A-Za-z0-9_-]{{1,{_NAME_CHARS_MAX}}}"),
    PointKind.LSN: re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}"),
    PointKind.GTID: re.compile(r"[0-9]+-[0-9]+-[0-9]+(,[0-9]+-[0-9]+-[0-9]+)*"),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a server's log: its kind, and its value as the server writes it."""

    kind: PointKind
    value: str

    def __post_init__(self) -> None:
        """Refuse a value that no server has; raise ValueError."""
        if not _VALUES[self.kind].fullmatch(self.value):
            raise ValueError(f"{self.value!r} is no {self.kind.value}")


@dataclass(frozen=True, slots=True)
class PointRead:
    """A point, and when it was read, in microseconds of the client's monotonic clock.

    began_us: just before the server was asked.  ended_us: once it had answered.
    """

    point: Point
    began_us: int
    ended_us: int


def name_restore_point(run_id: str) -> str:
    """Return the name of the restore point of a run, which no other run has."""
    return f"dbcheck_{run_id}"
