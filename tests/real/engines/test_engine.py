"""The contract of ports.engine.Engine, on every real server."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import pytest
from sqlalchemy import make_url

from dbcheck.audit.rules import find_flagged_settings
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown, EngineError
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.sessions import commit
from dbcheck.model.server import is_restarted
from dbcheck.ports.connection import Session
from dbcheck.ports.engine import Engine
from dbcheck.rows.acks import Row
from dbcheck.rows.operation import Operation, StatementSpec
from dbcheck.rows.plans.classic import INSERT_ID, ClassicPlan
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import CLASSIC, LEDGER, TABLES, TableFacts, TableSpec
from tests.kit.lab_access import connect
from tests.kit.operations import batches, insert
from tests.kit.refusals import refused
from tests.kit.servers import engine_of
from tests.kit.sessions import run_on
from tests.kit.waiting import wait_until

EPOCH = 2**62  # the largest
SCHEDULE = Schedule(seed=2**63 - 1, epoch=EPOCH, payload_bytes=(1, 300, 4096, 131072))


def stored(engine: Engine, table: TableSpec = LEDGER) -> list[Row]:
    return [row for batch in batches(engine, table) for row in batch]


def held(engine: Engine, table: TableSpec = LEDGER) -> TableFacts:
    """Return what *table* holds, once it is there."""
    found = engine.prepare((table,))
    assert found.keys() == {table.name}
    return found[table.name]


def commit_all(
    engine: Engine,
    operations: Iterable[Operation],
    statements: Sequence[StatementSpec] = (INSERT,),
) -> list[int]:
    session = engine.open_session(statements)
    try:
        return [commit(session, operation) for operation in operations]
    finally:
        session.close()


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[Exception]]:
    """Run *call* in a thread; the list receives what it raises."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def commit_until_broken(session: Session, acked: list[int]) -> None:
    for seq in range(1, 2**32):
        commit(session, insert(SCHEDULE.row(1, seq)))
        acked.append(seq)


@pytest.mark.wide_with("mysql")
def test_rows_come_back_as_they_were_sent(engine: Engine) -> None:
    engine.check((INSERT,))
    assert held(engine).rows_by_epoch == {}
    every_byte = Row(0, EPOCH, 65535, 2**32 - 1, 0, bytes(range(256)), 2**32 - 1)
    rows = [every_byte, *(SCHEDULE.row(7, seq) for seq in range(1, 41))]
    assert {len(row.payload) for row in rows} >= {1, 300, 4096, 131072}
    ids = commit_all(engine, map(insert, rows))
    expected = [row._replace(row_id=i) for row, i in zip(rows, ids, strict=True)]
    assert sorted(stored(engine)) == sorted(expected)
    assert all(isinstance(r.payload, bytes) for r in stored(engine))
    table = held(engine)
    assert table.rows_by_epoch == {EPOCH: len(rows)}
    assert table.row_id_max == max(ids)
    for row in expected:
        assert engine.row(LEDGER, row.row_id) == row
    assert not engine.row(LEDGER, max(ids) + 1)
    engine.check((INSERT,))


def test_a_table_has_an_identity_in_a_database_of_any_name(
    server: DatabaseServer,
) -> None:
    quote = '"' if server.name == "postgresql" else "`"
    with contextlib.closing(connect(server.url, server.password)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"create database {quote}db-check{quote}")
        try:
            url = make_url(server.url).set(database="db-check")
            engine = open_engine(url.render_as_string(), server.password)
            assert held(engine).identity
        finally:
            cursor.execute(f"drop database {quote}db-check{quote}")


def test_a_table_that_was_replaced_is_another_one(
    engine: Engine, server: DatabaseServer
) -> None:
    first = held(engine).identity
    commit_all(engine, [insert(SCHEDULE.row(7, seq)) for seq in range(1, 9)])
    seen = []
    with contextlib.closing(connect(server.url, server.password)) as connection:
        for statement in ("delete from", "truncate table", "truncate table"):
            connection.cursor().execute(f"{statement} dbcheck.ledger")
            seen.append(engine.table_identity(LEDGER))
    assert seen[0] == first != ""
    engine.drop()
    assert not engine.table_identity(LEDGER)
    seen.append(held(engine).identity)
    assert len(set(seen)) == 4


def test_the_classic_table_holds_ids_alone(engine: Engine) -> None:
    assert held(engine, CLASSIC).rows_by_epoch == {0: 0}
    plan = ClassicPlan(Schedule(seed=1, epoch=EPOCH, payload_bytes=()))
    operations = [plan.operation(1, seq) for seq in range(1, 6)]
    ids = commit_all(engine, operations, plan.statements)
    expected = [Row(row_id, 0, 0, 0, 0, b"", 0) for row_id in ids]
    assert sorted(stored(engine, CLASSIC)) == expected
    assert held(engine, CLASSIC).rows_by_epoch == {0: 5}
    assert engine.row(CLASSIC, ids[-1]) == expected[-1]
    engine.check((INSERT_ID,))


