"""A server that came back with every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbcheck.model.places import Place
from dbcheck.model.server import ServerFacts
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import Definition, TableSpec
from tests.kit.bare_engine import BareEngine
from tests.kit.samples import FACTS, MANIFEST

ACKED = 5  # of session 1, before the rows are read


class FakeEngine(BareEngine):
    """A server that came back with every row; *reading* is called as they are read."""

    target = MANIFEST.writer.target
    log = ""
    identity = FACTS.identity
    rows = ACKED

    def __init__(
        self, reading: Callable[[], None], settings: Mapping[str, str]
    ) -> None:
        self._reading, self._settings = reading, settings

    def ready(self) -> None:
        return None

    def facts(self) -> ServerFacts:
        started_us = FACTS.started_us + 10**9
        return replace(
            FACTS,
            identity=self.identity,
            started_us=started_us,
            settings=self._settings,
        )

    def logged(self, since_us: int, **options: Any) -> str:
        return self.log

    def table_identity(self, table: TableSpec, **options: Any) -> str:
        return ""

    def table_definition(self, table: TableSpec, **options: Any) -> Definition:
        return Definition()

    def places(self, tables: Sequence[TableSpec]) -> tuple[Place, ...]:
        return ()

    def names_in_log(self, tables: Sequence[TableSpec]) -> tuple[str, ...]:
        return "`d`.`ledger`", "d/ledger"

    def survivors(
        self, tables: Sequence[TableSpec], **options: Any
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        schedule = Schedule(
            MANIFEST.seed, MANIFEST.epoch, MANIFEST.workload.payload_bytes
        )
        rows = [schedule.row(1, seq) for seq in range(1, self.rows + 1)]
        (table,) = tables
        yield table, RowBatch.of(row._replace(row_id=row.seq) for row in rows)
        self._reading()
