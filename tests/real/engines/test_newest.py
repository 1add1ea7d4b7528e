"""Reading the newest rows while others write, on every real server."""

from __future__ import annotations

import contextlib

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.sessions import commit
from dbcheck.ports.engine import Engine
from dbcheck.rows.acks import Row
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.table import LEDGER
from tests.kit.lab_access import connect
from tests.kit.operations import insert
from tests.kit.refusals import refused

EPOCH = 77


def row(session: int, seq: int, epoch: int = EPOCH) -> Row:
    return Row(0, epoch, session, seq, 0, b"x", 0)


def committed(engine: Engine, *rows: Row) -> list[int]:
    session = engine.open_session((INSERT,))
    try:
        return [commit(session, insert(each)) for each in rows]
    finally:
        session.close()


def test_the_rows_of_one_epoch_above_an_id_in_their_order(engine: Engine) -> None:
    engine.prepare((LEDGER,))
    ids = committed(engine, row(1, 1), row(2, 1), row(1, 1, EPOCH + 1), row(1, 2))
    newest = engine.open_newest(LEDGER, EPOCH, server=engine.facts())
    try:
        assert newest.read(0) == [(ids[0], 1, 1), (ids[1], 2, 1), (ids[3], 1, 2)]
        assert newest.read(ids[0]) == [(ids[1], 2, 1), (ids[3], 1, 2)]
        assert newest.read(ids[3]) == []
    finally:
        newest.close()


def test_a_row_is_seen_once_it_is_committed(
    engine: Engine, server: DatabaseServer
) -> None:
    engine.prepare((LEDGER,))
    table = "dbcheck.ledger" if server.name == "postgresql" else "ledger"
    newest = engine.open_newest(LEDGER, EPOCH)
    with contextlib.closing(connect(server.url, server.password)) as connection:
        connection.autocommit = False
        cursor = connection.cursor()
        cursor.execute(
            f"insert into {table} (epoch, session, seq, part, payload, checksum)"
            f" values ({EPOCH}, 1, 1, 0, 'x', 0)"
        )
        assert newest.read(0) == []
        connection.commit()
        assert [key[1:] for key in newest.read(0)] == [(1, 1)]
    newest.close()


def test_one_that_is_severed_raises_and_can_be_closed(engine: Engine) -> None:
    engine.prepare((LEDGER,))
    newest = engine.open_newest(LEDGER, EPOCH)
    newest.sever()
    with refused(
        ErrorId.CONNECTION_LOST, EngineError, naming="failed at newest_ledger"
    ):
        newest.read(0)
    newest.sever()
    newest.close()
    newest.close()