FILL = {
    "postgresql": "insert into dbcheck.ledger"
    " (epoch, session, seq, part, payload, checksum)"
    " select 5, 1, n, 0, repeat('x', 1000)::bytea, 1 from generate_series(1, 4001) n",
    "mysql": "insert into ledger (epoch, session, seq, part, payload, checksum)"
    " with recursive numbers (n) as"
    " (select 1 union all select n + 1 from numbers where n < 1000)"
    " select 5, 1, n + 1000 * k, 0, repeat('x', 1000), 1 from numbers,"
    " (select 0 as k union select 1 union select 2 union select 3) thousands"
    " union all select 5, 1, 4001, 0, repeat('x', 1000), 1",
}
FILLED = 4001


def fill(engine: Engine) -> None:
    """Put FILLED rows into the ledger at once."""
    assert isinstance(engine, PostgresqlEngine | MysqlEngine)
    engine.prepare((LEDGER,))
    session = engine.open_session((INSERT,))
    run_on(session, FILL[engine.family])
    session.close()


def test_rows_are_streamed_in_small_batches(engine: Engine) -> None:
    fill(engine)
    sizes = [len(batch) for batch in batches(engine)]
    assert sum(sizes) == FILLED
    assert max(sizes) <= 2100  # two megabytes


def test_any_row_that_the_columns_allow_comes_back(engine: Engine) -> None:
    engine.prepare((LEDGER,))
    rows = [
        Row(0, -(2**63), -(2**31), -(2**63), -(2**15), b"", -(2**63)),
        Row(0, 2**63 - 1, 2**31 - 1, 2**63 - 1, 2**15 - 1, bytes(251), 2**63 - 1),
        Row(0, 0, 0, 0, 0, os.urandom(5 << 20), 0),
        *(Row(0, 1, 1, 1, 0, bytes(n), 1) for n in (0, 1, 250, 252, 65535, 65536)),
    ]
    commit_all(engine, map(insert, rows))
    found = stored(engine)
    assert [row._replace(row_id=0) for row in found] == rows
    assert sorted({row.row_id for row in found}) == [row.row_id for row in found]


def test_survivors_are_as_of_one_moment(engine: Engine) -> None:
    fill(engine)
    reading = batches(engine)
    found = len(next(reading))
    commit_all(engine, [insert(SCHEDULE.row(2, 1))])
    assert found + sum(len(batch) for batch in reading) == FILLED
    assert len(stored(engine)) == FILLED + 1


def test_a_reader_that_stops_early_leaves_no_connection(engine: Engine) -> None:
    fill(engine)
    reading = engine.survivors((LEDGER,))
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert engine.drop()  # would wait for a transaction that is still open


def test_without_a_table_there_are_no_survivors(engine: Engine) -> None:
    with refused(ErrorId.TABLE_LOST, EngineError, naming="survivors"):
        stored(engine)


def test_drop_names_what_it_dropped(engine: Engine) -> None:
    engine.prepare(TABLES)
    names = engine.drop()
    assert {f"dbcheck.{table.name}" for table in TABLES} <= set(names)
    assert "dbcheck" not in names  # it could be the database
    assert engine.drop() == []


def test_no_call_blocks_on_a_silent_server(
    engine: Engine, server: DatabaseServer
) -> None:
    """Nor does close(), with an operation half sent."""
    engine.prepare((LEDGER,))
    session = engine.open_session((INSERT,))
    wire = socket.socket(fileno=os.dup(session.fileno()))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    server.freeze()
    row = SCHEDULE.row(1, 1)._replace(payload=bytes(12 << 20))
    assert not session.send(insert(row))
    assert not session.flush()
    assert session.receive() is None
    session.close()
    wire.close()


def test_what_is_sent_and_answered_in_pieces_is_whole(
    engine: Engine, server: DatabaseServer
) -> None:
    engine.prepare((LEDGER,))
    session = engine.open_session((INSERT,))
    wire = socket.socket(fileno=os.dup(session.fileno()))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    wire.close()
    row = SCHEDULE.row(1, 1)._replace(payload=os.urandom(8 << 20))
    server.freeze()
    assert not session.send(insert(row))
    server.thaw()
    until = select.poll()
    until.register(session, select.POLLOUT)
    while not session.flush():
        until.poll(1000)
    until.modify(session, select.POLLIN)
    while (row_id := session.receive()) is None:
        until.poll(1000)
    assert stored(engine) == [row._replace(row_id=row_id)]
    assert commit(session, insert(SCHEDULE.row(1, 2))) > row_id
    session.close()


