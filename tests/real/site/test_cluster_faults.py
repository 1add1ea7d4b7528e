"""Faults of nodes and links in a cycle on a lab's cluster."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from dbcheck.cycle.outcome import Outcome
from dbcheck.lab.clusters.spec import ClusterSpec
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_clusters import run_cluster_cycles
from tests.kit.rigs import quick

LAB = LabSpec("postgresql", cut="process")


def cycle(folder: Path, spec: ClusterSpec, said: io.StringIO) -> Outcome:
    progress = PlainProgress(Console(file=said, width=200))
    (outcome,) = run_cluster_cycles(LAB, spec, quick(), 1, 1, progress, folder)
    return outcome


def slowest_ms(outcome: Outcome) -> float:
    assert outcome.result.load is not None
    return outcome.result.load.latency_ms["max"]


@pytest.mark.wide
def test_commits_wait_for_a_standby_that_is_paused(tmp_path: Path) -> None:
    said = io.StringIO()
    spec = ClusterSpec(pause_after_s=0.3, pause_s=1.5)
    outcome = cycle(tmp_path, spec, said)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert "node2 is paused for 1.5 s" in said.getvalue()
    assert slowest_ms(outcome) > 1000  # an honest commit takes a few
