"""Workers on other machines that load a cluster: whichever node takes the writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Rig
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.load.far import open_workers
from dbcheck.model.verdict import Verdict
from dbcheck.runner import assemble
from tests.kit.clusters import WORKLOAD, cluster_of, cycle, rebuilt, status
from tests.kit.dask_cluster import cluster

WORKERS, SESSIONS = 2, 4
AHEAD_S = 7200  # the clock of the first worker, for which root is needed


@contextlib.contextmanager
def workers(made: ClusterLab, rig: Rig, folder: Path) -> Iterator[tuple[Rig, Any]]:
    """Give *rig* with workers that load its cluster, and their processes."""
    given = {assemble.PASSWORD_VARIABLE: made.labs["node1"].password}
    engines = {
        name: partial(assemble.make_engine, lab.target_url, None)
        for name, lab in made.labs.items()
    }
    ahead_s = AHEAD_S if os.geteuid() == 0 else 0
    with (
        cluster(folder / "dask", WORKERS, given, ahead_s) as dask,
        open_workers(dask.address, engines["node1"], SESSIONS, engines) as far,
    ):
        yield replace(rig, far=far), dask


def run(rig: Rig, before: Callable[[], object] = lambda: None) -> Outcome:
    """Run a cycle; *before* its load something is done to the cluster."""
    assert rig.far is not None
    workload = rig.far.shared(replace(WORKLOAD, sessions=SESSIONS))
    return cycle(rig, before, workload)


def count_logs(outcome: Outcome) -> list[int]:
    """Return how many acks of sessions each worker's log holds."""
    return [log.acks for log in outcome.case.logs[1:]]


def test_workers_load_the_writer_of_each_cycle(tmp_path: Path) -> None:
    with (
        cluster_of(tmp_path) as (made, rig),
        workers(made, rig, tmp_path) as (loaded, dask),
    ):
        first = run(loaded)
        assert dask.loading() == []
        second = run(rebuilt(loaded, made, "node2"))
    for outcome, writer, reader in (
        (first, "node1", "node2"),
        (second, "node2", "node1"),
    ):
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        assert outcome.manifest.writer_name == writer
        assert outcome.after.reader_name == reader
        assert all(count > 0 for count in count_logs(outcome))
        assert status(outcome, ItemId.IN_SYNC) is Status.PRESENT
        assert outcome.case.clock_set == ""


@pytest.mark.wide
def test_what_workers_were_acknowledged_and_no_standby_has_is_lost(
    tmp_path: Path,
) -> None:
    with (
        cluster_of(tmp_path, synchronous_standby_names="") as (made, rig),
        workers(made, rig, tmp_path) as (loaded, _),
    ):
        outcome = run(loaded, made.take_links_down)
    assert outcome.verdict is Verdict.FAIL
    assert outcome.found is not None
    assert sum(outcome.found.own_counts.values()) > 0
    assert outcome.case.left["node1"].behind > 0


def test_what_an_old_writer_acknowledges_after_a_promotion_is_seen(
    tmp_path: Path,
) -> None:
    """As if a cluster manager promoted a standby beside a writer that lives on."""
    with (
        cluster_of(tmp_path, synchronous_standby_names="") as (made, rig),
        workers(made, rig, tmp_path) as (loaded, _),
    ):
        promoted: Any = rig.site.nodes["node2"].engine
        outcome = run(loaded, promoted.promote)
    acked = sum(count_logs(outcome))
    assert outcome.found is not None
    assert sum(outcome.found.own_counts.values()) == acked > 0
    assert outcome.case.left["node1"].behind == acked
    assert outcome.verdict is Verdict.FAIL
