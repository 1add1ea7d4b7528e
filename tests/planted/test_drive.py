"""Drives that keep their word, and drives that do not; cuts that reach them or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.depth import Depth
from tests.kit.rigs import FAMILIES, acked_ids, bench, listed_ids
from tests.planted.fault import FAIL, PASS, Fault, faults

pytestmark = [pytest.mark.planted, pytest.mark.root]

HONEST, WRITE_THROUGH = DriveSpec(seed=3), DriveSpec(personality="write-through")
LYING = DriveSpec(personality="lying", destage_age_s=0.6)
DRIVES = (
    Fault("honest", lambda: HONEST, PASS),
    Fault("write-through", lambda: WRITE_THROUGH, PASS),
)


@pytest.mark.wide_with("mariadb")
@faults(DRIVES)
@pytest.mark.parametrize("engine", FAMILIES)
def test_drives(engine: str, fault: Fault, tmp_path: Path) -> None:
    with bench(LabSpec(engine, drive=fault.plant()), tmp_path) as here:
        fault.require(here.judge(here.cut_cycle()), engine)


# The same drive: only the system under it goes down, then its own power.
SPARED = Fault("spared", lambda: "all", PASS)
CUT_OFF = Fault("cut off", lambda: "none", FAIL, {"missing-tail": -1})


@pytest.mark.wide_with("mariadb")
@pytest.mark.parametrize("engine", FAMILIES)
def test_a_lying_drive_whose_cache_is_spared_and_then_lost(
    engine: str, tmp_path: Path
) -> None:
    """A PASS says how deep its cut went; that it went no deeper clears no drive."""
    with bench(LabSpec(engine, drive=LYING), tmp_path) as here:
        for fault, depth in ((SPARED, Depth.OS), (CUT_OFF, Depth.DRIVE)):
            here.lab.set_drive(kept_writes=fault.plant())
            started = here.cut_cycle()
            selected = {row[0] for row in here.execute(f"select id from {here.table}")}
            outcome = here.judge(started)
            fault.require(outcome, engine)
            assert (
                listed_ids(started.run) == acked_ids(here.rig, started.run) - selected
            )
            assert outcome.case.depth is not None
            assert outcome.case.depth.depth is depth, outcome.case.depth
