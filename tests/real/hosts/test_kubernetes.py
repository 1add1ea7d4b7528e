"""A PostgreSQL in a pod of a real Kubernetes, on what a pod may have its data on.

Needs `python -m tools.kubernetes build`, which takes a quarter of an hour.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.lab.held_port import HeldPort
from dbcheck.model.depth import Depth
from dbcheck.model.host import TargetFacts
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.nodes import site_of
from tests.kit.rigs import SEED, Said, quick
from tests.kit.servers import answers
from tests.kit.waiting import wait_until
from tests.planted.site import HandSwitch
from tools.kubernetes.build import find_folder
from tools.kubernetes.cluster import start_again, up
from tools.kubernetes.machine import cut, down
from tools.kubernetes.server import end_server, start_server
from tools.kubernetes.state import Cluster

MISSING = [
    program
    for program in (str(find_folder() / "kubernetes"), "containerd", "runc", "etcd")
    if not shutil.which(program)
]
pytestmark = [
    pytest.mark.wide,
    pytest.mark.root,
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]
BESIDE = """\
[{"op": "add", "path": "/spec/template/spec/containers/-", "value": {
  "name": "exporter", "image": "dbcheck.invalid/empty:1", "imagePullPolicy": "Never",
  "command": ["/bin/sh", "-c", "trap exit TERM; echo exporter; sleep 3600 & wait"],
  "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": true},
                   {"name": "etc", "mountPath": "/etc", "readOnly": true}]}}]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("kubernetes").resolve() / "cluster")
    try:
        yield up(made.folder)
    finally:
        if made.traces.exists():
            down(made)


@contextlib.contextmanager
def server_in(cluster: Cluster, kind: str, folder: Path) -> Iterator[Engine]:
    held = HeldPort()
    start_server(cluster, kind, held.number, folder)
    try:
        engine = open_engine(
            f"postgresql+psycopg2://dbcheck@127.0.0.1:{held.number}/postgres"
        )
        wait_until(lambda: answers(engine), "the server takes queries")
        yield engine
    finally:
        end_server(cluster)


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
        switch = HandSwitch(lambda: cut(cluster), lambda: start_again(cluster))
        for cycle in ("first", "second"):
            with (
                contextlib.closing(
                    open_witness(f"file:{tmp_path}/{cycle}", volatile=True)
                ) as witness,
                contextlib.closing(open_host("local:")) as host,
            ):
                rig = Rig(
                    site_of(engine, switch, host=host),
                    witness,
                    FrameLogReader(),
                    Said(),
                    tmp_path / "runs",
                    Limits(silence_s=3.0, cut_s=4.0, return_s=90),
                    lab={"cut": "process"},
                )
                outcome = run_cycle(rig, quick(), SEED)
            assert outcome.case.host is not None
            assert outcome.case.host.log is not None
            assert "was not properly shut down" in outcome.case.host.log.text
            assert outcome.case.depth is not None
            assert outcome.case.depth.depth is Depth.PROCESS, outcome.case.depth
            assert outcome.verdict is Verdict.PASS, outcome.judgement
