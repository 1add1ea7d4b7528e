"""Traps of docs/method.md that take a whole cycle, or an account without privileges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.item import Status
from dbcheck.model.verdict import Verdict
from dbcheck.rows.table import LEDGER
from tests.kit.accounts import Least, statements
from tests.kit.accounts import new_least as new_least
from tests.kit.labs import process_lab
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Said, bench, quick, rig_by_hand

TEMPORARY = (
    "create temporary table if not exists dbcheck.ledger (id bigint not null"
    " auto_increment primary key, epoch bigint not null, session int not null, seq"
    " bigint not null, part smallint not null, payload longblob not null, checksum"
    " bigint not null) engine = InnoDB comment = ''dbcheck 1''"
)


def test_a_cut_of_an_idle_server_is_no_pass(tmp_path: Path) -> None:
    """Trap 11: each session commits once in a minute, and nothing is at risk."""
    with bench(process_lab("postgresql"), tmp_path) as here:
        idle = replace(quick(sessions=1), rate=0.02, cut_after_s=(1.5, 1.5))
        outcome = run_cycle(here.rig, idle, SEED)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    items = {item.id.value: item for item in outcome.judgement.items}
    assert items["load at the cut"].status is Status.ABSENT
    assert outcome.found is not None
    assert outcome.found.counts == {}


def test_rows_on_both_sides_of_a_page_are_sent_and_compared(tmp_path: Path) -> None:
    """Trap 20: some drives lose only what is larger than 4 KiB."""
    with bench(process_lab("postgresql"), tmp_path) as here:
        outcome = run_cycle(here.rig, quick(), SEED)
        lengths = here.execute(
            f"select distinct length(payload) from {here.table} where session > 0"
        )
    sizes = sorted(size for (size,) in lengths)
    assert sizes[0] < 4096 < sizes[-1]
    assert sizes == sorted(set(outcome.manifest.workload.payload_bytes))
    assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_a_temporary_table_of_each_session_is_refused(
    new_least: Callable[[str], Least], tmp_path: Path, name: str
) -> None:
    """Trap 5: it hides the real table from its own session, and dies with it.

    The server makes one for every session as it begins (init_connect of MySQL 8.0 and
    MariaDB 10.5: run for each client without SUPER or CONNECTION_ADMIN).
    """
    least = new_least(name)
    for statement in statements(name):
        least.run(statement)
    least.engine().prepare((LEDGER,))
    least.run("grant create temporary tables on dbcheck.* to dbcheck@'%'")
    least.execute(f"set global init_connect = '{TEMPORARY}'")
    rig = rig_by_hand(least.engine(), tmp_path, Said())
    try:
        with (
            contextlib.closing(rig.witness),
            refused(ErrorId.ROW_NOT_VISIBLE, EngineError) as caught,
        ):
            run_preflight(rig, quick(), SEED)
    finally:
        least.execute("set global init_connect = ''")
    assert "row" in str(caught.value)


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_a_clock_that_was_set_for_a_session_dates_nothing(
    new_least: Callable[[str], Least], name: str
) -> None:
    """SET TIMESTAMP stops NOW(), from which on the server's log is read."""
    least = new_least(name)
    for statement in statements(name):
        least.run(statement)
    before = least.engine().facts()
    least.execute("set global init_connect = 'set timestamp = 1000000000'")
    try:
        after = least.engine().facts()
    finally:
        least.execute("set global init_connect = ''")
    assert after.started_us == before.started_us
    assert 0 <= after.clock_us - before.clock_us < 60_000_000
