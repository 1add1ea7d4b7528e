"""Cuts while InnoDB writes its redo log over again from its beginning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Rig
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from tests.kit.rigs import bench, quick

pytestmark = pytest.mark.root

MIB = 1 << 20
# The least that the server takes; it then checkpoints all the time.
SMALLEST = {
    "mariadb": ("innodb_log_file_size", 4 * MIB),
    "mysql": ("innodb_redo_log_capacity", 8 * MIB),
}


class CutOnceWritten(Cutter):
    """Has the power cut in its time, and not before the log went round three times."""

    def __init__(self, rig: Rig, started: Started) -> None:
        super().__init__(rig, started)
        facts = started.manifest.writer.facts
        assert facts.log is not None
        name, size = SMALLEST[facts.product.lower()]
        assert int(facts.settings[name]) == size
        self._until, self._is_written = facts.log.written + 3 * size, False

    def cut_if_due(self, load_s: float, behind_s: float, ack_us: int | None) -> None:
        if not self._is_written:
            log = self._rig.site.writer.engine.facts().log
            self._is_written = log is not None and log.written >= self._until
        if self._is_written:
            super().cut_if_due(load_s, behind_s, ack_us)


@pytest.mark.wide_with("lying", "mysql")
@pytest.mark.parametrize(
    ("personality", "expected"), [("honest", Verdict.PASS), ("lying", Verdict.FAIL)]
)
@pytest.mark.parametrize("engine", SMALLEST)
def test_a_redo_log_that_was_written_over_several_times(
    engine: str, personality: str, expected: Verdict, tmp_path: Path
) -> None:
    name, size = SMALLEST[engine]
    drive = DriveSpec(personality=personality, kept_writes="random")
    spec = LabSpec(engine, drive=drive, settings={name: str(size)})
    chosen = replace(quick("sizes", sessions=8), payload_bytes=(8192,))
    with bench(spec, tmp_path) as here:
        outcome = here.judge(here.cut_cycle(chosen, cutter=CutOnceWritten))
    assert outcome.verdict is expected, outcome.judgement
    assert outcome.load is not None and outcome.load.log is not None
    _, before = outcome.load.log
    assert before.written - before.checkpoint <= size
