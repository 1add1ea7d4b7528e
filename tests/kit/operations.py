"""Operations and rows, as tests send and read them."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.ports.engine import Engine
from dbcheck.rows.acks import Row
from dbcheck.rows.operation import Operation, Statement
from dbcheck.rows.plans.classic import ClassicPlan
from dbcheck.rows.plans.plan import INSERT, InsertPlan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import RowBatch
from dbcheck.rows.table import LEDGER, TableSpec

INSERTS = InsertPlan(Schedule(7, 1, (40,)))
CLASSICS = ClassicPlan(Schedule(7, 1, ()))


def insert(row: Row) -> Operation:
    """Return the operation that inserts *row* into the ledger."""
    return Operation(row.session, row.seq, (Statement(INSERT.name, row[1:]),))


def batches(engine: Engine, table: TableSpec = LEDGER) -> Iterator[RowBatch]:
    """Yield the rows of *table*, as a reading of survivors does."""
    for _, batch in engine.survivors((table,)):
        yield batch