@pytest.mark.wide_with("mysql")
def test_a_kill_leaves_at_most_one_commit_unknown(own_server: DatabaseServer) -> None:
    own_server.start()
    engine = engine_of(own_server)
    engine.prepare((LEDGER,))
    before = engine.facts()
    session = engine.open_session((INSERT,))
    acked: list[int] = []
    thread, raised = in_thread(lambda: commit_until_broken(session, acked))
    while len(acked) < 200:
        assert thread.is_alive()
    own_server.kill()
    thread.join(10)
    session.close()
    assert isinstance(raised[0], CommitUnknown)
    assert engine.ready() is not None
    own_server.start()
    assert engine.ready() is None
    survivors = {row.seq: row for row in stored(engine)}
    assert survivors.keys() - {acked[-1] + 1} == set(acked)
    for seq, row in survivors.items():
        assert row._replace(row_id=0) == SCHEDULE.row(1, seq)
    after = engine.facts()
    assert after.identity == before.identity
    assert after.settings == before.settings
    error_us = before.started_error_us + after.started_error_us
    assert after.started_us >= before.started_us - error_us
    if before.started_error_us == 1:
        assert after.started_us > before.clock_us


def test_facts_tell_the_server_apart(engine: Engine, server: DatabaseServer) -> None:
    facts = engine.facts()
    product = "mariadb" if server.name == "myrocks" else server.name
    assert facts.product.lower() == product
    assert facts.started_us <= facts.clock_us + facts.started_error_us
    assert len(facts.identity) >= 3
    assert any(str(server.data) in value for value in facts.identity.values())
    assert facts.unreadable == {}
    flags = {
        flag.rule.id for flag in find_flagged_settings(engine.family, facts.settings)
    }
    # MariaDB's default of that setting is the one that is warned of.
    assert flags == ({"my-rocksdb-wal-torn"} if server.name == "myrocks" else set())


@pytest.mark.wide_with("mysql")
def test_a_start_is_told_the_same_until_the_next(own_server: DatabaseServer) -> None:
    own_server.start()
    engine = engine_of(own_server)
    before = facts = engine.facts()
    while facts.clock_us < before.clock_us + 2_500_000:
        time.sleep(0.1)
        facts = engine.facts()
        assert facts.started_us == before.started_us
    own_server.kill()
    own_server.start()
    first = engine.facts()
    wait_until(
        lambda: engine.facts().start_ambiguous_us <= 0, "a later start can be told"
    )
    own_server.kill()
    own_server.start()
    for earlier, later in ((before, first), (first, engine.facts())):
        assert is_restarted(earlier, later), (earlier, later)


def test_the_canary_of_another_cycle_is_left_alone(engine: Engine) -> None:
    engine.prepare((LEDGER,))
    for epoch in (1, 2):
        if held := engine.plant_canary(epoch):
            held.close()
    assert engine.canary(1) is True
    assert engine.canary(2) is True
    assert engine.canary(3) is False


def test_a_checkpoint_is_made_or_explained(engine: Engine) -> None:
    why = engine.checkpoint()
    assert bool(why) is (engine.family == "mysql")


def test_a_refused_commit_is_no_unknown_one(engine: Engine) -> None:
    engine.prepare((LEDGER,))
    session = engine.open_session((INSERT,))
    try:
        too_large = SCHEDULE.row(1, 1)._replace(part=2**15)
        with refused(
            ErrorId.VALUE_DOES_NOT_FIT, EngineError, naming="does not fit its column"
        ) as caught:
            commit(session, insert(too_large))
        assert not isinstance(caught.value, CommitUnknown)
        commit(session, insert(SCHEDULE.row(1, 2)))  # the session goes on
    finally:
        session.close()
    assert [row.seq for row in stored(engine)] == [2]


def test_a_wrong_password_is_never_repeated(server: DatabaseServer) -> None:
    engine = open_engine(server.url, "wrong-and-secret")
    why = engine.ready()
    assert why is not None and "wrong-and-secret" not in why
    assert "where the password comes from" in why  # it is shown while one waits
    with refused(
        ErrorId.PASSWORD_REFUSED, EngineError, naming="cannot connect to"
    ) as caught:
        engine.facts()
    assert "wrong-and-secret" not in str(caught.value)
    assert caught.value.hint


def test_a_silent_server_is_not_ready(engine: Engine, server: DatabaseServer) -> None:
    server.freeze()
    assert engine.ready() is not None


@pytest.mark.wide_with("mysql")
def test_a_server_that_dies_ends_the_survivors(own_server: DatabaseServer) -> None:
    own_server.start()
    engine = engine_of(own_server)
    engine.prepare((LEDGER,))
    large = Schedule(1, 5, (131072,))
    commit_all(engine, [insert(large.row(1, seq)) for seq in range(1, 400)])
    reading = batches(engine)
    next(reading)
    own_server.kill()
    with refused(ErrorId.CONNECTION_LOST, EngineError, naming="survivors"):
        list(reading)
