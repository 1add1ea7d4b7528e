"""MyRocks, the RocksDB storage engine of MariaDB, under real cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.cycle import run_controls, run_cycle
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.rows.table import LEDGER
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, bench, cut_beside, cut_relaxed, quick
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

FLUSH = "rocksdb_flush_log_at_trx_commit"
AT_DRIVE = pytest.mark.root


@pytest.fixture(autouse=True)
def _has_myrocks() -> None:
    skip_without_server("myrocks")


def spec(cut: str = "drive", *, kept_writes: str = "none", **settings: str) -> LabSpec:
    drive = DriveSpec(kept_writes=kept_writes, seed=3)
    return LabSpec("myrocks", cut=cut, settings=settings, drive=drive)


@AT_DRIVE
def test_an_honest_drive_passes_and_what_innodb_does_is_not_asked(
    tmp_path: Path,
) -> None:
    # A setting of InnoDB's bears on no row of MyRocks.
    relaxed = {"innodb_flush_log_at_trx_commit": "0"}
    with bench(spec(kept_writes="torn", **relaxed), tmp_path) as here:
        outcome = run_cycle(here.rig, quick(sessions=8), SEED)
        assert outcome.verdict is Verdict.PASS, outcome.judgement
        items = {item.id: item for item in outcome.judgement.items}
        assert items[ItemId.SETTINGS].status is Status.PRESENT
        assert items[ItemId.SAME_TABLE].status is Status.PRESENT
        assert "RocksDB log" in items[ItemId.PLACES].reason
        engine = here.rig.site.writer.engine
        assert outcome.after.tables == engine.prepare((LEDGER,))
        assert outcome.after.tables[LEDGER.name].identity.isdigit()


@AT_DRIVE
def test_a_relaxed_setting_fails_and_is_named(tmp_path: Path) -> None:
    with bench(spec(**{FLUSH: "2"}), tmp_path) as here:
        outcome = cut_relaxed(here.rig, quick(sessions=8))
        assert outcome.verdict is Verdict.FAIL, outcome.judgement
        (finding,) = outcome.settings.at_fault(lost=True)
        assert finding.rule.id == "my-rocksdb-flush-log"


def test_a_bulk_load_is_refused_before_any_row_is_written(tmp_path: Path) -> None:
    with (
        bench(spec("process", rocksdb_bulk_load="1"), tmp_path) as here,
        refused(ErrorId.BULK_LOAD_ON),
    ):
        run_cycle(here.rig, quick(), SEED)


def test_a_bulk_load_that_begins_under_load_is_named(tmp_path: Path) -> None:
    """Only sessions that begin under it write past the log.

    One session: MariaDB 10.11 may crash (signal 11) if several load one table in bulk.
    """

    def killed() -> bool:
        at_work = here.execute(
            "select id from information_schema.processlist"
            " where info like '%insert%ledger%' and id <> connection_id()"
        )
        for (number,) in at_work:
            here.execute(f"kill {number}")
        return bool(at_work)

    def act() -> None:
        here.execute("set global rocksdb_bulk_load = 1")
        wait_until(killed, "sessions of the load")
        executed = "show global status like 'Com_insert'"
        ((_, before),) = here.execute(executed)
        wait_until(
            lambda: int(here.execute(executed)[0][1]) > int(before) + 500, "commits"
        )

    with bench(spec("process"), tmp_path) as here:
        outcome = cut_beside(here, act, quick(sessions=1))
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert outcome.result.diagnosis[0].cause is Cause.SETTING
    (finding,) = outcome.settings.at_fault(lost=True)
    assert finding.rule.id == "my-rocksdb-bulk-load"


@pytest.mark.wide
@AT_DRIVE
def test_a_control_weakens_myrocks_and_loses(tmp_path: Path) -> None:
    with bench(spec(), tmp_path) as here:
        # Its log is written once a second; a cut just after that loses nothing.
        *_, outcome = run_controls(here.rig, quick(sessions=8), SEED)
        assert outcome.found is not None
        assert outcome.found.counts.keys() == {"missing-tail"}
        assert f"{FLUSH} = 2 (was 1)" in here.said.text


@pytest.mark.wide
@AT_DRIVE
@pytest.mark.parametrize("workload", ["two-phase", "order-entry"])
def test_other_workloads_pass(workload: str, tmp_path: Path) -> None:
    with bench(spec(kept_writes="random"), tmp_path) as here:
        outcome = run_cycle(here.rig, quick(workload, sessions=8), SEED)
        assert outcome.verdict is Verdict.PASS, outcome.judgement


@pytest.mark.wide
def test_a_log_that_a_kill_cut_in_two_keeps_the_server_from_starting(
    tmp_path: Path,
) -> None:
    # A kill may come while the part of the log that is in files ends with a record.
    for cycle in range(8):
        with bench(spec("process", **{FLUSH: "2"}), tmp_path / str(cycle)) as here:
            outcome = run_cycle(here.rig, quick(sessions=8), SEED)
        assert outcome.verdict is Verdict.FAIL
        if outcome.after.failure:
            assert "Corruption: truncated record body" in outcome.after.failure
            return
    pytest.fail("no kill cut a record")


@pytest.mark.wide
def test_a_savepoint_that_myrocks_cannot_roll_back_to_is_refused(
    tmp_path: Path,
) -> None:
    with (
        bench(spec("process"), tmp_path) as here,
        refused(ErrorId.COMMIT_REFUSED, EngineError, naming="4061") as caught,
    ):
        run_cycle(here.rig, quick("rollback"), SEED)
    assert "order-entry" in caught.value.hint
