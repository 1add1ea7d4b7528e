"""A PostgreSQL in a pod of a real Kubernetes, on what a pod may have its data on.

Needs `python -m tools.kubernetes build`, which takes a quarter of an hour.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.cycle.own_data import read_own_facts
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.depth import Depth
from dbcheck.model.host import TargetFacts
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.kubernetes.clusters import (
    MARKS,
    cluster_in,
    find_item,
    run_on,
    server_in,
)
from tests.kit.servers import answers
from tests.kit.waiting import wait_until
from tools.kubernetes.cluster import start_again
from tools.kubernetes.machine import cut
from tools.kubernetes.state import Cluster

pytestmark = MARKS
BESIDE = """\
[{"op": "add", "path": "/spec/template/spec/containers/-", "value": {
  "name": "exporter", "image": "dbcheck.invalid/empty:1", "imagePullPolicy": "Never",
  "command": ["/bin/sh", "-c", "trap exit TERM; echo exporter; sleep 3600 & wait"],
  "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": true},
                   {"name": "etc", "mountPath": "/etc", "readOnly": true}]}}]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("kubernetes") / "cluster") as made:
        yield made


def facts_of(engine: Engine) -> TargetFacts:
    with contextlib.closing(open_host("local:")) as host:
        return read_own_facts(host, engine.facts(), engine.places((LEDGER,)))


def test_each_pod_has_its_data_where_its_volume_is(
    cluster: Cluster, tmp_path: Path
) -> None:
    found = {}
    for kind in ("volume", "empty-dir", "layer"):
        with server_in(cluster, kind, tmp_path / kind) as engine:
            found[kind] = facts_of(engine)
    assert found["volume"].data_directory == str(tmp_path / "volume/pgdata")
    assert "/kubernetes.io~empty-dir/data/pgdata" in found["empty-dir"].data_directory
    assert found["layer"].data.filesystem == "overlay"
    for facts in found.values():
        assert facts.container
        assert "/kubepods/" in facts.container.cgroup
        assert (facts.unseen, facts.seen_otherwise, facts.view_unread) == ({}, {}, "")


def test_a_node_that_stops_starts_the_pod_again_with_another_log(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The log of each start is read, and not that of another container of the pod."""
    with server_in(cluster, "volume", tmp_path / "data") as engine:
        cluster.kubectl("patch", "statefulset/pg", "--type=json", "-p", BESIDE)
        cluster.kubectl("rollout", "status", "statefulset/pg", timeout_s=120)
        wait_until(lambda: answers(engine), "the server takes queries")
        engine.prepare((LEDGER,))
        for cycle in ("first", "second"):
            outcome = run_on(
                cluster,
                engine,
                tmp_path / cycle,
                lambda: cut(cluster),
                lambda: start_again(cluster),
            )
            assert outcome.case.host is not None
            assert outcome.case.host.log is not None
            assert "was not properly shut down" in outcome.case.host.log.text
            assert outcome.case.depth is not None
            assert outcome.case.depth.depth is Depth.PROCESS, outcome.case.depth
            assert find_item(outcome, ItemId.SAME_POD).status is Status.PRESENT
            assert outcome.verdict is Verdict.PASS, outcome.judgement


def test_a_pod_that_was_made_anew_on_its_volume_is_read(
    cluster: Cluster, tmp_path: Path
) -> None:
    def start_and_delete() -> None:
        start_again(cluster)
        cluster.kubectl("delete", "pod", "pg-0", "--force", "--grace-period=0")

    with server_in(cluster, "volume", tmp_path / "data") as engine:
        engine.prepare((LEDGER,))
        outcome = run_on(
            cluster, engine, tmp_path / "run", lambda: cut(cluster), start_and_delete
        )
        found = find_item(outcome, ItemId.SAME_POD)
        assert found.status is Status.PRESENT and "made anew" in found.reason
        assert outcome.verdict is Verdict.PASS, outcome.judgement
