"""Real clusters of tools.kubernetes, servers in their pods, and cycles on these."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.config.target import KubernetesSettings
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import Item, ItemId
from dbcheck.kubernetes.pods import DatabasePods
from dbcheck.lab.held_port import HeldPort
from dbcheck.ports.engine import Engine
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.nodes import site_of
from tests.kit.rigs import SEED, Said, quick
from tests.kit.servers import answers
from tests.kit.waiting import wait_until
from tests.planted.site import HandSwitch
from tools.kubernetes.build import find_folder
from tools.kubernetes.cluster import up
from tools.kubernetes.machine import down
from tools.kubernetes.server import SERVER, end_server, start_server
from tools.kubernetes.state import Cluster

_MISSING = [
    program
    for program in (str(find_folder() / "kubernetes"), "containerd", "runc", "etcd")
    if not shutil.which(program)
]
# Of a test that starts a cluster.
MARKS = [
    pytest.mark.wide,
    pytest.mark.root,
    pytest.mark.skipif(bool(_MISSING), reason=f"missing: {', '.join(_MISSING)}"),
]


@contextlib.contextmanager
def cluster_in(folder: Path, nodes: int = 1) -> Iterator[Cluster]:
    """Start a cluster in a new folder; end it, and all that it has, afterwards."""
    made = Cluster(folder.resolve())
    try:
        yield up(made.folder, nodes)
    finally:
        if made.traces.exists():
            down(made)


@contextlib.contextmanager
def server_in(
    cluster: Cluster, kind: str, folder: Path, name: str = SERVER
) -> Iterator[Engine]:
    """Start a PostgreSQL in a pod; give its engine; delete it afterwards."""
    held = HeldPort()
    try:
        start_server(cluster, kind, held.number, folder, name)
        engine = open_engine(
            f"postgresql+psycopg2://dbcheck@127.0.0.1:{held.number}/postgres"
        )
        wait_until(lambda: answers(engine), "the server takes queries")
        yield engine
    finally:
        end_server(cluster, name)


@contextlib.contextmanager
def rig_of(
    cluster: Cluster,
    engine: Engine,
    folder: Path,
    switch: HandSwitch,
    selector: str = f"app={SERVER}",
) -> Iterator[Rig]:
    """Give a rig of a server in a pod, which asks this machine as its host."""
    settings = KubernetesSettings(
        selector, container="postgres", kubeconfig=cluster.kubeconfig
    )
    with (
        contextlib.closing(open_witness(f"file:{folder}", volatile=True)) as witness,
        contextlib.closing(open_host("local:")) as host,
    ):
        yield Rig(
            site_of(engine, switch, host, DatabasePods(settings)),
            witness,
            FrameLogReader(),
            Said(),
            folder / "runs",
            Limits(silence_s=3.0, cut_s=4.0, return_s=90),
            lab={"cut": "process"},
        )


def run_on(
    cluster: Cluster,
    engine: Engine,
    folder: Path,
    cut: Callable[[], object],
    restore: Callable[[], object],
) -> Outcome:
    """Run a cycle on a server in a pod."""
    # What a cut clears away once all is dead takes seconds on a busy machine.
    switch = HandSwitch(cut, restore, exact=False)
    with rig_of(cluster, engine, folder, switch) as rig:
        return run_cycle(rig, quick(), SEED)


def find_item(outcome: Outcome, id: ItemId) -> Item:
    """Return one item of evidence."""
    (found,) = [item for item in outcome.judgement.items if item.id is id]
    return found
