"""Cuts that are to come during a task, and do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.config.workload_file import load
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.outcome import Outcome, find_met_activity
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.moments import Activity, Met, PlannedCut
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import LoadStatus
from dbcheck.report.verdict import verdict_report
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.tasks import TaskKind
from tests.kit.reports import printed
from tests.kit.rigs import FAMILIES, SEED, Bench, Said, bench
from tests.kit.waiting import wait_until

TRIES = 3

pytestmark = pytest.mark.root


def cut_during(here: Bench, kind: TaskKind) -> Outcome:
    """Return what a cycle finds whose cut aims at that kind of task."""
    workload = replace(load("windows"), sessions=4)
    moment = PlannedCut(1, Activity.HOUSEKEEPING, 0.5, 0.0, kind)
    started = run_preflight(here.rig, workload, SEED, moment=moment)
    load_until_cut(here.rig, started, Cutter(here.rig, started))
    here.rig.site.writer.power.restore()
    wait_until(lambda: here.rig.site.writer.engine.ready() is None, "server is back")
    return here.judge(started)


@pytest.mark.wide_with("mariadb")
@pytest.mark.parametrize("engine", FAMILIES)
def test_a_cut_comes_during_the_task_that_was_drawn(
    engine: str, tmp_path: Path
) -> None:
    """A task lasts for some flushes, so one may be over before the power is off.

    A busy machine misses it now and then, which has to be said; three in a row are not
    chance.
    """
    drive = DriveSpec(seed=4, flush_ms=5)
    with bench(LabSpec(engine, drive=drive), tmp_path) as here:
        for kind in (TaskKind.TRUNCATE, TaskKind.FILL):
            for _ in range(TRIES):
                outcome = cut_during(here, kind)
                tasks = outcome.result.housekeeping
                assert tasks is not None
                has_hit = tasks.at_cut is kind
                found = find_met_activity(outcome)
                assert found is not None
                assert (found == Met(Activity.HOUSEKEEPING)) is has_hit
                assert outcome.verdict is Verdict.PASS, outcome.judgement
                if has_hit:
                    break
            assert has_hit, f"{kind.value} was missed {TRIES} times"
            text = printed(verdict_report(outcome.result))
            assert f"the cut came during {kind.value}; before it " in text


def test_a_lying_drive_brings_back_what_tasks_had_removed(tmp_path: Path) -> None:
    """Or loses what they had left: whichever it keeps."""
    drive = DriveSpec(seed=4, personality="lying")
    with bench(LabSpec("postgresql", drive=drive), tmp_path) as here:
        outcome = cut_during(here, TaskKind.TRUNCATE)
    assert outcome.verdict is Verdict.FAIL


class Ends(Said):
    """Ends the session of the tasks once it has done two; the load goes on."""

    def __init__(self, here: Bench) -> None:
        super().__init__()
        self._here, self.has_ended = here, False

    def load(self, status: LoadStatus) -> None:
        super().load(status)
        if self.has_ended or status.seconds < 0.5:
            return
        ended = self._here.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where"
            " query ~ '[.]side|checkpoint|pg_switch_wal' and pid <> pg_backend_pid()"
        )
        self.has_ended = bool(ended)


def test_tasks_that_ended_before_the_cut_are_none_that_it_met(tmp_path: Path) -> None:
    """Nor does the message that ended their session say that the server shut down."""
    # It counts as ended early a second before the last ack, and a busy machine is late.
    workload = replace(load("windows"), sessions=4, cut_after_s=(6.0, 6.0))
    with bench(LabSpec("postgresql"), tmp_path) as here:
        listener = Ends(here)
        rig = replace(here.rig, listener=listener)
        outcome = finish_cycle(rig, run_preflight(rig, workload, SEED))
    assert listener.has_ended
    assert outcome.load is not None
    assert outcome.load.lost_early == (HOUSEKEEPING_SESSION,)
    tasks = outcome.result.housekeeping
    assert tasks is not None
    assert (tasks.at_cut, tasks.ended_early) == (None, True)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    text = printed(verdict_report(outcome.result))
    assert "the cut came after the housekeeping session had ended" in text
    assert "1 session, not replaced: their connections broke" in text
