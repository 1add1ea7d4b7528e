"""Tables are filled before the load, and what stands in them is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, TargetChanged
from dbcheck.config import workload_file
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.tables import fill_tables
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.rows import fill
from dbcheck.rows.fill import PARTS, Fill
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import (
    CLASSIC,
    ITEM,
    KEYED,
    LEDGER,
    REGISTER,
    TableFacts,
    TableSpec,
)
from dbcheck.rows.workload import Workload
from tests.kit.lab_access import connect
from tests.kit.operations import batches
from tests.kit.refusals import refused
from tests.kit.rigs import Said, rig_by_hand

SIZES = (1, 128, 250, 251, 8192, 70_000)
ROWS = 700
FILLED = (LEDGER, ITEM, REGISTER, CLASSIC)


@pytest.fixture(autouse=True)
def nothing_there(engine: Engine) -> Iterator[None]:
    """Leave no rows for the tests of others."""
    engine.drop()
    yield
    engine.drop()


def schedule(epoch: int, sizes: tuple[int, ...] = SIZES) -> Schedule:
    return Schedule(7, epoch, sizes)


def insert(rows: int, name: str = "insert") -> Workload:
    return replace(workload_file.load(name), rows_before=rows)


def rows_of(engine: Engine, load: Workload) -> dict[str, int]:
    """Return how many rows each table holds."""
    tables = engine.prepare(tables_of(load))
    return {name: sum(one.rows_by_epoch.values()) for name, one in tables.items()}


class Ager:
    """Ages the tables of one server, each time with another epoch."""

    def __init__(self, engine: Engine, folder: Path, epoch: int) -> None:
        self.said = Said()
        self.rig = rig_by_hand(engine, folder, self.said)
        self._server = engine.facts()
        self._epoch = epoch

    def __call__(self, load: Workload, known: Known = NOTHING_KNOWN) -> Known:
        self._epoch += 1
        rows = schedule(self._epoch, load.payload_bytes)
        return fill_tables(self.rig, load, rows, self._server, known)


@contextlib.contextmanager
def ager(engine: Engine, folder: Path, epoch: int = 2**61) -> Iterator[Ager]:
    made = Ager(engine, folder, epoch)
    with contextlib.closing(made.rig.witness):
        yield made


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("table", FILLED, ids=lambda table: table.name)
def test_filled_rows_are_those_of_the_schedule(
    engine: Engine, table: TableSpec
) -> None:
    engine.prepare((table,))
    rows = Fill(schedule(2**62, SIZES if table.columns == KEYED else ()), ROWS)
    assert sum(engine.fill(table, rows)) == ROWS
    inspector = Inspector(rows.schedule, range(PARTS))
    found = [inspector.inspect(batch) for batch in batches(engine, table)]
    records = np.concatenate([records for records, _ in found])
    assert len(records) == ROWS
    assert sum(different.size for _, different in found) == 0
    if table is not CLASSIC:
        numbers = records["session"] * PARTS + records["part"]
        assert sorted(numbers.tolist()) == list(range(ROWS))
        assert set(records["epoch"].tolist()) == {2**62}


@pytest.mark.parametrize("server", ["mysql", "mariadb"], indirect=True)
def test_a_fill_keeps_its_packets_below_the_limit_of_the_server(
    engine: Engine, server: DatabaseServer
) -> None:
    with contextlib.closing(connect(server.url, server.password)) as connection:
        cursor = connection.cursor()
        cursor.execute("select @@global.max_allowed_packet")
        ((limit,),) = cursor.fetchall()
        cursor.execute("set global max_allowed_packet = 131072")
        try:
            engine.prepare((LEDGER,))
            rows = Fill(schedule(2**62), ROWS)
            assert sum(engine.fill(LEDGER, rows)) == ROWS
        finally:
            cursor.execute(f"set global max_allowed_packet = {limit}")


@pytest.mark.wide_with("mysql")
def test_only_what_is_missing_is_filled_in(engine: Engine, tmp_path: Path) -> None:
    with ager(engine, tmp_path) as aged:
        for rows, expected in ((500, 500), (300, 500), (800, 800)):
            load = insert(rows, "mixed")
            known = aged(load)
            held = rows_of(engine, load)
            assert set(held.values()) == {expected}
            assert known.complete_tables(engine.prepare(tables_of(load))).keys() == set(
                held
            )
        assert aged.said.text.count("item: 500 of 500 rows") == 1
        assert aged.said.text.count("item: 300 of 300 rows") == 1


@pytest.mark.wide_with("mysql")
def test_rows_that_stand_there_are_known_to_be_sound(
    engine: Engine, server: DatabaseServer, tmp_path: Path
) -> None:
    with ager(engine, tmp_path) as aged:
        aged(insert(100))
        with contextlib.closing(connect(server.url, server.password)) as connection:
            change = "update dbcheck.ledger set payload = %s where part = 40"
            connection.cursor().execute(change, (b"other",))
        known = aged(insert(200))
    now = known.of_table(LEDGER.name, engine.prepare((LEDGER,))[LEDGER.name])
    assert len(now.different) == 1
    assert set(now.sound) == set(now.rows_by_epoch) == {2**61 + 1, 2**61 + 2}


@pytest.mark.wide_with("mysql")
def test_what_a_campaign_has_read_is_not_read_again(
    engine: Engine, tmp_path: Path
) -> None:
    with ager(engine, tmp_path) as aged:
        known = aged(insert(100))
        assert aged.said.text.count("reading the rows") == 1
        assert aged(insert(100), known) is known
        assert aged.said.text.count("reading the rows") == 1


@pytest.mark.wide_with("mysql")
def test_a_fill_that_was_ended_is_completed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "_TRANSACTION_ROWS", 64)
    ending = cast(Engine, Changed(engine))
    with ager(ending, tmp_path) as ended, pytest.raises(KeyboardInterrupt):
        ended(insert(500))
    assert rows_of(engine, insert(0)) == {"ledger": 128}
    with ager(engine, tmp_path, epoch=2**60) as aged:
        aged(insert(500))
    assert rows_of(engine, insert(0)) == {"ledger": 500}


@pytest.mark.wide_with("mysql")
def test_rows_that_are_stored_otherwise_are_seen_before_the_load(
    engine: Engine, server: DatabaseServer, tmp_path: Path
) -> None:
    for change, text in (
        ("delete from dbcheck.ledger where part = 7", "99 are there, 0 of them"),
        ("update dbcheck.ledger set checksum = 1 where part = 7", "100 are there, 1"),
    ):
        engine.drop()
        changed = cast(Engine, Changed(engine, server, change))
        with (
            ager(changed, tmp_path) as aged,
            refused(ErrorId.ROWS_ALTERED_WHEN_STORED, EngineError, naming=text),
        ):
            aged(insert(100))


@pytest.mark.wide_with("mysql")
def test_nothing_is_written_where_rows_of_earlier_cycles_are_gone(
    engine: Engine, tmp_path: Path
) -> None:
    left = TableFacts({5: 3}, 3, {5: 1})
    known = Known(run="20260102-030405-a1b2c3", tables={LEDGER.name: left})
    with (
        ager(engine, tmp_path) as aged,
        refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming="at least 3"),
    ):
        aged(insert(100), known)
    assert rows_of(engine, insert(0)) == {"ledger": 0}


class Changed:
    """An engine whose fill is interrupted, or whose rows are changed after it."""

    def __init__(
        self, engine: Engine, server: DatabaseServer | None = None, change: str = ""
    ) -> None:
        self._engine, self._server, self._change = engine, server, change

    def fill(
        self, table: TableSpec, rows: Fill, *, server: ServerFacts | None = None
    ) -> Iterator[int]:
        counts = self._engine.fill(table, rows, server=server)
        if self._server is None:
            yield next(counts)
            yield next(counts)
            raise KeyboardInterrupt
        yield from counts
        where = connect(self._server.url, self._server.password)
        with contextlib.closing(where) as connection:
            connection.cursor().execute(self._change)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)
