"""A cluster whose promoted node is restarted, and read a second time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.recovery.second_reading import require_restarter
from dbcheck.lab.clusters.spec import REWIND, ClusterSpec
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cluster import SiteKind
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_clusters import run_cluster_cycles
from dbcheck.site.cluster import Cluster
from tests.kit.clusters import cluster_of, cycle
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick


@pytest.mark.wide
def test_cycles_of_a_lab_are_read_twice(tmp_path: Path) -> None:
    """The node that was restarted leads the next cycle."""
    cycles = run_cluster_cycles(
        *(LabSpec("postgresql"), ClusterSpec(2, rebuild=REWIND), quick(), SEED, 2),
        *(PlainProgress(Console(quiet=True)), tmp_path),
        twice=True,
    )
    for outcome in cycles:
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        assert outcome.after.again and not outcome.after.again.changed


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_the_node_that_took_over_is_read_twice(tmp_path: Path, engine: str) -> None:
    with cluster_of(tmp_path, engine=engine) as (_, rig):
        outcome = cycle(replace(rig, read_twice=True))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node2"
    again = outcome.after.again
    assert again is not None
    assert not again.not_done and not again.failure
    assert again.changed == 0
    assert again.rows >= (outcome.result.confirmed or 0) > 0


def test_each_node_that_may_be_read_needs_a_way_to_restart_it(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (_, rig):
        site = rig.site
        assert isinstance(site, Cluster)
        nodes = {**site.nodes, "node2": replace(site.nodes["node2"], restarter=None)}
        lacking = Cluster(SiteKind.STREAMING, nodes, "node1", site.promise)
        with refused(ErrorId.RESTART_COMMAND_MISSING, UsageError, naming="node2"):
            require_restarter(replace(rig, site=lacking, read_twice=True))
