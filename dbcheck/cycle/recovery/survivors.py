"""Reads the rows that survived a cut, judges their content, stores and compares."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, IndexDamaged, TableLost
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.stored_run import RowStore
from dbcheck.model.records import Manifest, StoredRows
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Progress, Unit
from dbcheck.ports.site import Node
from dbcheck.rows.acks import Row
from dbcheck.rows.differences import CHANGED_MAX, ChangedRow, Digest, find_rows_only_in
from dbcheck.rows.earlier import EpochTotals
from dbcheck.rows.loss import IndexLoss
from dbcheck.rows.survivors import RECORD, Records, RowBatch
from dbcheck.rows.table import TableFacts, TableSpec
from dbcheck.runs.folder import RunFolder

Read = Callable[[], Iterator[Records]]  # begins a reading of rows
_ROWS_AT_ONCE = 1 << 16
DIFFERENT_MAX = 1000  # different rows that are kept whole; all are counted and listed
# Bytes of payloads that are kept of such rows; a sound server's have half as many.
DIFFERENT_BYTES_MAX = 256 << 20
# A server may send _ROWS_FACTOR times the expected rows, and _ROWS_MORE more.  Beyond
# that, something sends rows that no table holds.
_ROWS_FACTOR, _ROWS_MORE = 4, 10_000_000
# The number of sent operations that is assumed if the client's record of the load is
# lost.
_SENT_UNKNOWN = 1_000_000_000


@dataclass(slots=True)
class Comparison:
    """Adds up how tables differ between a first reading and a second one.

    folder:  where the rows of the second reading are kept meanwhile.
    rows:    how many rows the second readings found.
    count:   how many rows only one of the two readings found.
    new:     how many of these only the second reading found.
    changed: the first rows that only one reading found, of each reading.
    """

    folder: Path
    rows: int = 0
    count: int = 0
    new: int = 0
    changed: list[ChangedRow] = field(default_factory=list)

    def add(self, table: TableSpec, first: Read, second: Read) -> None:
        """Compare one table.

        first: begins a reading that can be repeated.  second: begins one that is made
        only once.
        """
        with tempfile.TemporaryFile(dir=self.folder) as spool:
            earlier, later = Digest(), Digest()
            for records in second():
                later.add(records)
                spool.write(records.tobytes())
            for records in first():
                earlier.add(records)
            self.rows += later.rows
            if earlier == later:
                return
            for part in find_rows_only_in(first(), _read_spool(spool)):
                self._note(table, part, was_there=True)
            for part in find_rows_only_in(_read_spool(spool), first()):
                self._note(table, part, was_there=False)

    def _note(self, table: TableSpec, records: Records, *, was_there: bool) -> None:
        self.count += len(records)
        self.new += 0 if was_there else len(records)
        alike = sum(row.was_there is was_there for row in self.changed)
        room = CHANGED_MAX - alike
        for row_id, epoch, session, seq, part, _, _ in records[:room].tolist():
            self.changed.append(
                ChangedRow(table.name, row_id, epoch, session, seq, part, was_there)
            )


def compare_stored(
    found: Comparison, table: TableSpec, run: RunFolder, rows: Read
) -> None:
    """Compare the run's rows of a table on another node with the stored rows.

    rows: begins a reading of the table there, with the rows of all runs.
    """
    epoch, stored = run.manifest().epoch, run.after().stored_rows(table.name)
    found.add(
        table,
        lambda: _filter_epoch(run.survivors(table.name, stored), epoch),
        lambda: _filter_epoch(rows(), epoch),
    )


def _filter_epoch(parts: Iterable[Records], epoch: int) -> Iterator[Records]:
    for records in parts:
        yield records[records["epoch"] == epoch]


def _read_spool(spool: IO[bytes]) -> Iterator[Records]:
    """Yield the rows that were written to *spool*."""
    spool.seek(0)
    while content := spool.read(_ROWS_AT_ONCE * RECORD.itemsize):
        yield np.frombuffer(content, RECORD)


def limit_survivors(
    engine: Engine, tables: Sequence[TableSpec], facts: ServerFacts, rows: int
) -> Iterator[tuple[TableSpec, RowBatch]]:
    """Yield what Engine.survivors() yields; raise EngineError if it is far too much.

    rows: the most rows that the tables together should hold.
    """
    most, read = _ROWS_FACTOR * rows + _ROWS_MORE, 0
    for table, batch in engine.survivors(tables, server=facts):
        read += len(batch)
        if read > most:
            raise EngineError(
                f"{engine.target} sends more than {most:,} rows, far more than"
                " were written",
                id=ErrorId.TOO_MANY_ROWS,
                hint="Check what answers at that address, and what else writes"
                " to the tables; then run dbcheck reconcile.",
            )
        yield table, batch


class Survivors:
    """The rows of the tables, inspected.

    facts: of the server whose rows they must be.
    node:  the node of that server, None for the node whose rows decide.
    index: why a table's index disagrees with it, known once all tables were read.
    sides_lost: side table that the server names and cannot open -> its error.
    """

    def __init__(
        self,
        rig: Rig,
        run: RowStore,
        manifest: Manifest,
        facts: ServerFacts,
        node: Node | None = None,
    ) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self._engine = (node or rig.site.reader).engine
        self._facts = facts
        self._plan = manifest.plan()
        self.index: IndexLoss | None = None
        self.sides_lost: dict[str, str] = {}
        tables = (*self._plan.tables, *self._plan.housekeeping_tables)
        self._totals = {table: EpochTotals() for table in tables}

    def facts_of(self, table: TableSpec) -> TableFacts:
        """Return the facts of the stored *table*, counted as Engine.prepare() does."""
        totals = self._totals[table]
        weights = totals.weights if table.has_key else {}
        return TableFacts(dict(totals.rows), totals.row_id_max, weights)

    def store(self) -> dict[str, StoredRows]:
        """Store every row without its payload; rows that differ are stored whole."""
        stored: dict[str, StoredRows] = {}
        batches = self._batches(self._plan.tables)
        for table, own in groupby(batches, key=lambda found: found[0]):
            stored[table.name] = self._written(table, (batch for _, batch in own))
        for table in self._plan.tables:
            if table.name not in stored:  # it has no row, and so no batch
                stored[table.name] = self._written(table, ())
        return stored

    def store_sides(self) -> dict[str, StoredRows]:
        """Store the rows of the side tables that are there and can be opened."""
        stored: dict[str, StoredRows] = {}
        sides = self._plan.housekeeping_tables
        found = self._engine.present(sides, server=self._facts) if sides else ()
        for table in found:
            batches = (batch for _, batch in self._batches((table,)))
            try:
                stored[table.name] = self._written(table, batches)
            except TableLost as error:
                self._rig.site.failure()  # raises if it was the drive that went
                self.sides_lost[table.name] = str(error)
        return stored

    def _written(self, table: TableSpec, batches: Iterable[RowBatch]) -> StoredRows:
        return self._run.write_survivors(table.name, self._inspect(table, batches))

    def inspected(self, table: TableSpec) -> Iterator[Records]:
        """Yield the rows that are in *table* now, and store nothing."""
        inspector = self._plan.inspector(table)
        for _, batch in self._batches((table,)):
            records, _ = inspector.inspect(batch)
            yield records

    def again(self, table: TableSpec) -> Iterator[Records]:
        """Yield the rows of this run that are in *table* now; count all rows anew."""
        totals = self._totals[table] = EpochTotals()
        for records in self.inspected(table):
            totals.add(records)
            yield records[records["epoch"] == self._manifest.epoch]

    def _batches(
        self, tables: Sequence[TableSpec]
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        expected = {table: self._expect_rows(table) for table in tables}
        done: Counter[TableSpec] = Counter()
        try:
            for table, batch in limit_survivors(
                self._engine, tables, self._facts, self._most()
            ):
                yield table, batch
                done[table] += len(batch)
                at = Progress(table.name, done[table], expected[table], Unit.ROWS)
                self._rig.listener.progress(at)
        except IndexDamaged as error:  # raised after the last row
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            self.index = IndexLoss(str(error), error.rows, error.ids, error.table)

    def _inspect(
        self, table: TableSpec, batches: Iterable[RowBatch]
    ) -> Iterator[Records]:
        inspector, totals = self._plan.inspector(table), self._totals[table]
        different: list[Row] = []
        kept = 0
        for batch in batches:
            records, wrong = inspector.inspect(batch)
            for at in wrong[: DIFFERENT_MAX - len(different)].tolist():
                kept += int(batch.sizes[at])
                row = batch.row(at)
                if kept > DIFFERENT_BYTES_MAX:
                    row = row._replace(payload=b"")
                different.append(row)
            totals.add(records)
            yield records
        self._run.write_different(table.name, map(_format_row, different))

    def _expect_rows(self, table: TableSpec) -> int | None:
        """Return the number of a table's rows on a sound server, None if not known.

        It is known of the plan's first table alone: each operation inserts a row there,
        and none deletes any.
        """
        load, before = self._run.load(), self._manifest.tables.get(table.name)
        if load is None or before is None or table != self._plan.tables[0]:
            return None
        return sum(before.rows_by_epoch.values()) + sum(load.acked.values())

    def _most(self) -> int:
        """Return the largest number of rows that there should be."""
        load, tables = self._run.load(), self._manifest.tables.values()
        sent = sum(load.sent.values()) if load else _SENT_UNKNOWN
        before = sum(sum(table.rows_by_epoch.values()) for table in tables)
        return before + len(tables) * sent


def _format_row(row: Row) -> str:
    return json.dumps({**row._asdict(), "payload": row.payload.hex()}) + "\n"
