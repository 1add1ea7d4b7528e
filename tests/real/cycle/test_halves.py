"""Halves of transactions: a drive kept the pages of one table and lost the other's.

If the pages that were kept are the ledger's, registers are stale; if they are the
register's, transactions are torn.  A drive that lies about flushes has two ways there:

- A server writes a page only after a flush of the log that explains it.  The drive
  keeps the page and loses the log, so the recovery ends at a moment before the page's.
- A server forgets what its log says of a page once the page is flushed.  The drive
  loses the page and keeps the checkpoint, so the recovery leaves the page as it was.

MariaDB does not start with a page that is newer than its log; there, it is the second.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import mysql.connector
import psycopg2
import pytest

from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import Cut
from dbcheck.model.verdict import Verdict
from dbcheck.ports.power import PowerSwitch
from dbcheck.rows.decks import SLOTS
from dbcheck.rows.loss import LossKind
from dbcheck.rows.workload import Workload
from tests.kit.lab_access import connect
from tests.kit.nodes import with_node
from tests.kit.rigs import ENGINES, Bench, bench
from tests.kit.servers import skip_without_server

pytestmark = pytest.mark.root
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)

TRIES = 5
PAUSE_S = 0.05
ROUND_MAX_S = 30.0
ROUNDS_MIN = 5
# Any of the last writes may survive.  Of the log one is lost soon, and it ends there.
LYING = DriveSpec("lying", destage_age_s=0.8, kept_writes="writes")
# The oldest writes are lost: those of the moments in which the server slept.
LATE = replace(LYING, destage_age_s=0.4, kept_writes="suffix")
OTHER = {"ledger": "register", "register": "ledger"}
STALE, TORN = LossKind.STALE, LossKind.TORN
_ERRORS = (psycopg2.Error, mysql.connector.Error)


@dataclass(frozen=True)
class Writing:
    """How a server is made to write the pages of one table apart from the other's.

    settings:   up to the cut; commits are durable under all of them.
    afterwards: from the restore on.
    statements: which do it, so that those of {table} are kept and not those of {other}.
    beside:     which are run with them.
    rate:       operations a second, of so many sessions.
    after_each: they run once after each operation.
    confirmed_min: of operations, if nothing is lost.
    """

    settings: Mapping[str, str]
    afterwards: Mapping[str, str]
    statements: Sequence[str]
    beside: Sequence[str] = ()
    drive: DriveSpec = LYING
    sessions: int = 2
    rate: float = 20.0
    cut_after_s: float = 1.5
    after_each: bool = False
    confirmed_min: int = 11


_KEPT = {
    "autovacuum": "off",
    # Else the recovery begins with pages from the log.  The drive tears no write.
    "full_page_writes": "off",
}
WRITING = {
    # Its recovery takes a row of a transaction that the log lacks for one that was
    # rolled back, unless the row is frozen.  Nothing is in the buffers for long, and
    # what leaves them goes to the drive at once.  With as few buffers the reading would
    # fail: pages that it marks could not be written as their log is not there.
    "postgresql": Writing(
        {
            **_KEPT,
            "shared_buffers": "128kB",
            "bgwriter_delay": "10ms",
            "bgwriter_lru_maxpages": "1000",
            "bgwriter_lru_multiplier": "10",
            "bgwriter_flush_after": "8kB",
            "backend_flush_after": "8kB",
        },
        _KEPT,
        ["vacuum (freeze) dbcheck.{table}"],
        # So much that the log of the last moments cannot be whole by chance.
        ["select pg_logical_emit_message(false, 'dbcheck', repeat('-', 16000))"],
    ),
    # So long that registers are updated, which their first operations insert.
    "mariadb": Writing(
        {
            "innodb_adaptive_flushing": "OFF",
            "innodb_max_dirty_pages_pct": "99",
            "innodb_max_dirty_pages_pct_lwm": "0",
        },
        {},
        [
            "flush tables {other} for export",
            "unlock tables",
            "do sleep(0.3)",
            "set global innodb_log_checkpoint_now = on",
        ],
        drive=LATE,
        sessions=1,
        rate=1.25,
        cut_after_s=4.4,
        after_each=True,
        confirmed_min=SLOTS + 1,
    ),
    "mysql": Writing(
        {
            "log_bin": "OFF",
            "innodb_adaptive_flushing": "OFF",
            "innodb_max_dirty_pages_pct": "99",
            "innodb_max_dirty_pages_pct_lwm": "0",
        },
        {"log_bin": "OFF"},
        ["flush tables {table} for export", "unlock tables"],
    ),
}


def few(how: Writing) -> Workload:
    """Return so few operations that no page is full and PostgreSQL prunes none."""
    chosen = load("registers").with_sessions(how.sessions)
    when_s = how.cut_after_s, how.cut_after_s
    return replace(chosen, rate=how.rate, payload_bytes=(16,), cut_after_s=when_s)


def cycle(here: Bench, seed: int, *tables: str) -> Outcome:
    """Cut the power while the pages of *tables* are written again and again."""
    how = WRITING[here.engine]
    started = run_preflight(here.rig, few(how), seed)
    own = [
        line.format(table=t, other=OTHER[t]) for t in tables for line in how.statements
    ]
    power = here.rig.site.writer.power
    with rounds(here, [*own, *how.beside]) as running:
        late = cast(PowerSwitch, CutsAfter(power, running))
        replace(here, rig=with_node(here.rig, power=late)).loading(started)
    here.lab.configure(how.afterwards)
    power.restore()
    return here.judge(started)


class Rounds:
    """Runs statements again and again, until the power is to be cut."""

    def __init__(self, here: Bench, statements: Sequence[str]) -> None:
        self._here, self._statements = here, statements
        self._how = WRITING[here.engine]
        self.over, self._ending, self._ended = (threading.Event() for _ in range(3))
        self.errors: list[Exception] = []
        self.count = self._newest = 0

    def run(self) -> None:
        """Run them; keep the error that ends it."""
        to = self._here.lab.target_url, self._here.lab.password
        try:
            with contextlib.closing(connect(*to)) as connection:
                cursor = connection.cursor()
                while not self._ended.is_set() and not self.over.wait(PAUSE_S):
                    self._once(cursor)
        except _ERRORS as error:
            self.errors.append(error)

    def _once(self, cursor: Any) -> None:
        if self._how.after_each and not self._is_new(cursor):
            return
        is_last = self._ending.is_set() and self.count + 1 >= ROUNDS_MIN
        for statement in self._statements:
            cursor.execute(statement)
        self.count += 1
        if is_last:
            self._ended.set()

    def _is_new(self, cursor: Any) -> bool:
        """Return whether there was an operation since the last call."""
        before, self._newest = self._newest, newest_id(cursor, self._here.table)
        return self._newest != before

    def end(self) -> None:
        """Return once a round that begins from now on is over, and enough before it."""
        self._ending.set()
        assert self._ended.wait(ROUND_MAX_S), self.errors


def newest_id(cursor: Any, table: str) -> int:
    cursor.execute(f"select coalesce(max(id), 0) from {table}")
    ((newest,),) = cursor.fetchall()
    return int(newest)


@contextlib.contextmanager
def rounds(here: Bench, statements: Sequence[str]) -> Iterator[Rounds]:
    """Run *statements* beside the body, which is to take the server's power away."""
    made = Rounds(here, statements)
    running = threading.Thread(target=made.run)
    running.start()
    try:
        yield made
    finally:
        made.over.set()
        running.join()
    assert made.count >= ROUNDS_MIN, made.errors


