"""What readers hand over of the rows that they see, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, WitnessError
from dbcheck.base.system import now_us
from dbcheck.load.readers import Readers
from dbcheck.model.witness import Watermark
from dbcheck.ports.connection import KeyRead
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.acks import AckValues
from tests.kit.refusals import refused


class Table:
    """A connection that shows what was last put into it, and notes what was asked."""

    def __init__(self) -> None:
        self.rows: list[KeyRead] = []
        self.asked: list[int] = []
        self.closed = 0
        self._severed = threading.Event()
        self.read_again = threading.Semaphore(0)

    def read(self, after_id: int) -> Sequence[KeyRead]:
        if self._severed.is_set():
            raise EngineError("severed", id=ErrorId.STATEMENT_FAILED)
        self.asked.append(after_id)
        self.read_again.release()
        return list(self.rows)

    def show(self, *rows: tuple[int, int, int]) -> None:
        """Put rows in, and wait until two reads have begun after that."""
        self.rows = [KeyRead(*row) for row in rows]
        while self.read_again.acquire(blocking=False):
            pass
        for _ in range(2):
            assert self.read_again.acquire(timeout=30)

    def sever(self) -> None:
        self._severed.set()

    def close(self) -> None:
        self.closed += 1


class Log:
    """A log on a witness that confirms at once."""

    def __init__(self, waiting: int = 0, failure: str = "") -> None:
        self.rows: list[AckValues] = []
        self.waiting, self.failure = waiting, failure
        self.closed = self.abandoned = 0

    def append_many(self, rows: Sequence[AckValues]) -> None:
        self.rows += rows

    def unconfirmed(self) -> int:
        return self.waiting

    def watermark(self) -> Watermark:
        return Watermark(1, len(self.rows), "")

    def abandon(self) -> None:
        self.abandoned += 1

    def close(self) -> Watermark:
        self.closed += 1
        if self.failure:
            raise WitnessError(self.failure, id=ErrorId.WITNESS_NOT_CONFIRMING)
        return self.watermark()


MADE: list[Readers] = []


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    """End the threads of a test that fails, too."""
    yield
    while MADE:
        MADE.pop().end()


def readers_of(log: Log, *tables: Table, **options: Any) -> Readers:
    connections = iter(tables)
    made = Readers(
        len(tables),
        lambda: next(connections),
        lambda: cast(WitnessLog, log),
        **options,
    )
    MADE.append(made)
    return made


def test_each_row_is_handed_over_once_when_it_was_read() -> None:
    table, other, log = Table(), Table(), Log()
    readers = readers_of(log, table, other)
    readers.begin()
    before_us = now_us()
    for each in (table, other):
        each.show((7, 1, 1), (8, 2, 1))
    table.show((7, 1, 1), (8, 2, 1), (9, 1, 2))
    assert readers.end() == ""
    assert [row[:3] for row in log.rows] == [(1, 1, 7), (2, 1, 8), (1, 2, 9)]
    assert all(before_us <= row[3] <= now_us() for row in log.rows)
    assert (readers.seen, readers.watermark) == (3, Watermark(1, 3, ""))
    assert (table.closed, other.closed, log.closed) == (1, 1, 1)


def test_a_row_behind_one_that_its_session_sent_later_is_left_out() -> None:
    table, log = Table(), Log()
    readers = readers_of(log, table)
    readers.begin()
    table.show((9, 1, 2))
    table.show((7, 1, 1), (9, 1, 2))
    readers.end()
    assert [row[:3] for row in log.rows] == [(1, 2, 9)]


def test_rows_whose_key_no_operation_has_are_left_out() -> None:
    table, log = Table(), Log()
    readers = readers_of(log, table)
    readers.begin()
    table.show((-1, 1, 1), (1, -1, 1), (2, 1 << 16, 1), (3, 1, 0), (4, 1, 1 << 32))
    readers.end()
    assert log.rows == []


def test_a_tail_is_read_again_and_nothing_from_before_the_load() -> None:
    table, log = Table(), Log()
    readers = readers_of(log, table, after_id=1000, sessions=50)
    readers.begin()
    table.show((1100, 1, 1))
    table.show((2000, 1, 2))
    readers.end()
    assert table.asked[0] == min(table.asked) == 1000
    assert table.asked[-1] == 2000 - 250


def test_readers_wait_for_a_witness_that_lags() -> None:
    table, log = Table(), Log(waiting=1 << 20)
    readers = readers_of(log, table)
    readers.begin()
    assert not table.read_again.acquire(timeout=0.1)
    log.waiting = 0
    assert table.read_again.acquire(timeout=30)
    readers.end()


def test_one_whose_connection_broke_is_not_replaced() -> None:
    broken, other, log = Table(), Table(), Log()
    broken.sever()
    readers = readers_of(log, broken, other)
    readers.begin()
    other.show((7, 1, 1))
    readers.end()
    assert broken.asked == []
    assert readers.seen == 1


def test_a_server_that_refuses_a_reader_leaves_nothing_open() -> None:
    table, log = Table(), Log()
    connections = iter([table])

    def connect() -> Table:
        try:
            return next(connections)
        except StopIteration:
            raise EngineError(
                "too many connections", id=ErrorId.STATEMENT_FAILED
            ) from None

    readers = Readers(2, connect, lambda: cast(WitnessLog, log))
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="too many"):
        readers.begin()
    readers.end()
    assert (table.closed, log.closed) == (1, 1)


def test_what_the_witness_did_not_confirm_is_told() -> None:
    log = Log(failure="gone")
    readers = readers_of(log, Table())
    readers.begin()
    assert readers.end().endswith("rows that were seen: gone")
    assert readers.end() == ""
    readers = readers_of(log, Table())
    readers.begin()
    readers.abandon()
    assert (log.abandoned, log.closed) == (1, 2)


def test_without_readers_there_is_no_log() -> None:
    readers = Readers(0)
    readers.begin()
    assert readers.end() == ""
    readers.abandon()
    assert (readers.seen, readers.watermark) == (0, None)
