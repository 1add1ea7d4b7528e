"""What a cycle reports of itself while it runs: the load, the reading, the judging."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.ports.listener import LoadStatus, Phase, Progress, Unit
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.table import LEDGER
from dbcheck.witness.log import FrameLogReader
from tests.kit.labs import process_lab
from tests.kit.rigs import SEED, bench, quick


class Noted(PlainProgress):
    """Keeps all that is reported, by phase."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.phases = [Phase.PREFLIGHT]
        self.loads: list[LoadStatus] = []
        self.steps: defaultdict[Phase, list[Progress]] = defaultdict(list)

    def phase(self, phase: Phase, detail: str) -> None:
        self.phases.append(phase)

    def load(self, status: LoadStatus) -> None:
        self.loads.append(status)

    def progress(self, progress: Progress) -> None:
        self.steps[self.phases[-1]].append(progress)


def test_a_cycle_reports_how_far_it_is(tmp_path: Path) -> None:
    with bench(process_lab("postgresql"), tmp_path) as here:
        noted = Noted()
        rig = replace(here.rig, listener=noted)
        outcome = run_cycle(rig, replace(quick(), rows_before=2000), SEED)
    assert outcome.found is not None
    left = [one.cut_in_s for one in noted.loads if one.cut_in_s is not None]
    assert len(left) >= 2
    assert left == sorted(left, reverse=True)
    busy = [one for one in noted.loads if one.rate]
    assert busy
    assert all(0 < one.recent_ms["p50"] <= one.recent_ms["max"] for one in busy)
    assert all(one.recent_ms["max"] <= one.latency_ms["max"] for one in busy)
    filled = noted.steps[Phase.FILL][-1]
    assert (filled.done, filled.total, filled.unit) == (2000, 2000, Unit.ROWS)
    rows = outcome.after.survivors[LEDGER.name].rows
    expected = 2000 + sum(outcome.result.load.acked.values())  # type: ignore[union-attr]
    read = noted.steps[Phase.READ][-1]
    assert (read.what, read.done, read.total) == (LEDGER.name, rows, expected)
    judged = noted.steps[Phase.JUDGE]
    assert {one.total for one in judged} == {rows}
    assert judged[-1].done == rows
    again: list[Progress] = []
    judge_run(outcome.run, FrameLogReader(), again.append)
    assert again == judged
