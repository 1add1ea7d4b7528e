"""Reads every survivor, and once more if the connection breaks meanwhile.

A crash, a kill by an administrator, a restart and a network that fails all look like a
broken connection.  Of these only a page that the server cannot read does it again: a
server whose log shows twice that the very process that read the rows crashed did not
bring them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from dbcheck.campaign import leftover, observable
from dbcheck.campaign.checking import check_after, conditions_after
from dbcheck.campaign.reading_log import ReadingLog
from dbcheck.campaign.rig import Rig
from dbcheck.campaign.vetted import log_of_run
from dbcheck.campaign.waiting import await_facts
from dbcheck.core.conditions import ConditionCheck
from dbcheck.core.earlier import EpochTotals
from dbcheck.core.history import Row
from dbcheck.core.indexloss import IndexLoss
from dbcheck.core.leftover import LeftOver, Name
from dbcheck.core.plans.registry import tables_of
from dbcheck.core.records import AfterRecord, Manifest, NodeAfter, StoredRows
from dbcheck.core.server import ServerFacts
from dbcheck.core.site import lineage
from dbcheck.core.survivors import Records, RowBatch
from dbcheck.core.table import TableFacts, TableSpec
from dbcheck.core.tablecheck import CheckOutcome, TableCheck
from dbcheck.errors import (
    ConnectionLost,
    EngineError,
    IndexDamaged,
    NotBack,
    OtherServer,
    TableLost,
    TableRefused,
)
from dbcheck.judge.settings import hiding
from dbcheck.ports.engine import Engine
from dbcheck.ports.site import Site
from dbcheck.runs import RunFolder

READINGS_MAX = 2
_MAY_BE_SOUND = (
    "the data may be sound; check that the table's file is there, its owner and mode,"
    " free space, memory and the limit of open files, then run dbcheck reconcile"
)
_ITSELF = "connect to the server itself, then run dbcheck reconcile"
DIFFERENT_MAX = 1000  # rows kept whole; all are counted and listed
DIFFERENT_BYTES_MAX = 256 << 20  # of their payloads; those of a sound server have half

# Rows that may be there: so many times those that were there and those that were sent,
# and so many more.  Beyond that, something sends rows that no table holds.
_TIMES, _MORE = 4, 10_000_000
_SENT_UNKNOWN = 1_000_000_000  # where the client's record of the load is lost


@dataclass(frozen=True, slots=True)
class _Broken:
    """A reading that broke off.

    error:   the client's message.
    crashed: the log's lines on a crash of what read the rows, "" if it has none.
    """

    error: str
    crashed: str


class Reading:
    """What was read of a server that answers.

    stored: see AfterRecord.survivors.
    canary, logged, index, failure, missing, unanswered, tables, check, left_over,
    sides_lost, conditions: as in AfterRecord.
    """

    def __init__(self, rig: Rig, run: RunFolder, manifest: Manifest) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self._plan = manifest.plan()
        self.stored = nothing_read(run, manifest)
        self.canary: bool | None = None
        self.logged: str | None = None
        self.index: IndexLoss | None = None
        self.failure = self.unanswered = ""
        self.missing = False
        self.tables: dict[str, TableFacts] = {}
        self.check: TableCheck | None = None
        self.left_over: tuple[LeftOver, ...] = ()
        self.sides_lost: dict[str, str] = {}
        self.conditions: ConditionCheck | None = None

    def read(self, facts: ServerFacts) -> None:
        """Read the rows, and what the server reports of itself.

        facts: its answer of just before.  Raise NotBack if it ended meanwhile and
        takes no queries in its time, EngineError if it refuses to be read, PowerError
        if what failed was the rig and not the server.
        """
        broken: list[_Broken] = []
        now: ServerFacts | None = facts
        while now is not None:
            self.unanswered = hiding(self._manifest.family, now.settings)
            if self.unanswered:
                return
            self._rig.listener.phase("read", "every row, in a read-only transaction")
            before = log_of_run(self._rig.site, self._run, self._manifest, now)
            log = ReadingLog(self._rig.site, before, now)
            if (broke := self._attempt(now, log, first=not broken)) is None:
                return self._check(now, log)
            broken.append(broke)
            if len(broken) == READINGS_MAX:
                return self._give_up(broken)
            self._rig.listener.phase("read", f"{broke.error}: reading once more")
            now = self._again(broke)

    def record(self, nodes: Mapping[str, NodeAfter], reader_name: str) -> AfterRecord:
        """Return what was read as the run stores it."""
        return AfterRecord(
            nodes,
            reader_name,
            self.failure,
            self.stored,
            self.canary,
            self.missing,
            self.logged,
            self.index,
            self.unanswered,
            self.tables,
            check=self.check,
            left_over=self.left_over,
            sides_lost=self.sides_lost,
            conditions=self.conditions,
        )

    def _attempt(
        self, facts: ServerFacts, log: ReadingLog, *, first: bool
    ) -> _Broken | None:
        """Read once; return how the connection broke, None if more is not to be had."""
        try:
            if first:  # a crash since then would empty the canary's table as well
                self._ask(facts)
            survivors = _Survivors(self._rig, self._run, self._manifest, facts)
            self._read_rows(survivors, facts)
            self.index = survivors.index
            # After the rows: what replaced a table before they were read is seen.
            self.tables = {
                table.name: replace(
                    survivors.facts_of(table),
                    identity=observable.table_identity(
                        self._rig.site.reader.engine, table, facts
                    ),
                )
                for table in self._plan.tables
            }
        except OtherServer as error:
            self.unanswered = f"{error}; {_ITSELF}"
        except TableLost as error:
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            self.failure, self.missing = str(error), error.missing
        except TableRefused as error:
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            if damage := log.damage(self._plan.tables):
                self.failure = f"{error}: {damage}"
            else:
                self.unanswered = f"{error}: {_MAY_BE_SOUND}"
        except EngineError as error:
            cause = log.why(error)
            if not cause.damage and not isinstance(error, ConnectionLost):
                raise
            if not cause.damage:
                return _Broken(str(error), cause.crashed)
            self.failure = f"{error}: {cause.damage}"
        return None

    def _read_rows(self, survivors: _Survivors, facts: ServerFacts) -> None:
        """Store the rows; then decide what is prepared, and look at that once more."""
        table, engine = self._plan.prepares_in, self._rig.site.reader.engine
        left: list[Name] = []
        if table is not None:
            left = leftover.listed(engine, self._manifest.epoch, facts)
        try:
            self.stored = survivors.store()
        except BaseException:  # of several tables, some may have been stored
            self.stored = nothing_read(self._run, self._manifest)
            raise
        self.stored |= survivors.store_sides()
        self.sides_lost = survivors.sides_lost
        if table is not None and left:
            decided = leftover.decide(engine, left, facts)
            self.left_over = leftover.fates(decided, survivors.again(table))

    def _check(self, facts: ServerFacts, log: ReadingLog) -> None:
        """Have the server check the tables, last of all: it may write."""
        if self.failure or self.unanswered or self.index:
            return
        self._rig.listener.phase("check", "the server checks its own tables")
        engine, epoch = self._rig.site.reader.engine, self._manifest.epoch
        self.conditions = conditions_after(engine, self._plan, epoch, facts, log)
        sides = [table for table in self._plan.sides if table.name in self.stored]
        tables = (*self._plan.tables, *sides)
        self.check = check_after(engine, tables, facts, log)
        if self.check is not None and self.check.outcome is CheckOutcome.INDEX:
            self.index = IndexLoss(self.check.reason, 1)

    def _ask(self, facts: ServerFacts) -> None:
        engine, manifest = self._rig.site.reader.engine, self._manifest
        if not manifest.no_canary:
            self.canary = self._run.canary()
        if not manifest.no_canary and self.canary is None:
            self.canary = observable.canary(engine, manifest.epoch, facts)
        self.logged = observable.logged(
            engine, manifest.nodes[self._rig.site.reader_name].facts.clock_us, facts
        )

    def _again(self, broke: _Broken) -> ServerFacts | None:
        """Return the facts of the same server once it is back, None if it is not."""
        try:
            facts, self.failure = await_facts(self._rig)
        except NotBack as error:
            text = "; ".join(filter(None, [broke.error, broke.crashed, str(error)]))
            raise NotBack(text, hint=error.hint) from None
        if facts is None:
            return None
        if other := other_lineage(self._rig.site, self._manifest, facts):
            self.unanswered = f"{broke.error}; then another server: {other}"
            return None
        return facts

    def _give_up(self, broken: list[_Broken]) -> None:
        """Blame the server if each reading crashed what read; else leave it open."""
        last, times = broken[-1], f"{len(broken)} times"
        if all(broke.crashed for broke in broken):
            self.failure = f"{last.error}, {times}: {last.crashed}"
            return
        why = next((broke.crashed for broke in broken if broke.crashed), "")
        why = why or "no log shows why (add --target-host and --server-log)"
        self.unanswered = f"{last.error}, {times}: {why}"


def other_lineage(site: Site, manifest: Manifest, facts: ServerFacts) -> str:
    """Return why *facts* are of a server with other data than took the load, or ""."""
    before = manifest.writer.facts.identity
    return lineage(site.kind, before, facts.identity).other


def nothing_read(run: RunFolder, manifest: Manifest) -> dict[str, StoredRows]:
    """Store that no row was read of any table."""
    return {
        table.name: run.write_survivors(table.name, ())
        for table in tables_of(manifest.workload)
    }


def bounded(
    engine: Engine, tables: Sequence[TableSpec], facts: ServerFacts, rows: int
) -> Iterator[tuple[TableSpec, RowBatch]]:
    """Yield what Engine.survivors() does; raise EngineError if it sends far more.

    rows: how many the tables should hold together, at most.
    """
    most, read = _TIMES * rows + _MORE, 0
    for table, batch in engine.survivors(tables, server=facts):
        read += len(batch)
        if read > most:
            raise EngineError(
                f"{engine.target} sends more than {most:,} rows, far more than"
                " were written",
                hint="Check what answers at that address, and what else writes"
                " to the tables; then run dbcheck reconcile.",
            )
        yield table, batch


class _Survivors:
    """The rows of the tables, inspected.

    facts: the server whose rows they must be.
    index: why a table's index disagrees with it, known once all were read.
    sides_lost: see AfterRecord.
    """

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, facts: ServerFacts
    ) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self._facts = facts
        self._plan = manifest.plan()
        self.index: IndexLoss | None = None
        self.sides_lost: dict[str, str] = {}
        tables = (*self._plan.tables, *self._plan.sides)
        self._totals = {table: EpochTotals() for table in tables}

    def facts_of(self, table: TableSpec) -> TableFacts:
        """Return what was stored of *table*, as Engine.prepare() would count it."""
        left = self._totals[table]
        weights = left.weights if table.has_key else {}
        return TableFacts(dict(left.rows), left.row_id_max, weights)

    def store(self) -> dict[str, StoredRows]:
        """Store every row without its payload, and whole those that are different."""
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
        engine = self._rig.site.reader.engine
        stored: dict[str, StoredRows] = {}
        for table in observable.present(engine, self._plan.sides, self._facts):
            batches = (batch for _, batch in self._batches((table,)))
            try:
                stored[table.name] = self._written(table, batches)
            except TableLost as error:
                self._rig.site.failure()  # raises if it was the drive that went
                self.sides_lost[table.name] = str(error)
        return stored

    def _written(self, table: TableSpec, batches: Iterable[RowBatch]) -> StoredRows:
        return self._run.write_survivors(table.name, self._inspected(table, batches))

    def again(self, table: TableSpec) -> Iterator[Records]:
        """Yield the rows of this run that are in *table* by now, and count all anew."""
        inspector, totals = self._plan.inspector(table), EpochTotals()
        self._totals[table] = totals
        for _, batch in self._batches((table,)):
            records, _ = inspector.inspect(batch)
            totals.add(records)
            yield records[records["epoch"] == self._manifest.epoch]

    def _batches(
        self, tables: Sequence[TableSpec]
    ) -> Iterator[tuple[TableSpec, RowBatch]]:
        engine = self._rig.site.reader.engine
        try:
            yield from bounded(engine, tables, self._facts, self._most())
        except IndexDamaged as error:  # after the last row
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            self.index = IndexLoss(str(error), error.rows, error.ids)

    def _inspected(
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
        self._run.write_different(table.name, map(_line, different))

    def _most(self) -> int:
        """Return how many rows there should be, at most."""
        load, tables = self._run.load(), self._manifest.tables.values()
        sent = sum(load.sent.values()) if load else _SENT_UNKNOWN
        before = sum(sum(table.rows_by_epoch.values()) for table in tables)
        return before + len(tables) * sent


def _line(row: Row) -> str:
    return json.dumps({**row._asdict(), "payload": row.payload.hex()}) + "\n"
