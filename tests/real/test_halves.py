"""Halves of transactions, where a drive kept the pages of one table and lost the log.

A server writes a page only after a flush of the log that explains it.  A drive that
lies about that flush may keep the page and lose the log.  The recovery then ends at a
moment before that of the page, and its table has transactions that the other one has
not: if that is the ledger, registers are stale; if it is the register, transactions are
torn.

MariaDB is not here: it does not start with a page that is newer than its log.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mysql.connector
import psycopg2
import pytest

from dbcheck.campaign.outcome import Outcome
from dbcheck.campaign.preflight import preflight
from dbcheck.core.loss import LossKind
from dbcheck.core.plans.registers import SLOTS
from dbcheck.core.verdict import Verdict
from dbcheck.core.workload import Workload
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.workload import load
from tests.kit.lab_access import connect
from tests.kit.rigs import Bench, bench
from tests.kit.servers import skip_without_server

pytestmark = pytest.mark.root
EVERY_ENGINE = pytest.mark.parametrize("engine", ["postgresql", "mysql"])

TRIES = 5
PAUSE_S = 0.05
ROUNDS_MIN = 5
# Any of the last writes may survive.  Of the log one is lost soon, and it ends there.
LYING = DriveSpec("lying", destage_age_s=0.8, survivors="writes")
HONEST = replace(LYING, personality="honest")
STALE, TORN = LossKind.STALE, LossKind.TORN
_ERRORS = (psycopg2.Error, mysql.connector.Error)


@dataclass(frozen=True)
class Writing:
    """How a server is made to write the pages of some tables, and no checkpoint.

    settings:   up to the cut; commits are durable under all of them.
    afterwards: from the restore on.
    statements: which do it for one table.
    beside:     which are run with them.
    """

    settings: Mapping[str, str]
    afterwards: Mapping[str, str]
    statements: Sequence[str]
    beside: Sequence[str] = ()


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


def few() -> Workload:
    """Return so few operations that no page is full and PostgreSQL prunes none."""
    chosen = load("registers").with_sessions(2)
    return replace(chosen, rate=20.0, payload_bytes=(16,), cut_after_s=(1.5, 1.5))


def cycle(here: Bench, seed: int, *tables: str) -> Outcome:
    """Cut the power while the pages of *tables* are written again and again."""
    how = WRITING[here.engine]
    started = preflight(here.rig, few(), seed)
    own = [line.format(table=t) for t in tables for line in how.statements]
    with repeated(here, [*own, *how.beside]):
        here.loading(started)
    here.lab.configure(how.afterwards)
    here.rig.site.writer.power.restore()
    return here.judge(started)


@contextlib.contextmanager
def repeated(here: Bench, statements: Sequence[str]) -> Iterator[None]:
    """Run *statements* in turn until the server is gone."""
    over, errors = threading.Event(), list[Exception]()
    rounds = 0

    def run() -> None:
        nonlocal rounds
        to = here.lab.target_url, here.lab.password
        try:
            with contextlib.closing(connect(*to)) as connection:
                cursor = connection.cursor()
                while not over.wait(PAUSE_S):
                    for statement in statements:
                        cursor.execute(statement)
                    rounds += 1
        except _ERRORS as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()
    try:
        yield
    finally:
        over.set()
        running.join()
    assert rounds >= ROUNDS_MIN, errors


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
        spec = LabSpec(
            engine, drive=replace(LYING, seed=seed), settings=WRITING[engine].settings
        )
        folder = tmp_path / str(seed)
        folder.mkdir()
        with bench(spec, folder) as here:
            outcome = cycle(here, seed, kept)
            if outcome.found is None:  # the server does not recover from all of it
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


@EVERY_ENGINE
def test_an_honest_drive_keeps_transactions_whole_all_the_same(
    engine: str, tmp_path: Path
) -> None:
    skip_without_server(engine)
    spec = LabSpec(engine, drive=HONEST, settings=WRITING[engine].settings)
    with bench(spec, tmp_path) as here:
        outcome = cycle(here, 1, "ledger", "register")
        assert outcome.verdict is Verdict.PASS, outcome.judgement
        assert outcome.found is not None
        assert outcome.found.kept == outcome.found.confirmed > 10
