"""Checks, drops, fills and reads the tables before a load.

A cut is judged by the rows in the tables before it, so they are read before the load:
rows of an earlier fill, or of a cycle that nobody judged, may have changed since.  Each
cycle leaves its rows, which every later one reads again.
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
from dbcheck.ports.engine import Engine, Feature
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

_DAMAGED = (CheckOutcome.INDEX, CheckOutcome.TABLE)
_STEPS = 10  # lines of progress for a table, at most


def require_sound_tables(engine: Engine, tables: Sequence[TableSpec]) -> None:
    """Raise EngineError if the server finds its tables damaged before the load.

    What was wrong before the cut is not to be held against what came after it.  A check
    that cannot be made refuses nothing: the rows are looked at all the same.
    """
    try:
        check = engine.check_tables(tables)
    except (ConnectionLost, OtherServer, TableLost, TableRefused):
        raise
    except EngineError:
        return
    if check is not None and check.outcome in _DAMAGED:
        raise EngineError(
            f"dbcheck's tables are damaged already, before the load: {check.reason}",
            id=ErrorId.TABLES_DAMAGED_BEFORE_LOAD,
            hint="Run dbcheck clean, which drops them; the next run creates new ones.",
        )


def check_conditions(
    engine: Engine, plan: Plan, epoch: int, facts: ServerFacts, log: ReadingLog
) -> ConditionCheck | None:
    """Check the plan's conditions on the server; None if the plan has none.

    facts: of the server that was read.  log: what it logs from now on.
    """
    if not plan.violations_statement:
        return None
    try:
        return engine.broken_conditions(plan.violations_statement, epoch, server=facts)
    except ConnectionLost as error:
        why = log.find_cause(error)
        reason = why.damage or why.crashed
        return ConditionCheck(not_done="; ".join(filter(None, [str(error), reason])))
    except EngineError as error:
        return ConditionCheck(not_done=str(error))


def check_tables_read(
    engine: Engine, tables: Sequence[TableSpec], facts: ServerFacts, log: ReadingLog
) -> TableCheck | None:
    """Check on the server the tables whose rows were read; None if it cannot.

    facts: of the server that was read.  log: what it logs from now on.
    A server may end itself at what the check meets.  Its log says so; without it the
    check broke off, which proves nothing in either direction.
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
    """Drop the tables if half of the disk space is used; return the facts then.

    They stay if they have a row that no cycle has read, which may still have to be
    judged, or one that was found changed: that is evidence, and a doubt of each cycle.
    node:    as it is before the cycle; without its host's facts the tables stay.
    emptied: called before anything is dropped, with what is known once it is: a client
             that ends in between must not make the next one look for those rows.  None
             if the tables must stay.
    Raise TargetChanged if rows that were left are not there now.
    """
    engine, tables = rig.site.writer.engine, tables_of(workload)
    can_drop = engine.has(Feature.HOUSEKEEPING)
    if emptied is None or not can_drop or not _is_disk_half_full(known, node):
        return known
    now = engine.prepare(tables, server=node.facts)
    known.complete_tables(now)
    if not all(known.is_sound(name, facts) for name, facts in now.items()):
        return known
    rows = sum(sum(facts.rows_by_epoch.values()) for facts in now.values())
    text = f"{rows:,} rows of earlier cycles, all judged, are dropped to make room"
    rig.listener.phase(Phase.PREFLIGHT, text)
    known = known.without_rows()
    emptied(known)
    engine.discard(tables, server=node.facts)
    return known


def _is_disk_half_full(known: Known, node: NodeBefore) -> bool:
    """Return True if less than half of the space before the first cycle is free."""
    first = known.free_bytes
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
    known: what earlier cycles left.  Tables that the last of them read, and that need
    no more rows, are not read again.  Raise TargetChanged, before anything is written,
    if rows that were left are gone or changed; EngineError if the server stored other
    rows than it was sent.  Each transaction that was committed stays, whatever ends the
    fill: the next one adds what is missing.
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
    found = _read_tables(rig, unread, schedule, server, most)
    for table in unread:
        _require_filled(table, found[table], schedule.epoch, filled.get(table, 0))
    return known.with_rows(
        {table.name: one.facts for table, one in found.items()},
        {table.name: tuple(one.different) for table, one in found.items()},
    )


def _insert_rows(rig: Rig, table: TableSpec, rows: Fill, server: ServerFacts) -> None:
    """Insert *rows*; show how far it is, and how fast."""
    engine = rig.site.writer.engine
    began = time.monotonic()
    done = shown = 0
    for count in engine.fill(table, rows, server=server):
        done += count
        rig.listener.progress(Progress(table.name, done, rows.rows, Unit.ROWS))
        if done * _STEPS // rows.rows > shown:
            shown = done * _STEPS // rows.rows
            per_s = done / max(time.monotonic() - began, 0.001)
            detail = f"{table.name}: {done:,} of {rows.rows:,} rows, {per_s:,.0f}/s"
            rig.listener.phase(Phase.FILL, detail)


@dataclass(slots=True)
class _Rows:
    """The rows that were read of one table.

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
        """The facts of the table, as Engine.prepare() would count them."""
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


def _read_tables(
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
    for table, batch in limit_survivors(engine, tables, server, rows):
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
