"""Fills the tables before a load, and reads what stands in them.

A cut is held against what stood there before it, so that is read before the load: rows
of an earlier fill, or of a cycle that nobody judged, may have changed since.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dbcheck.base.progress import Progress, Unit
from dbcheck.campaign import observable
from dbcheck.campaign.known import Known
from dbcheck.campaign.rig import Rig
from dbcheck.campaign.survivors import DIFFERENT_MAX, bounded
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError
from dbcheck.model.server import ServerFacts
from dbcheck.ports.listener import Phase
from dbcheck.rows.earlier import EpochTotals
from dbcheck.rows.fill import PARTS, Fill
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import DIFFERENT, Inspector, Records
from dbcheck.rows.table import TableFacts, TableSpec
from dbcheck.rows.workload import Workload

_STEPS = 10  # lines of progress for a table, at most


def age(
    rig: Rig,
    workload: Workload,
    schedule: Schedule,
    server: ServerFacts,
    known: Known,
) -> Known:
    """Give each table the rows that *workload* needs; return what is known of them.

    schedule: of the rows that are filled in; no row of its epoch is there yet.
    known: what earlier cycles left.  Tables that the last of them read, and that need
    no more rows, are not read again.  Raise TargetChanged, before anything is written,
    if rows that were left are gone or changed; EngineError if the server stored other
    rows than it was sent.  Each transaction that was committed stays, whatever ends the
    fill: the next one adds what is missing.
    """
    tables = tables_of(workload)
    engine = rig.site.writer.engine
    before = engine.prepare(tables, server=server)
    known.of_tables(before)
    filled: dict[TableSpec, int] = {}
    for table in tables:
        lacking = workload.rows_before - sum(before[table.name].rows_by_epoch.values())
        if lacking > 0:
            _fill(rig, table, Fill(schedule, lacking), server)
            filled[table] = lacking
    unread = [
        table
        for table in tables
        if table.has_key and (table in filled or table.name not in known.different)
    ]
    if not unread:
        return known
    rig.listener.phase(Phase.FILL, "reading the rows that stand before the load")
    rows = sum(sum(facts.rows_by_epoch.values()) for facts in before.values())
    most = rows + sum(filled.values())
    found = _read(rig, unread, schedule, server, most)
    for table in unread:
        _require_filled(table, found[table], schedule.epoch, filled.get(table, 0))
    return known.with_rows(
        {table.name: one.facts for table, one in found.items()},
        {table.name: tuple(one.different) for table, one in found.items()},
    )


def _fill(rig: Rig, table: TableSpec, rows: Fill, server: ServerFacts) -> None:
    """Insert *rows*; show how far it is, and how fast."""
    engine = rig.site.writer.engine
    began = time.monotonic()
    done = shown = 0
    for count in observable.fill(engine, table, rows, server):
        done += count
        rig.listener.progress(Progress(table.name, done, rows.rows, Unit.ROWS))
        if done * _STEPS // rows.rows > shown:
            shown = done * _STEPS // rows.rows
            per_s = done / max(time.monotonic() - began, 0.001)
            detail = f"{table.name}: {done:,} of {rows.rows:,} rows, {per_s:,.0f}/s"
            rig.listener.phase(Phase.FILL, detail)


@dataclass(slots=True)
class _Rows:
    """What was read of one table.

    totals:    of all rows.
    different: ids of those that do not match their checksum, or the schedule, as many
               as are kept.
    filled, wrong: rows of the fill's epoch, and how many of them are different.
    """

    totals: EpochTotals = field(default_factory=EpochTotals)
    different: list[int] = field(default_factory=list)
    filled: int = 0
    wrong: int = 0

    @property
    def facts(self) -> TableFacts:
        """The same as Engine.prepare() would count it."""
        totals = self.totals
        return TableFacts(dict(totals.rows), totals.row_id_max, totals.weights)

    def add(self, records: Records, epoch: int) -> None:
        """Take in rows; epoch: the fill's."""
        self.totals.add(records)
        changed = records["content"] == DIFFERENT
        own = records["epoch"] == epoch
        self.filled += int(own.sum())
        self.wrong += int((own & changed).sum())
        room = DIFFERENT_MAX - len(self.different)
        self.different += records["row_id"][changed][:room].tolist()


def _read(
    rig: Rig,
    tables: Sequence[TableSpec],
    schedule: Schedule,
    server: ServerFacts,
    rows: int,
) -> dict[TableSpec, _Rows]:
    """Read every row of the tables; compare those of the fill in every byte."""
    found = {table: _Rows() for table in tables}
    inspector = Inspector(schedule, range(PARTS))
    engine = rig.site.writer.engine
    done = 0
    for table, batch in bounded(engine, tables, server, rows):
        records, _ = inspector.inspect(batch)
        found[table].add(records, schedule.epoch)
        done += len(batch)
        rig.listener.progress(Progress("all tables", done, rows, Unit.ROWS))
    return found


def _require_filled(table: TableSpec, found: _Rows, epoch: int, sent: int) -> None:
    """Raise EngineError unless the rows of the fill are there as they were sent."""
    if (found.filled, found.wrong) == (sent, 0):
        return
    raise EngineError(
        f"of {sent:,} rows that were filled into {table.name}, {found.filled:,} are"
        f" there, {found.wrong:,} of them with another content",
        id=ErrorId.ROWS_ALTERED_WHEN_STORED,
        hint="Look for a trigger on the table, for another client that writes to it,"
        " and for errors in the server's log. dbcheck clean removes the tables.",
    )
