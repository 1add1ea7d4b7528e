"""Ctrl-C while PostgreSQL takes its time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.rows.table import LEDGER
from tests.kit.interrupts import main as main
from tests.kit.servers import engine_of
from tests.kit.waiting import wait_until

_LATE_S = 20.0


@pytest.fixture
def engine(postgresql_server: DatabaseServer) -> Iterator[PostgresqlEngine]:
    made = engine_of(postgresql_server)
    assert isinstance(made, PostgresqlEngine)
    made.prepare((LEDGER,))
    yield made
    made.drop()


class Lock:
    """Keeps everybody out of the ledger; whoever waits for it is interrupted.

    late: the interrupt did not end the wait.
    """

    def __init__(self, engine: PostgresqlEngine, thread: int) -> None:
        self.late = False
        self.over = threading.Event()
        self._thread = thread
        self._holder, self._watcher = engine._open(), engine._open()
        self._run(self._holder, "begin")
        self._run(self._holder, "lock table dbcheck.ledger")
        self._waiting = threading.Thread(target=self._interrupt)

    def __enter__(self) -> Lock:
        self._waiting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._waiting.join()
        for link in (self._holder, self._watcher):
            link.close()

    def _interrupt(self) -> None:
        waiting = "select count(*) from pg_locks where not granted"
        wait_until(lambda: self._run(self._watcher, waiting) == 1, "somebody waits")
        signal.pthread_kill(self._thread, signal.SIGUSR1)
        self.late = not self.over.wait(_LATE_S)
        self._holder.close()

    def _run(self, link: PostgresqlLink, statement: str) -> object:
        with link.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()[0][0] if cursor.description else None


def test_an_interrupt_ends_a_long_question(engine: PostgresqlEngine, main: int) -> None:
    with Lock(engine, main) as lock, pytest.raises(KeyboardInterrupt):
        engine.prepare((LEDGER,))  # counts the rows, for an hour if need be
    assert not lock.late
    assert engine.ready() is None


def test_an_interrupt_in_a_transaction_leaves_nothing_of_it(
    engine: PostgresqlEngine, main: int
) -> None:
    with (
        Lock(engine, main) as lock,
        pytest.raises(KeyboardInterrupt),
        engine._open() as link,
        link.transaction(),
    ):
        link.rows("create_canary")
        link.rows("count_ledger", answer_s=600)
    assert not lock.late
    assert engine.canary(1) is None
