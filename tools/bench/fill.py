"""Fills a table with the rows that a load would have left, many in a statement."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence

import mysql.connector
import psycopg
from sqlalchemy.engine import URL, make_url

from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab
from dbcheck.rows.acks import Row
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER

SESSIONS = 64
_STATEMENT_ROWS = 500

_COLUMNS = "(epoch, session, seq, part, payload, checksum)"
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BEFORE = struct.Struct("!hiqiiiqih")
_AFTER = struct.Struct("!iq")
_TRAILER = b"\xff\xff"


def fill(lab: Lab, schedule: Schedule, rows: int) -> None:
    """Make the ledger anew, with *rows* rows of *schedule*."""
    engine = open_engine(lab.target_url, lab.password)
    engine.drop()
    engine.prepare((LEDGER,))
    sent = (schedule.row(at % SESSIONS + 1, at // SESSIONS + 1) for at in range(rows))
    to = make_url(lab.target_url)
    put = _copy if engine.family == "postgresql" else _insert
    put(to, lab.password, sent)


def _copy(to: URL, password: str, rows: Iterable[Row]) -> None:
    with (
        psycopg.connect(
            host=to.host,
            port=to.port,
            user=to.username,
            password=password,
            dbname=to.database,
        ) as connection,
        connection.cursor() as cursor,
        cursor.copy(
            f"copy dbcheck.ledger {_COLUMNS} from stdin (format binary)"
        ) as copy,
    ):
        copy.write(_HEADER)
        for batch in _batched(rows):
            copy.write(b"".join(map(_tuple, batch)))
        copy.write(_TRAILER)


def _tuple(row: Row) -> bytes:
    return b"".join(
        (
            _BEFORE.pack(6, 8, row.epoch, 4, row.session, 8, row.seq, 2, row.part),
            struct.pack("!i", len(row.payload)),
            row.payload,
            _AFTER.pack(8, row.checksum),
        )
    )


def _insert(to: URL, password: str, rows: Iterable[Row]) -> None:
    connection = mysql.connector.connect(
        host=to.host,
        port=to.port,
        user=to.username,
        password=password,
        database=to.database,
        use_pure=True,
    )
    try:
        for statement in _statements(rows):
            connection.cmd_query(statement)
        connection.commit()
    finally:
        connection.close()


def _statements(rows: Iterable[Row]) -> Iterator[str]:
    for batch in _batched(rows):
        values = ",".join(
            f"({r.epoch},{r.session},{r.seq},{r.part},0x{r.payload.hex()},{r.checksum})"
            for r in batch
        )
        yield f"insert into ledger {_COLUMNS} values {values}"


def _batched(rows: Iterable[Row]) -> Iterator[Sequence[Row]]:
    left = iter(rows)
    while batch := list(itertools.islice(left, _STATEMENT_ROWS)):
        yield batch
