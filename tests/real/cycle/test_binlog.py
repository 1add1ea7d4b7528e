"""MariaDB and MySQL with a binary log: what a commit hangs on then, cut for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.cycle import run_controls, run_cycle
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.rows.table import LEDGER
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Bench, bench, quick
from tests.real.cycle.weak import weak_session

pytestmark = pytest.mark.root

FLUSHED = {"log_bin": "ON", "sync_binlog": "1"}
LEFT = {"log_bin": "ON", "sync_binlog": "0"}


def restart_with(here: Bench, settings: dict[str, str]) -> None:
    switch = here.lab.switch()
    switch.cut()
    here.lab.configure(settings)
    switch.restore()


@pytest.mark.parametrize(
    "engine", ["mariadb", pytest.param("mysql", marks=pytest.mark.soak)]
)
def test_a_flushed_binary_log_keeps_all_and_another_is_never_cleared(
    engine: str, tmp_path: Path
) -> None:
    with bench(LabSpec(engine, settings=FLUSHED), tmp_path) as here:
        kept = run_cycle(here.rig, quick(), SEED)
        assert kept.verdict is Verdict.PASS, kept.judgement
        restart_with(here, LEFT)
        lax = run_cycle(here.rig, quick(), SEED + 1)
    at_fault = lax.settings.at_fault(lost=True)
    assert [finding.rule.fact for finding in at_fault] == ["sync_binlog"]
    assert lax.found is not None
    if lax.found.counts:  # in about every second cut, and few
        assert lax.verdict is Verdict.FAIL
        assert lax.found.counts.keys() <= {"missing-tail", "missing-hole"}
    else:
        assert lax.verdict is Verdict.INCONCLUSIVE
        assert "sync_binlog = 0 is documented" in lax.judgement.reasons[0]


@pytest.mark.wide
def test_a_control_weakens_the_binary_log_too(tmp_path: Path) -> None:
    """MariaDB recovers by the binary log: a flush of it makes the commit durable."""
    with bench(LabSpec("mariadb", settings=FLUSHED), tmp_path) as here:
        # Its log is written once a second; a cut just after that loses nothing.
        *_, control = run_controls(here.rig, quick(), SEED)
        assert control.verdict is Verdict.PASS, control.judgement
        assert "sync_binlog = 0 (was 1)" in here.said.text
        here.rig.site.writer.engine.prepare((LEDGER,))
        here.execute("set global innodb_flush_log_at_trx_commit = 2")
        with refused(
            ErrorId.CONTROL_UNDONE, EngineError, naming=("sync_binlog", "is 1")
        ):
            weak_session(here.rig.site.writer.engine)


@pytest.mark.wide_with("mysql-1")
@pytest.mark.parametrize(("engine", "default"), [("mariadb", 0), ("mysql", 1)])
def test_a_lab_has_the_binary_log_that_its_product_has(
    engine: str, default: int, tmp_path: Path
) -> None:
    with bench(LabSpec(engine, cut="process"), tmp_path) as here:
        ask = "select @@global.log_bin"
        assert here.execute(ask) == [(default,)]
        restart_with(here, {"log_bin": "OFF" if default else "ON"})
        assert here.execute(ask) == [(1 - default,)]
