"""What receivers of a server's log need that no program of the server's does.

Both commands read the password of the account that the URL names from
CLIENT_PASSWORD_FILE.

    receivers lie URL PORT NAME     confirms at once PostgreSQL's log, and stores none
    receivers await URL PORT TABLE  ends once the table has some rows
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import mysql.connector
import psycopg2
from psycopg2.extras import (
    REPLICATION_PHYSICAL,
    PhysicalReplicationConnection,
    ReplicationMessage,
)
from sqlalchemy.engine import make_url

from tests.kit.lab_access import connect

_ROWS = 20  # a busy machine commits few
_POLL_S = 0.02
_WAIT_S = 300.0


def lie(url: str, port: int, name: str) -> None:
    """Confirm the log of the server at this port as *name*, until it ends."""
    connection = psycopg2.connect(
        host="127.0.0.1",
        port=port,
        user=make_url(url).username,
        password=_read_password(),
        application_name=name,
        connection_factory=PhysicalReplicationConnection,
    )
    cursor = connection.cursor()
    cursor.execute("IDENTIFY_SYSTEM")
    row = cursor.fetchone()
    assert row is not None
    cursor.start_replication(slot_type=REPLICATION_PHYSICAL, start_lsn=row[2])
    cursor.consume_stream(_confirm)


def await_rows(url: str, port: int, table: str) -> None:
    """Return once *table* has some rows; it and its server may not be there yet."""
    at = make_url(url).set(port=port).render_as_string()
    until_s = time.monotonic() + _WAIT_S
    while time.monotonic() < until_s:
        with (
            contextlib.suppress(psycopg2.Error, mysql.connector.Error),
            contextlib.closing(connect(at, _read_password())) as connection,
        ):
            cursor = connection.cursor()
            while time.monotonic() < until_s:
                cursor.execute(f"select count(*) from {table}")
                if cursor.fetchone()[0] >= _ROWS:
                    return
                time.sleep(_POLL_S)
        time.sleep(_POLL_S)
    raise TimeoutError(f"{table} has no {_ROWS} rows after {_WAIT_S:g} s")


def _confirm(message: ReplicationMessage) -> None:
    end = message.data_start + len(message.payload)
    message.cursor.send_feedback(end, end, end, force=True)


def _read_password() -> str:
    return Path(os.environ["CLIENT_PASSWORD_FILE"]).read_text()


if __name__ == "__main__":
    command, url, port, name = sys.argv[1:]
    {"lie": lie, "await": await_rows}[command](url, int(port), name)
