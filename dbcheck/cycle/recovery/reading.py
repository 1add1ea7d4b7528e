"""Reads every survivor, and once more if the connection breaks meanwhile.

A crash at an unreadable page, a kill by an administrator, a restart and a failing
network all look like a broken connection.  Of these only the crash recurs: if the
server's log shows twice that the process which read the rows crashed, the server did
not recover them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    ConnectionLost,
    EngineError,
    NotBack,
    OtherServer,
    RowsWithheld,
    TableConverted,
    TableLost,
    TableRefused,
    unless_refused,
)
from dbcheck.cycle.fetching import require_no_load
from dbcheck.cycle.recovery import in_doubt
from dbcheck.cycle.recovery.reading_log import ReadingLog
from dbcheck.cycle.recovery.survivors import Survivors
from dbcheck.cycle.recovery.untrusted_run import find_log_of_run
from dbcheck.cycle.recovery.waiting import POLL_S, await_facts
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.stored_run import RowStore
from dbcheck.cycle.tables import check_conditions, check_tables_read
from dbcheck.judge.settings import find_hiding_settings
from dbcheck.model.cluster import compare_lineage
from dbcheck.model.managed import SERVICE
from dbcheck.model.places import Place
from dbcheck.model.records import (
    AfterRecord,
    Manifest,
    NodeAfter,
    PreparedRecord,
    StoredRows,
)
from dbcheck.model.server import (
    CheckOutcome,
    Refill,
    ServerFacts,
    TableCheck,
    is_restarted,
    select_refill,
)
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Site
from dbcheck.rows.loss import ConditionCheck, IndexLoss
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.prepared import Decisions, LeftOver, Name, find_largest_counts
from dbcheck.rows.table import TableFacts

READINGS_MAX = 2
_MAY_BE_SOUND = (
    "the data may be sound; check that the table's file is there, its owner and mode,"
    " free space, memory and the limit of open files, then run dbcheck reconcile"
)
_RECONCILE_THEN = "Then run dbcheck reconcile."


@dataclass(frozen=True, slots=True)
class _BrokenReading:
    """A reading whose connection broke.

    error:   the client's message.
    crashed: the log's lines on a crash of the process that read the rows, "" without.
    """

    error: str
    crashed: str


class Reading:
    """Reads the rows and the facts of a server that answers.

    stored: see AfterRecord.survivors.
    canary, logged, index, failure, missing, unanswered, tables, check, left_over,
    sides_lost, conditions, places, deleted, engines, decisions, refill: as in
    AfterRecord.
    """

    def __init__(self, rig: Rig, run: RowStore, manifest: Manifest) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self._plan = manifest.plan()
        self.stored = store_nothing_read(run, manifest)
        self.canary: bool | None = None
        self.logged: str | None = None
        self.index: IndexLoss | None = None
        self.failure = self.unanswered = ""
        self.missing = False
        self.tables: dict[str, TableFacts] = {}
        self.places: tuple[Place, ...] | None = None
        self.deleted: int | None = None
        self.check: TableCheck | None = None
        self.left_over: tuple[LeftOver, ...] = ()
        self.sides_lost: dict[str, str] = {}
        self.conditions: ConditionCheck | None = None
        self.engines: Mapping[str, str] = {}
        self.decisions: Decisions | None = None
        self.refill: Refill | None = None
        for earlier in run.read_earlier_records():
            self._recall(earlier)

    def _recall(self, earlier: AfterRecord | PreparedRecord) -> None:
        """Keep facts of an earlier reading that a later process may not see."""
        if earlier.reader_name != self._rig.site.reader_name:
            return
        self.canary = earlier.canary if self.canary is None else self.canary
        self.decisions = find_largest_counts(self.decisions, earlier.decisions)
        self.refill = select_refill(self.refill, earlier.refill)
        self.deleted = _max_count(self.deleted, earlier.deleted)

    @property
    def _is_copy(self) -> bool:
        """True if another server's data may have replaced this server's data.

        Those of a copy that was restored on purpose are read.
        """
        if self._manifest.copy is not None:
            return False
        return self.refill is not None and self.refill.replaces

    @property
    def _is_writer(self) -> bool:
        return self._rig.site.reader_name == self._manifest.writer_name

    def read(self, facts: ServerFacts) -> None:
        """Read the rows and the server's facts.

        facts: of the server, read just before.  Raise NotBack if the server ended
        meanwhile and takes no queries in its time, EngineError if it refuses to be
        read, PowerError if the rig failed and not the server.
        """
        broken: list[_BrokenReading] = []
        now: ServerFacts | None = facts
        while now is not None:
            self.unanswered = find_hiding_settings(self._manifest, now.settings)
            if self.unanswered:
                return
            detail = "every row, in a read-only transaction"
            self._rig.listener.phase(Phase.READ, detail)
            before = find_log_of_run(self._rig.site, self._run, self._manifest, now)
            log = ReadingLog(self._rig.site, before, now)
            if (broke := self._attempt(now, log, first=not broken)) is None:
                return self._check(now, log)
            broken.append(broke)
            if len(broken) == READINGS_MAX:
                return self._give_up(broken)
            self._rig.listener.phase(Phase.READ, f"{broke.error}: reading once more")
            now = self._await_same_server(broke)

    def record(self, nodes: Mapping[str, NodeAfter], reader_name: str) -> AfterRecord:
        """Return the record that the run stores."""
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
            places=self.places,
            deleted=self.deleted,
            engines=self.engines,
            decisions=self.decisions,
            refill=self.refill,
        )

    def _attempt(
        self, facts: ServerFacts, log: ReadingLog, *, first: bool
    ) -> _BrokenReading | None:
        """Call _read_once() once nothing withholds the rows.

        The wait for an obstacle that may end, such as a lock, is as long as the wait
        for the server.
        """
        ends_s, shown = time.monotonic() + self._rig.limits.return_s, set[str]()
        while True:
            interrupt.raise_if_interrupted()
            try:
                return self._read_once(facts, log, first=first)
            except RowsWithheld as error:
                if time.monotonic() >= ends_s:
                    self.unanswered = f"{error}. {error.hint} {_RECONCILE_THEN}"
                    return None
                if str(error) not in shown:
                    shown.add(str(error))
                    self._rig.listener.phase(Phase.READ, f"waiting: {error}")
            time.sleep(POLL_S)

    def _read_once(
        self, facts: ServerFacts, log: ReadingLog, *, first: bool
    ) -> _BrokenReading | None:
        """Read once; return the reading if its connection broke, None otherwise."""
        try:
            self._read_all(facts, first=first)
        except OtherServer as error:
            self.unanswered = f"{error}. {error.hint} {_RECONCILE_THEN}"
        except TableConverted as error:
            self.engines = error.engines
        except TableLost as error:
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            self.failure, self.missing = str(error), error.missing
        except TableRefused as error:
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            self._handle_refusal(error, log)
        except RowsWithheld:
            self._rig.site.failure()  # raises if it was the drive that went meanwhile
            raise
        except EngineError as error:
            cause = log.find_cause(error)
            if not cause.damage and not isinstance(error, ConnectionLost):
                raise
            if not cause.damage:
                return _BrokenReading(str(error), cause.crashed)
            self.failure = f"{error}: {cause.damage}"
        return None

    def _read_all(self, facts: ServerFacts, *, first: bool) -> None:
        """Read the rows, then the facts that identify their tables and server.

        Read nothing of a server whose data may be a copy of another server's.
        """
        self._ask_about_replication(facts)
        if self._is_copy:
            return
        # Only at the first reading: a crash since then would have emptied the canary's
        # table, too.
        if first:
            self._ask_how_ended(facts)
        # Counted before the rows are read, too: a restart would discard the count.
        if not self._is_same_process(facts):
            self.deleted = self._count_deleted(facts)
        survivors = Survivors(self._rig, self._run, self._manifest, facts)
        self._read_rows(survivors, facts)
        self._ask_about_replication(facts)
        self.index = survivors.index
        # Read after the rows, so that they show whether a table was replaced before.
        engine = self._rig.site.reader.engine
        self.tables = {
            table.name: replace(
                survivors.facts_of(table),
                identity=engine.table_identity(table, server=facts),
                definition=engine.table_definition(table, server=facts),
            )
            for table in self._plan.tables
        }
        self.places = self._places()
        self.deleted = self._count_deleted(facts)

    def _handle_refusal(self, error: TableRefused, log: ReadingLog) -> None:
        """Blame the table if the log names its damage, else leave the cause open."""
        if damage := log.damage(self._plan.tables):
            self.failure = f"{error}: {damage}"
        else:
            self.unanswered = f"{error}: {_MAY_BE_SOUND}"

    def _places(self) -> tuple[Place, ...] | None:
        """Return the tables' places now, None if the server does not show them."""
        with contextlib.suppress(EngineError):
            tables = tables_of(self._manifest.workload)
            return self._rig.site.reader.engine.places(tables)
        return None

    def _count_deleted(self, facts: ServerFacts) -> int | None:
        """Return AfterRecord.deleted: None of a node that did not take the load.

        Such a node may count older deletes.
        """
        if not self._is_writer:
            return None
        engine, table = self._rig.site.reader.engine, self._plan.tables[0]
        with unless_refused():
            return _max_count(self.deleted, engine.deleted(table, server=facts))
        return self.deleted

    def _is_same_process(self, facts: ServerFacts) -> bool:
        """Return True if the process of *facts* took the load: it is not cut yet."""
        before = self._manifest.writer.facts
        return self._is_writer and not is_restarted(before, facts)

    def _count_decisions(self, facts: ServerFacts) -> None:
        """Ask how many transactions were decided, before this reading decides any.

        A server that was not restarted is not asked: it counts the load's decisions.
        """
        if self._is_writer and not self._is_same_process(facts):
            with unless_refused():
                decisions = self._rig.site.reader.engine.decisions(server=facts)
                self.decisions = find_largest_counts(self.decisions, decisions)

    def _read_rows(self, survivors: Survivors, facts: ServerFacts) -> None:
        """Store the rows; decide the prepared transactions, then read their rows again.

        Rows that an earlier reading stored before it decided transactions are kept: the
        tables no longer have all that recovery brought back.
        """
        table, engine = self._plan.prepares_in, self._rig.site.reader.engine
        epoch = self._manifest.epoch
        if (prepared := self._run.prepared()) is not None:
            self._take(prepared, survivors)
            decided = in_doubt.decide_remaining_transactions(
                engine, epoch, prepared.names, facts
            )
        elif names := self._store(survivors, facts):
            decided = in_doubt.decide_transactions(engine, epoch, names, facts)
        else:
            return
        assert table is not None  # other plans have no prepared transactions
        self.left_over = in_doubt.find_fates(decided, survivors.again(table))

    def _store(self, survivors: Survivors, facts: ServerFacts) -> tuple[Name, ...]:
        """Store the rows and the prepared transactions; return the ones to decide.

        Before the cut none is decided: the next reading would take over rows that the
        cut may lose.  Raise UsageError if the load still runs, as it decides its own
        transactions.
        """
        site, names = self._rig.site, tuple[Name, ...]()
        if self._plan.prepares_in is not None:
            epoch = self._manifest.epoch
            names = tuple(in_doubt.list_prepared(site.reader.engine, epoch, facts))
            self._count_decisions(facts)
        log_bytes = self._run.log_bytes() if names else ()
        try:
            self.stored = survivors.store()
            require_no_load(self._rig, self._manifest, log_bytes)
        except BaseException:  # of several tables, some may have been stored
            self.stored = store_nothing_read(self._run, self._manifest)
            raise
        self.stored |= survivors.store_sides()
        self.sides_lost = survivors.sides_lost
        self.left_over = ()
        if names and self._is_same_process(facts):
            self.left_over, names = in_doubt.leave_undecided(names), ()
        if names:
            self._run.write_prepared(
                PreparedRecord(
                    names,
                    site.reader_name,
                    self.stored,
                    log_bytes,
                    self.sides_lost,
                    self.decisions,
                    self.canary,
                    self.refill,
                    self.deleted,
                )
            )
        return names

    def _take(self, prepared: PreparedRecord, survivors: Survivors) -> None:
        """Take over an earlier reading's rows; raise OtherServer for another node."""
        if prepared.reader_name != self._rig.site.reader_name:
            raise OtherServer(
                f"the rows were read on {prepared.reader_name}, where dbcheck then"
                " began to commit and roll back what was prepared",
                id=ErrorId.NOT_SERVER_OF_RUN,
                hint=f"Make {prepared.reader_name} the primary again.",
            )
        self.stored = dict(prepared.survivors)
        self.sides_lost = dict(prepared.sides_lost)
        for table in self._plan.tables:
            if table != self._plan.prepares_in:
                for _ in survivors.again(table):
                    pass  # again() counts them, and compares them with the indexes

    def _check(self, facts: ServerFacts, log: ReadingLog) -> None:
        """Check the tables on the server, last of all: the check may write."""
        if self.failure or self.unanswered or self.index or self.engines:
            return
        if self._is_copy:
            return
        self._rig.listener.phase(Phase.CHECK, "the server checks its own tables")
        engine, epoch = self._rig.site.reader.engine, self._manifest.epoch
        self.conditions = check_conditions(engine, self._plan, epoch, facts, log)
        sides = [
            table
            for table in self._plan.housekeeping_tables
            if table.name in self.stored
        ]
        tables = (*self._plan.tables, *sides)
        self.check = check_tables_read(engine, tables, facts, log)
        if self.check is not None and self.check.outcome is CheckOutcome.INDEX:
            self.index = IndexLoss(self.check.reason, 1)

    def _ask_how_ended(self, facts: ServerFacts) -> None:
        """Ask how the server ended, if it is the server that took the load."""
        engine, manifest = self._rig.site.reader.engine, self._manifest
        if not self._is_writer:
            return
        if not manifest.no_canary and self.canary is None:
            is_there = engine.canary(manifest.epoch, server=facts)
            # Before the cut the canary is there, and a later reading may not find it.
            shows_nothing = is_there and self._is_same_process(facts)
            self.canary = None if shows_nothing else is_there
        self.logged = engine.logged(manifest.writer.facts.clock_us, server=facts)

    def _ask_about_replication(self, facts: ServerFacts) -> None:
        """Ask whether a single server replicated anything from another.

        An earlier sign of it stays: a process that starts later may not show it.  A
        managed service is not asked, as its failover may be to a replica.
        """
        writer = self._manifest.writer.facts
        if self._manifest.site.is_cluster or SERVICE in writer.settings:
            return
        engine, tables = self._rig.site.reader.engine, self._plan.tables
        # may_follow: a server that follows another must not be refused as another.
        expected = replace(facts, may_follow=True)
        refill = engine.refill(tables, writer.clock_us, server=expected)
        self.refill = select_refill(self.refill, refill)

    def _await_same_server(self, broke: _BrokenReading) -> ServerFacts | None:
        """Return the facts of the same server once it is back, None if it is not."""
        try:
            facts, self.failure = await_facts(self._rig)
        except NotBack as error:
            text = "; ".join(filter(None, [broke.error, broke.crashed, str(error)]))
            raise NotBack(text, id=error.id, hint=error.hint) from None
        if facts is None:
            return None
        if other := describe_other_lineage(self._rig.site, self._manifest, facts):
            self.unanswered = f"{broke.error}; then another server: {other}"
            return None
        return facts

    def _give_up(self, broken: list[_BrokenReading]) -> None:
        """Blame the server if it crashed at each reading, else leave the cause open."""
        last, times = broken[-1], f"{len(broken)} times"
        if all(broke.crashed for broke in broken):
            self.failure = f"{last.error}, {times}: {last.crashed}"
            return
        why = next((broke.crashed for broke in broken if broke.crashed), "")
        why = why or "no log shows why (add --target-host and --server-log)"
        self.unanswered = f"{last.error}, {times}: {why}"


def describe_other_lineage(site: Site, manifest: Manifest, facts: ServerFacts) -> str:
    """Return the sign that *facts* are of a server with other data, "" if none.

    The server on a copy may have another identity; its rows show whose copy it is.
    """
    if manifest.copy is not None:
        return ""
    before = manifest.writer.facts.identity
    promoted = None
    if site.reader_name != manifest.writer_name:
        promoted = manifest.nodes[site.reader_name].facts.identity
    return compare_lineage(site.kind, before, facts.identity, promoted=promoted).other


def _max_count(one: int | None, other: int | None) -> int | None:
    """Return the larger count, None if neither is known."""
    return max((n for n in (one, other) if n is not None), default=None)


def store_nothing_read(run: RowStore, manifest: Manifest) -> dict[str, StoredRows]:
    """Store that no row was read of any table; return the stored rows.

    Rows that were read before dbcheck decided prepared transactions stay instead.
    """
    if (prepared := run.prepared()) is not None:
        return dict(prepared.survivors)
    return {
        table.name: run.write_survivors(table.name, ())
        for table in tables_of(manifest.workload)
    }
