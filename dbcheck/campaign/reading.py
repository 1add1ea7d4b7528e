"""Reads every survivor, and once more if the connection breaks meanwhile.

A crash, a kill by an administrator, a restart and a network that fails all look like a
broken connection.  Of these only a page that the server cannot read does it again: a
server whose log says twice that the very process that read the rows crashed did not
bring them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dbcheck.campaign.reading_log import ReadingLog
from dbcheck.campaign.rig import Rig
from dbcheck.campaign.settings import hiding
from dbcheck.campaign.vetted import log_of_run
from dbcheck.campaign.waiting import await_facts
from dbcheck.core.earlier import EpochTotals
from dbcheck.core.evidence import difference
from dbcheck.core.history import Row
from dbcheck.core.indexloss import IndexLoss
from dbcheck.core.schedule import Schedule
from dbcheck.core.server import ServerFacts
from dbcheck.core.survivors import Inspector, Records
from dbcheck.errors import (
    ConnectionLost,
    EngineError,
    IndexDamaged,
    NotBack,
    OtherServer,
    TableLost,
    TableRefused,
)
from dbcheck.ports.engine import Shape, TableFacts
from dbcheck.runs import Manifest, RunFolder

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

    error:   the client's words.
    crashed: the log's words of a crash of what read the rows, "" if it has none.
    """

    error: str
    crashed: str


class Reading:
    """What was read of a server that answers.

    stored: how many rows, and the SHA-256 of the file that holds them.
    canary, logged, index, failure, missing, unanswered, table: as in AfterRecord.
    """

    def __init__(self, rig: Rig, run: RunFolder, manifest: Manifest) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self.stored = run.write_survivors(())
        self.canary: bool | None = None
        self.logged: str | None = None
        self.index: IndexLoss | None = None
        self.failure = self.unanswered = ""
        self.missing = False
        self.table: TableFacts | None = None

    def read(self, facts: ServerFacts) -> None:
        """Read what the server holds, and say of itself.

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
            if (broke := self._attempt(now, first=not broken)) is None:
                return
            broken.append(broke)
            if len(broken) == READINGS_MAX:
                return self._give_up(broken)
            self._rig.listener.phase("read", f"{broke.error}: reading once more")
            now = self._again(broke)

    def _attempt(self, facts: ServerFacts, *, first: bool) -> _Broken | None:
        """Read once; return how the connection broke, None if more is not to be had."""
        before = log_of_run(self._rig, self._run, self._manifest, facts)
        log = ReadingLog(self._rig, before, facts)
        try:
            if first:  # a crash since then would empty the canary's table as well
                self._ask(facts)
            survivors = _Survivors(self._rig, self._run, self._manifest, facts)
            self.stored = self._run.write_survivors(survivors.records())
            self.index = survivors.index
            # After the rows: what replaced the table before they were read is seen.
            shape = self._manifest.workload.shape
            identity = self._rig.engine.table_identity(shape, server=facts)
            self.table = replace(survivors.table(), identity=identity)
        except OtherServer as error:
            self.unanswered = f"{error}; {_ITSELF}"
        except TableLost as error:
            self._rig.power.failure()  # raises if it was the drive that went meanwhile
            self.failure, self.missing = str(error), error.missing
        except TableRefused as error:
            self._rig.power.failure()  # raises if it was the drive that went meanwhile
            if damage := log.damage(self._manifest.workload.shape):
                self.failure = f"{error}: {damage}"
            else:
                self.unanswered = f"{error}: {_MAY_BE_SOUND}"
        except EngineError as error:
            said = log.why(error)
            if not said.damage and not isinstance(error, ConnectionLost):
                raise
            if not said.damage:
                return _Broken(str(error), said.crashed)
            self.failure = f"{error}: {said.damage}"
        return None

    def _ask(self, facts: ServerFacts) -> None:
        engine, manifest = self._rig.engine, self._manifest
        if not manifest.no_canary:
            self.canary = self._run.canary()
        if not manifest.no_canary and self.canary is None:
            self.canary = engine.canary(manifest.epoch, server=facts)
        self.logged = engine.logged(manifest.before.clock_us, server=facts)

    def _again(self, broke: _Broken) -> ServerFacts | None:
        """Return the facts of the same server once it is back, None if it is not."""
        try:
            facts, self.failure = await_facts(self._rig)
        except NotBack as error:
            said = "; ".join(filter(None, [broke.error, broke.crashed, str(error)]))
            raise NotBack(said, hint=error.hint) from None
        if facts is None:
            return None
        if other := difference(self._manifest.before.identity, facts.identity):
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
        why = why or "no log says why (--target-host and --server-log read it)"
        self.unanswered = f"{last.error}, {times}: {why}"


class _Survivors:
    """The rows of the table, inspected.

    facts: the server whose rows they must be.
    index: why the table's index disagrees with it, known once all were read.
    """

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, facts: ServerFacts
    ) -> None:
        self._rig, self._run, self._manifest = rig, run, manifest
        self._facts = facts
        self.index: IndexLoss | None = None
        self._totals = EpochTotals()

    def table(self) -> TableFacts:
        """Return what records() yielded, as Engine.prepare() would count it."""
        left, shape = self._totals, self._manifest.workload.shape
        weights = left.weights if shape is Shape.LEDGER else {}
        return TableFacts(dict(left.rows), left.row_id_max, weights)

    def records(self) -> Iterator[Records]:
        """Yield every row without its payload, and keep those that are different."""
        manifest, engine = self._manifest, self._rig.engine
        shape = manifest.workload.shape
        inspector = Inspector(schedule_of(manifest))
        different: list[Row] = []
        most, read, kept = self._most(), 0, 0
        try:
            for batch in engine.survivors(shape, server=self._facts):
                read += len(batch)
                if read > most:
                    raise EngineError(
                        f"{manifest.target} sends more than {most:,} rows, far more"
                        " than were written",
                        hint="See what answers at that address, and what else writes"
                        " to the table; then run dbcheck reconcile.",
                    )
                records, wrong = inspector.inspect(batch)
                for at in wrong[: DIFFERENT_MAX - len(different)].tolist():
                    kept += int(batch.sizes[at])
                    row = batch.row(at)
                    if kept > DIFFERENT_BYTES_MAX:
                        row = row._replace(payload=b"")
                    different.append(row)
                self._totals.add(records)
                yield records
        except IndexDamaged as error:  # after the last row
            self._rig.power.failure()  # raises if it was the drive that went meanwhile
            self.index = IndexLoss(str(error), error.rows, error.ids)
        self._run.write_lines("different.jsonl", map(_line, different))

    def _most(self) -> int:
        """Return how many rows there may be."""
        load = self._run.load()
        sent = sum(load.sent.values()) if load else _SENT_UNKNOWN
        return (
            _TIMES * (sum(self._manifest.table.rows_by_epoch.values()) + sent) + _MORE
        )


def schedule_of(manifest: Manifest) -> Schedule:
    """Return what decides the rows of a run."""
    sizes = manifest.workload.payload_bytes
    return Schedule(manifest.seed, manifest.epoch, sizes, manifest.sizes_by_epoch)


def _line(row: Row) -> str:
    return json.dumps({**row._asdict(), "payload": row.payload.hex()}) + "\n"
