"""Checks, drops, fills and reads the tables before a load.

A cut is judged by the rows in the tables before it, so they are read before the load:
rows of an earlier fill, or of a cycle that was not judged, may have changed since.
Each cycle leaves its rows in the tables, and every later cycle reads them again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    ConnectionLost,
    EngineError,
    OtherServer,
    TableLost,
    TableRefused,
)
from dbcheck.cycle.preflight.earlier_cycles import Known
from dbcheck.cycle.recovery.reading_log import ReadingLog
from dbcheck.cycle.recovery.survivors import DIFFERENT_MAX, limit_survivors
from dbcheck.cycle.rig import Rig
from dbcheck.model.records import NodeBefore
from dbcheck.model.server import CheckOutcome, ServerFacts, TableCheck
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.ports.listener import Phase, Progress, Unit
from dbcheck.rows.earlier import EpochTotals
from dbcheck.rows.fill import PARTS, Fill
from dbcheck.rows.loss import ConditionCheck
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import DIFFERENT, Inspector, Records
from dbcheck.rows.table import TableFacts, TableSpec
from dbcheck.rows.workload import Workload

_OUTCOMES_OF_DAMAGE = (CheckOutcome.INDEX, CheckOutcome.TABLE)
_PROGRESS_LINES_MAX = 10  # for each table


def require_sound_tables(engine: Engine, tables: Sequence[TableSpec]) -> None:
    """Raise EngineError if the server finds its tables damaged before the load.

    Damage from before the cut must not be held against the cut.  If the check cannot be
    made, nothing is refused: the rows are read in any case.
    """
    try:
        check = engine.check_tables(tables)
    except (ConnectionLost, OtherServer, TableLost, TableRefused):
        raise
    except EngineError:
        return
    if check is not None and check.outcome in _OUTCOMES_OF_DAMAGE:
        raise EngineError(
            f"dbcheck's tables are damaged already, before the load: {check.reason}",
            id=ErrorId.TABLES_DAMAGED_BEFORE_LOAD,
            hint="Run dbcheck clean, which drops them; the next run creates new ones.",
        )


def check_conditions(
    engine: Engine, plan: Plan, epoch: int, facts: ServerFacts, log: ReadingLog
) -> ConditionCheck | None:
    """Check the plan's conditions on the server; None if the plan has none.

    facts: of the server that was read.  log: reads the server's log from now on.
    """
    if not plan.violations_statement:
        return None
    try:
        return engine.broken_conditions(plan.violations_statement, epoch, server=facts)
    except ConnectionLost as error:
        cause = log.find_cause(error)
        reason = cause.damage or cause.crashed
        return ConditionCheck(not_done="; ".join(filter(None, [str(error), reason])))
    except EngineError as error:
        return ConditionCheck(not_done=str(error))


def check_tables_read(
    engine: Engine, tables: Sequence[TableSpec], facts: ServerFacts, log: ReadingLog
) -> TableCheck | None:
    """Check on the server the tables whose rows were read; None if it cannot.

    facts: of the server that was read.  log: reads the server's log from now on.
    A server may end itself at damage that the check meets, and its log then says so.
    Without that log the check broke off, which proves neither damage nor its absence.
    """
    try:
        return engine.check_tables(tables, server=facts)
    except ConnectionLost as error:
        cause = log.find_cause(error)
        if cause.damage:
            return TableCheck(CheckOutcome.INDEX, f"{error}: {cause.damage}")
        why = cause.crashed or "its log shows no reason, or was not read"
        return TableCheck(CheckOutcome.BROKE_OFF, f"{error}: {why}")
    except EngineError as error:
        return TableCheck(CheckOutcome.NOT_DONE, str(error))


def drop_tables_if_disk_half_full(
    rig: Rig,
    workload: Workload,
    known: Known,
    node: NodeBefore,
    emptied: Callable[[Known], None] | None,
) -> Known:
    """Drop the tables if half of the disk space is used; return what is known then.

    The tables stay if they have a row that no cycle has read, which may still have to
    be judged, or a row that was found changed, which is evidence.
    node:    as it is before the cycle; without its host's facts the tables stay.
    emptied: called before anything is dropped, with what will be known after it.  If
             this client ends in between, the next client must not miss the rows.  None
             if the tables must stay.
    Raise TargetChanged if rows of earlier cycles are not there now.
    """
    engine, tables = rig.site.writer.engine, tables_of(workload)
    can_drop = engine.has(Feature.HOUSEKEEPING)
    free = known.find_node(rig.site.writer_name).free_bytes
    if emptied is None or not can_drop or not _is_disk_half_full(known, free, node):
        return known
    tables_now = engine.prepare(tables, server=node.facts)
    known.complete_tables(tables_now)
    if not all(known.is_sound(name, facts) for name, facts in tables_now.items()):
        return known
    rows = sum(sum(facts.rows_by_epoch.values()) for facts in tables_now.values())
    text = f"{rows:,} rows of earlier cycles, all judged, are dropped to make room"
    rig.listener.phase(Phase.PREFLIGHT, text)
    known = known.without_rows()
    emptied(known)
    engine.discard(tables, server=node.facts)
    return known


def _is_disk_half_full(known: Known, first: int | None, node: NodeBefore) -> bool:
    """Return True if free space is less than half of *first*, if that is known."""
    free = node.host.facts.data.free_bytes if node.host is not None else None
    if first is None or free is None:
        return False
    return bool(known.tables) and 2 * free < first


def fill_tables(
    rig: Rig,
    workload: Workload,
    schedule: Schedule,
    server: ServerFacts,
    known: Known,
) -> Known:
    """Fill each table with the rows that *workload* needs; return their facts.

    schedule: of the rows that are filled in; no row of its epoch is there yet.
    known: of the rows of earlier cycles.  Tables that the last cycle read, and that
    need no more rows, are not read again.  Raise TargetChanged, before anything is
    written, if rows of earlier cycles are missing or changed; EngineError if the server
    stored other rows than it was sent.  Whatever ends a fill, its committed
    transactions stay, and the next fill adds the rows that are missing.
    """
    tables = tables_of(workload)
    engine = rig.site.writer.engine
    before = engine.prepare(tables, server=server)
    known.complete_tables(before)
    filled: dict[TableSpec, int] = {}
    for table in tables:
        lacking = workload.rows_before - sum(before[table.name].rows_by_epoch.values())
        if lacking > 0:
            _insert_rows(rig, table, Fill(schedule, lacking), server)
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
    rows_read = _read_tables(rig, unread, schedule, server, most)
    for table in unread:
        _require_filled(table, rows_read[table], schedule.epoch, filled.get(table, 0))
    return known.with_rows(
        {table.name: read.facts for table, read in rows_read.items()},
        {table.name: tuple(read.different) for table, read in rows_read.items()},
    )


def _insert_rows(rig: Rig, table: TableSpec, rows: Fill, server: ServerFacts) -> None:
    """Insert *rows*; show how many are inserted, and how fast."""
    engine = rig.site.writer.engine
    began_s = time.monotonic()
    done = shown = 0
    for count in engine.fill(table, rows, server=server):
        done += count
        rig.listener.progress(Progress(table.name, done, rows.rows, Unit.ROWS))
        if done * _PROGRESS_LINES_MAX // rows.rows > shown:
            shown = done * _PROGRESS_LINES_MAX // rows.rows
            per_s = done / max(time.monotonic() - began_s, 0.001)
            detail = f"{table.name}: {done:,} of {rows.rows:,} rows, {per_s:,.0f}/s"
            rig.listener.phase(Phase.FILL, detail)


@dataclass(slots=True)
class _Rows:
    """The rows that were read of one table.

    totals:    of all rows.
    different: ids of the rows that do not match their checksum or the schedule, at most
               DIFFERENT_MAX.
    filled, wrong: how many rows the fill's epoch has, and how many of them are
               different.
    """

    totals: EpochTotals = field(default_factory=EpochTotals)
    different: list[int] = field(default_factory=list)
    filled: int = 0
    wrong: int = 0

    @property
    def facts(self) -> TableFacts:
        """The facts of the table, as Engine.prepare() would count them."""
        totals = self.totals
        return TableFacts(dict(totals.rows), totals.row_id_max, totals.weights)

    def add(self, records: Records, epoch: int) -> None:
        """Count *records*; epoch: of the fill."""
        self.totals.add(records)
        changed = records["content"] == DIFFERENT
        of_fill = records["epoch"] == epoch
        self.filled += int(of_fill.sum())
        self.wrong += int((of_fill & changed).sum())
        room = DIFFERENT_MAX - len(self.different)
        self.different += records["row_id"][changed][:room].tolist()


def _read_tables(
    rig: Rig,
    tables: Sequence[TableSpec],
    schedule: Schedule,
    server: ServerFacts,
    rows: int,
) -> dict[TableSpec, _Rows]:
    """Read every row of the tables; compare each byte of the fill's rows.

    rows: how many are expected, for the progress.
    """
    rows_read = {table: _Rows() for table in tables}
    inspector = Inspector(schedule, range(PARTS))
    engine = rig.site.writer.engine
    done = 0
    for table, batch in limit_survivors(engine, tables, server, rows):
        records, _ = inspector.inspect(batch)
        rows_read[table].add(records, schedule.epoch)
        done += len(batch)
        rig.listener.progress(Progress("all tables", done, rows, Unit.ROWS))
    return rows_read


def _require_filled(table: TableSpec, read: _Rows, epoch: int, sent: int) -> None:
    """Raise EngineError unless the rows of the fill are there as they were sent."""
    if (read.filled, read.wrong) == (sent, 0):
        return
    raise EngineError(
        f"of {sent:,} rows that were filled into {table.name}, {read.filled:,} are"
        f" there, {read.wrong:,} of them with another content",
        id=ErrorId.ROWS_ALTERED_WHEN_STORED,
        hint="Look for a trigger on the table, for another client that writes to it,"
        " and for errors in the server's log. dbcheck clean removes the tables.",
    )
