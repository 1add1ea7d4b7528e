"""Rows that another session saw before they were durable, and the cut took back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result
from dbcheck.cycle.cycle import finish_cycle, run_control
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.results import SeenTotal
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.rows.acks import HOUSEKEEPING_SESSION, AckValues
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.clusters import status
from tests.kit.labs import process_lab
from tests.kit.rigs import SEED, Bench, bench, plan, quick

FLUSH_MS = 100
SESSIONS = 8
CUTS_MAX = 5
WAIT_S = 60.0
WITHOUT = {"log_bin": "OFF"}
WITH = {"log_bin": "ON", "sync_binlog": "1"}
WITH_LOG = {"postgresql": {}, "mariadb": WITH, "mysql": WITH}


class Changed:
    """Something whose method *name* is another one; it hands on all else."""

    def __init__(self, inner: Any, name: str, method: Callable[..., Any]) -> None:
        self._inner = inner
        setattr(self, name, method)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Watch:
    """Notes what is acked; has the power cut once a reader saw a row that is not.

    The flush of such a row has only just begun.
    """

    def __init__(self) -> None:
        self._acked: dict[int, int] = {}
        self._is_seen = threading.Event()

    def acks_of(self, log: Any) -> Any:
        """Return the log of the sessions, watched."""

        def append_many(acks: Sequence[AckValues]) -> None:
            self._acked.update({session: seq for session, seq, *_ in acks})
            log.append_many(acks)

        return Changed(log, "append_many", append_many)

    def readers_on(self, witness: Any) -> Any:
        """Return the witness, on which the log of the readers is watched."""

        def join(run_id: str, number: int) -> Any:
            log = witness.join(run_id, number)

            def append_many(rows: Sequence[AckValues]) -> None:
                log.append_many(rows)
                if any(seq > self._acked.get(session, 0) for session, seq, *_ in rows):
                    self._is_seen.set()

            return Changed(log, "append_many", append_many)

        return Changed(witness, "join", join)

    def switched_by(self, power: Any) -> Any:
        """Return the switch, which waits for such a row."""

        def cut() -> Any:
            self._is_seen.clear()
            assert self._is_seen.wait(WAIT_S), "no row was seen before its ack"
            return power.cut()

        return Changed(power, "cut", cut)


def cut_cycle(here: Bench, *, once_seen: bool, seed: int = SEED) -> Outcome:
    """Cut while flushes are slow, if *once_seen* when an unacked row was just seen."""
    chosen = replace(quick(sessions=SESSIONS), readers=2, cut_after_s=(1.5, 2.0))
    rig, watch = here.rig, Watch()
    if once_seen:
        node = rig.site.writer
        node = replace(node, power=watch.switched_by(node.power))
        witness = watch.readers_on(rig.witness)
        rig = replace(rig, site=rig.site.with_writer(node), witness=witness)
    started = run_preflight(rig, chosen, seed)
    here.lab.set_drive(flush_ms=FLUSH_MS)
    return finish_cycle(rig, replace(started, log=watch.acks_of(started.log)))


def cut_until(
    here: Bench, is_wanted: Callable[[Outcome], bool], *, once_seen: bool
) -> Outcome:
    """Cut until *is_wanted* is true of the outcome, mostly once; none may be a FAIL."""
    for seed in range(1, CUTS_MAX + 1):
        outcome = cut_cycle(here, once_seen=once_seen, seed=seed)
        assert outcome.verdict is not Verdict.FAIL, outcome.judgement
        if is_wanted(outcome):
            return outcome
        here.lab.set_drive(flush_ms=DriveSpec().flush_ms)
    raise AssertionError(f"not one of {CUTS_MAX} cuts: {outcome.judgement}")


def has_lost_seen_row(outcome: Outcome) -> bool:
    """A flush may just have made the row durable whose ack is still to come."""
    return outcome.result.seen is not None and outcome.result.seen.lost > 0


def was_at_risk(outcome: Outcome) -> bool:
    """Return False if a busy machine was so slow that no commit was at risk."""
    return status(outcome, ItemId.LOAD) is not Status.ABSENT


@pytest.mark.wide_with("mysql")
@pytest.mark.root
@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_innodb_shows_rows_that_the_cut_takes_back(engine: str, tmp_path: Path) -> None:
    with bench(LabSpec(engine, settings=WITHOUT), tmp_path) as here:
        outcome = cut_until(here, has_lost_seen_row, once_seen=True)
    seen, load = outcome.result.seen, outcome.load
    assert seen is not None and load is not None
    assert 0 < seen.lost <= SESSIONS
    assert seen.rows == load.seen
    for row in seen.first:
        assert row.seq == load.acked.get(row.session, 0) + 1 == load.sent[row.session]
        assert row.seen_before_cut_s is not None
    assert judge_run(outcome.run, FrameLogReader()).result == outcome.result


@pytest.mark.wide_with("mariadb", "mysql")
@pytest.mark.root
@pytest.mark.parametrize("engine", WITH_LOG)
def test_others_show_no_row_before_it_is_durable(engine: str, tmp_path: Path) -> None:
    with bench(LabSpec(engine, settings=WITH_LOG[engine]), tmp_path) as here:
        outcome = cut_until(here, was_at_risk, once_seen=False)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.result.seen is not None
    assert outcome.result.seen.rows > 0
    assert outcome.result.seen.lost == 0


@pytest.mark.wide
def test_readers_beside_processes_see_the_rows_of_all(tmp_path: Path) -> None:
    chosen = replace(quick("mixed", sessions=4), processes=2, readers=2)
    with bench(process_lab("postgresql"), tmp_path) as here:
        outcome = here.judge(here.cut_cycle(chosen))
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.load is not None and outcome.result.seen is not None
    assert outcome.manifest.logs == 4
    assert len(outcome.load.watermarks) == len(outcome.case.logs) == 3
    assert 0 < outcome.result.seen.rows <= sum(outcome.load.sent.values())
    assert outcome.result.seen.lost == 0


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize("engine", WITH_LOG)
def test_a_campaign_adds_up_what_readers_saw_beside_tasks(
    engine: str, tmp_path: Path
) -> None:
    chosen = plan(engine, cuts=2, workload=replace(quick("windows"), readers=2))
    folder = CampaignFolder.create(tmp_path / "campaign", chosen)
    with bench(LabSpec(engine, settings=WITH_LOG[engine]), tmp_path) as here:
        run_campaign(here.rig, folder)
    shown = make_result(folder)
    assert shown.verdict is Verdict.PASS, [cycle.reason for cycle in shown.cycles]
    # A cycle that showed nothing was repeated; what its readers saw counts as well.
    loads = [RunFolder.open(folder.runs / c.run).load() for c in shown.cycles]
    seen = [load.seen for load in loads if load is not None]
    tasks = [load.acked[HOUSEKEEPING_SESSION] for load in loads if load is not None]
    assert all(seen) and all(tasks) and len(seen) == len(shown.cycles) >= 2
    assert shown.seen == SeenTotal(len(seen), lossy=0, rows=sum(seen), lost=0)


@pytest.mark.wide
def test_in_a_control_nobody_reads(tmp_path: Path) -> None:
    chosen = replace(quick(), readers=2)
    with bench(process_lab("postgresql"), tmp_path) as here:
        control = run_control(here.rig, chosen, SEED)
    assert control.manifest.logs == 1
    assert control.result.seen is None