class CutsAfter:
    """A switch that cuts the power when a round of statements has just ended."""

    def __init__(self, inner: PowerSwitch, running: Rounds) -> None:
        self._inner, self._running = inner, running

    def cut(self) -> Cut:
        """Wait for that moment, and cut."""
        self._running.end()
        return self._inner.cut()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


Names = set[tuple[int, int]]  # session and seq of operations


def halved(here: Bench, epoch: int) -> tuple[Names, Names]:
    """Return what plain SELECTs show: operations without their update, without row."""
    newest: dict[str, dict[tuple[int, int], int]] = {}
    for table in ("ledger", "register"):
        seqs = newest[table] = defaultdict(int)
        name = here.table.replace("ledger", table)
        for its_epoch, session, seq in here.execute(
            f"select epoch, session, seq from {name}"
        ):
            if its_epoch == epoch:
                slot = session, seq % SLOTS
                seqs[slot] = max(seqs[slot], seq)
    rows, registers = newest["ledger"], newest["register"]
    slots = rows.keys() | registers.keys()
    older = {(s[0], rows[s]) for s in slots if registers[s] < rows[s]}
    newer = {(s[0], registers[s]) for s in slots if registers[s] > rows[s]}
    return older, newer


def named(outcome: Outcome, kind: LossKind) -> Names:
    assert outcome.found is not None
    return {(x.session, x.seq) for x in outcome.found.losses if x.kind is kind}


@pytest.mark.wide_with("mariadb", "mysql")
@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        pytest.param(STALE, "ledger", id="stale"),
        pytest.param(TORN, "register", id="torn"),
    ],
)
@EVERY_ENGINE
def test_a_drive_that_keeps_the_pages_of_one_table_halves_transactions(
    engine: str, kind: LossKind, kept: str, tmp_path: Path
) -> None:
    skip_without_server(engine)
    for seed in range(TRIES):  # what survives is chance
        how = WRITING[engine]
        drive = replace(how.drive, seed=seed)
        spec = LabSpec(engine, drive=drive, settings=how.settings)
        with bench(spec, tmp_path / str(seed)) as here:
            outcome = cycle(here, seed, kept)
            if outcome.found is None:  # the server does not recover from all of it
                assert outcome.after.failure, outcome.judgement
                assert outcome.verdict is Verdict.FAIL, outcome.judgement
                continue
            older, newer = halved(here, outcome.run.manifest().epoch)
        stale, torn = named(outcome, STALE), named(outcome, TORN)
        assert stale | torn == older | newer
        assert stale <= older
        assert newer <= torn
        if named(outcome, kind):
            assert outcome.verdict is Verdict.FAIL
            return
    pytest.fail(f"none of {TRIES} cuts left one {kind.value}")


@pytest.mark.wide_with("mariadb", "mysql")
@EVERY_ENGINE
def test_an_honest_drive_keeps_transactions_whole_all_the_same(
    engine: str, tmp_path: Path
) -> None:
    skip_without_server(engine)
    how = WRITING[engine]
    drive = replace(how.drive, personality="honest")
    spec = LabSpec(engine, drive=drive, settings=how.settings)
    with bench(spec, tmp_path) as here:
        outcome = cycle(here, 1, "ledger", "register")
        assert outcome.verdict is Verdict.PASS, outcome.judgement
        assert outcome.found is not None
        assert outcome.found.kept == outcome.found.confirmed >= how.confirmed_min
