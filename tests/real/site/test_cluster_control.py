"""dbcheck lab run --nodes N --control: what no other node has must be lost first."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dbcheck.cycle import cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.spec import FOLLOW, REWIND, ClusterSpec
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import ControlOutcome, Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_clusters import run_cluster_cycles
from tests.kit.clusters import GROUPS, dbcheck, status
from tests.kit.rigs import quick, write_quick

PROCESS = LabSpec("postgresql", cut="process")
NO_SETTINGS: Mapping[str, str] = {}
QUORUM = {"synchronous_standby_names": "ANY 1 (node2, node3)"}


def test_a_control_loses_before_the_cycle_that_must_not(tmp_path: Path) -> None:
    done = dbcheck(
        *("lab", "run", "--engine", "postgresql", "--cut", "process", "--nodes", 2),
        *("--control", "--workload", write_quick(tmp_path), "--json"),
        *("--runs", tmp_path / "runs"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    control = result["controls"][-1]
    assert control["control"] and control["cluster"]["read"] == "node2"
    assert control["losses"]
    (ordinary,) = result["cycles"]
    assert ordinary["verdict"] == "PASS" and not ordinary["losses"]


def run(
    folder: Path,
    lab: LabSpec = PROCESS,
    cycles: int = 1,
    settings: Mapping[str, str] = NO_SETTINGS,
    **given: Any,
) -> list[Outcome]:
    """Run controls and cycles; given: the cluster's spec."""
    spec, lab = ClusterSpec(**given), replace(lab, settings=dict(settings))
    if lacking := list_missing(replace(lab, galera=spec.topology == "galera")):
        pytest.skip("; ".join(lacking))
    progress = PlainProgress(Console(file=io.StringIO()))
    each = run_cluster_cycles(
        *(lab, spec, quick(), 1, cycles, progress, folder), control=True
    )
    return list(each)


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("engine", "promise", "given"),
    [
        ("postgresql", Promise.WRITER_GONE, {"nodes": 3, "settings": QUORUM}),
        ("postgresql", Promise.ALL_WRITER_GONE, {}),
        ("postgresql", Promise.ALL, {}),
        ("mysql", Promise.WRITER_GONE, {}),
        ("mysql", Promise.ALL_WRITER_GONE, {}),
        ("mysql", Promise.WRITER, {}),
        ("mariadb", Promise.WRITER_GONE, {"nodes": 3, "rebuild": FOLLOW}),
        ("mariadb", Promise.ALL, {}),
        ("mariadb", Promise.ALL, {"nodes": 3, "topology": "galera"}),
        *(
            (engine, Promise.WRITER_GONE, {"nodes": 3, "topology": topology})
            for topology, engine in GROUPS.items()
        ),
    ],
    ids=lambda value: (
        "-".join(value) if isinstance(value, dict) else getattr(value, "value", value)
    ),
)
def test_each_kind_of_cluster_has_a_control(
    tmp_path: Path, engine: str, promise: Promise, given: dict[str, Any]
) -> None:
    drive = DriveSpec(destage_age_s=0)  # nothing becomes stable by itself
    lab = LabSpec(engine, drive=drive)
    *_, control, outcome = run(tmp_path, lab, promise=promise.value, **given)
    assert control.judgement.control is ControlOutcome.LOST, control.judgement.reasons
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert status(outcome, ItemId.CONTROL) is Status.PRESENT


def send_to_standbys(patch: pytest.MonkeyPatch, tries: int) -> None:
    """Have the commits of the first *tries* controls reach the standbys all the same.

    As if the sessions' setting had no effect, and no standby was disconnected.
    """
    detaching = PostgresqlEngine.open_detaching
    weak = PostgresqlEngine.open_weak_session
    run_control, begun = cycle.run_control, list[int]()

    def run_noted_control(*arguments: Any) -> Outcome:
        begun.append(1)
        return run_control(*arguments)

    def open_session(engine: Any, statements: Any, *rest: Any, **more: Any) -> Any:
        if len(begun) > tries:
            return weak(engine, statements, *rest, **more)
        return engine.open_session(statements, **more)

    def open_detaching(engine: Any, names: Any, **more: Any) -> Any:
        return detaching(engine, names, **more) if len(begun) > tries else None

    patch.setattr(cycle, "run_control", run_noted_control)
    patch.setattr(PostgresqlEngine, "open_weak_session", open_session)
    patch.setattr(PostgresqlEngine, "open_detaching", open_detaching)


def test_no_cycle_passes_if_the_control_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_to_standbys(monkeypatch, tries=1)
    monkeypatch.setattr(cycle, "TRIES_MAX", 1)
    control, outcome = run(tmp_path)
    assert control.judgement.control is ControlOutcome.BLIND
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.CONTROL) is Status.ABSENT
    assert outcome.found is not None and not outcome.found.counts


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_a_control_that_lost_nothing_is_tried_again_on_a_new_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cycles have the faults that were asked for, and one cluster."""
    send_to_standbys(monkeypatch, tries=1)
    outcomes = run(tmp_path, cycles=2, rebuild=REWIND, cut_promoted_ms=50)
    blind, lost, *cycles = outcomes
    assert blind.judgement.control is ControlOutcome.BLIND
    assert lost.judgement.control is ControlOutcome.LOST
    assert [one.verdict for one in cycles] == [Verdict.PASS] * 2
    servers = [one.manifest.writer.target for one in (blind, lost, cycles[0])]
    assert len(set(servers)) == 3
    writers = [one.manifest.writer_name for one in outcomes]
    assert writers == ["node1", "node1", "node1", "node2"]
