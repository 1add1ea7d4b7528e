"""Cuts that are to come during a chore, and do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.campaign.loading import Cutter, load_until_cut
from dbcheck.campaign.outcome import Outcome, missed_stratum
from dbcheck.campaign.preflight import preflight
from dbcheck.core.chores import ChoreKind
from dbcheck.core.moments import Moment, Stratum
from dbcheck.core.verdict import Verdict
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.report.verdict import verdict_report
from dbcheck.workload import load
from tests.kit.reports import printed
from tests.kit.rigs import FAMILIES, SEED, Bench, bench
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root


def cut_during(here: Bench, kind: ChoreKind) -> Outcome:
    """Return what a cycle finds whose cut aims at that kind of chore."""
    workload = replace(load("windows"), sessions=4)
    moment = Moment(1, Stratum.HOUSEKEEPING, 0.5, 0.0, kind)
    started = preflight(here.rig, workload, SEED, moment=moment)
    load_until_cut(here.rig, started, Cutter(here.rig, started))
    here.rig.site.writer.power.restore()
    wait_until(lambda: here.rig.site.writer.engine.ready() is None, "server is back")
    return here.judge(started)


@pytest.mark.parametrize("engine", FAMILIES)
def test_a_cut_comes_during_the_chore_that_was_drawn(
    engine: str, tmp_path: Path
) -> None:
    with bench(LabSpec(engine, drive=DriveSpec(seed=4)), tmp_path) as here:
        for kind in (ChoreKind.TRUNCATE, ChoreKind.FILL):
            outcome = cut_during(here, kind)
            chores = outcome.result.housekeeping
            assert chores is not None
            assert (chores.at_cut is kind) is (missed_stratum(outcome) == "")
            assert chores.at_cut is kind
            assert outcome.verdict is Verdict.PASS, outcome.judgement
            text = printed(verdict_report(outcome.result))
            assert f"the cut came during {kind.value}; before it " in text


def test_a_lying_drive_brings_back_what_chores_had_removed(tmp_path: Path) -> None:
    """Or loses what they had left: whichever it keeps."""
    drive = DriveSpec(seed=4, personality="lying")
    with bench(LabSpec("postgresql", drive=drive), tmp_path) as here:
        outcome = cut_during(here, ChoreKind.TRUNCATE)
    assert outcome.verdict is Verdict.FAIL
