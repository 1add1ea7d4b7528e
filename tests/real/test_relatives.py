"""YugabyteDB's engine on a PostgreSQL that stands in for it, with its answers recorded.

Its server is PostgreSQL's code above another storage.  So the statements that both
share are shown to work here, and what the storage would answer is raised by a trigger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from dbcheck.core.plans.insert import INSERT
from dbcheck.core.schedule import Schedule
from dbcheck.core.table import LEDGER
from dbcheck.engines.postgresql import check
from dbcheck.engines.postgresql.yugabytedb import YugabyteEngine
from dbcheck.errors import CommitUnknown, EngineError
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.commit import commit
from tests.kit.lab_access import connect
from tests.kit.operations import batches, insert

SCHEDULE = Schedule(5, 7, (100,))
NODE = "d42d033f334242b2becbc43e028f64a2"


@pytest.fixture
def engine(
    postgresql_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[YugabyteEngine]:
    """Give the engine of a server that answers yb_servers() and names itself so."""
    server = postgresql_server
    monkeypatch.setattr(check, "product_of", lambda _: check.YUGABYTEDB)
    with contextlib.closing(connect(server.url, server.password)) as connection:
        cursor = connection.cursor()
        # A test before may have left tables, with which drop() leaves the schema.
        cursor.execute("drop schema if exists dbcheck cascade")
        cursor.execute(
            "create function pg_catalog.yb_servers(out uuid text) returns setof text"
            f" language sql as $$ select '{NODE}'::text $$"
        )
        found = YugabyteEngine(
            server.url.replace("postgresql+psycopg2", "yugabytedb"), server.password
        )
        try:
            yield found
        finally:
            found.drop()
            cursor.execute("drop function pg_catalog.yb_servers()")


def test_rows_are_committed_and_read_by_what_both_share(engine: YugabyteEngine) -> None:
    engine.check((INSERT,))
    assert engine.ready() is None
    facts = engine.facts()
    assert facts.identity["yb_servers"] == NODE
    assert engine.prepare((LEDGER,), server=facts)[LEDGER.name].identity == ""
    rows = [SCHEDULE.row(1, seq) for seq in range(1, 6)]
    with contextlib.closing(engine.open_session((INSERT,), server=facts)) as session:
        ids = [commit(session, insert(row)) for row in rows]
    assert sum(map(len, batches(engine))) == len(set(ids)) == len(rows)
    newest = engine.open_newest(LEDGER, SCHEDULE.epoch)
    with contextlib.closing(newest):
        assert {one.seq for one in newest.read(0)} == {1, 2, 3, 4, 5}
    assert engine.drop() == ["dbcheck.ledger", "dbcheck"]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("23514", EngineError),  # a condition does not hold: nothing was committed
        ("40001", CommitUnknown),  # try again: the session goes on with the next
        ("40003", CommitUnknown),  # the result is ambiguous
        ("XX000", CommitUnknown),  # a time-out between the nodes
        ("08006", CommitUnknown),
    ],
)
def test_only_an_error_about_the_statement_is_a_refusal(
    state: str, error: type[EngineError], engine: YugabyteEngine
) -> None:
    engine.prepare((LEDGER,))
    with contextlib.closing(engine.open_session((INSERT,))) as session:
        with engine._open() as link:
            cursor = link.connection.cursor()
            cursor.execute(
                "create function dbcheck.fail() returns trigger language plpgsql as $$"
                f" begin raise exception 'no' using errcode = '{state}'; end $$"
            )
            cursor.execute(
                "create trigger fail before insert on dbcheck.ledger"
                " execute function dbcheck.fail()"
            )
        try:
            with pytest.raises(EngineError, match="no") as caught:
                commit(session, insert(SCHEDULE.row(1, 1)))
            assert type(caught.value) is error
        finally:
            with engine._open() as link:
                cursor = link.connection.cursor()
                cursor.execute("drop trigger fail on dbcheck.ledger")
                cursor.execute("drop function dbcheck.fail()")
