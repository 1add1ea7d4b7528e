"""Servers in pods that lose their node, and come back elsewhere or on another volume.

A real Kubernetes of two nodes: one of them is cut, and the other one, the API server
and the controllers go on.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, UsageError
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.recovery import pods_again
from dbcheck.engines.registry import open_engine
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.depth import Depth
from dbcheck.model.server import ServerFacts, is_restarted
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.kubernetes.clusters import (
    MARKS,
    cluster_in,
    find_item,
    rig_of,
    run_on,
    server_in,
)
from tests.kit.lab_access import connect
from tests.kit.nodes import with_node
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, TABLES, quick
from tests.kit.servers import answers
from tests.kit.waiting import wait_until
from tests.planted.site import HandSwitch, copy_folder
from tools.kubernetes.machine import cut_node
from tools.kubernetes.node import start_node_again
from tools.kubernetes.server import await_server, put_volume
from tools.kubernetes.state import Cluster, Node

pytestmark = MARKS
POD, CLAIM = "pg-0", "data-pg-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubernetes") / "cluster"
    with cluster_in(folder, nodes=2) as made:
        yield made


@dataclass(frozen=True)
class Database:
    """A PostgreSQL in a pod, on a volume that both nodes can have.

    node:  that the pod runs on.  other: that it may move to.
    copy:  of the folder with its data, from before any load.
    """

    cluster: Cluster
    engine: Engine
    node: Node
    other: Node
    folder: Path
    copy: Path

    def run(self, folder: Path, restore: Callable[[], object]) -> Outcome:
        """Run a cycle that cuts the node."""
        return run_on(self.cluster, self.engine, folder, self.cut, restore)

    def cut(self) -> None:
        cut_node(self.cluster, self.node)

    def start(self) -> None:
        """Start the node again, on which the pod is still, and await the server."""
        start_node_again(self.cluster, self.node)
        self.await_answers()

    def move(self) -> None:
        """Have another pod take the place of the one on the node, which stays off."""
        self.cluster.kubectl("cordon", self.node.name)
        self.delete_pod()
        await_server(self.cluster)
        self.await_answers()

    def delete_pod(self) -> None:
        self.cluster.kubectl("delete", "pod", POD, "--force", "--grace-period=0")

    def await_answers(self) -> None:
        wait_until(lambda: answers(self.engine), "the server takes queries")

    def delete_rows(self) -> None:
        """Delete a row of each session."""
        execute(self.engine, f"delete from {TABLES['postgresql']} where seq = 5")

    def replace_pod(self) -> None:
        """Start the node again, and have another pod take the place of the one there.

        It goes nowhere else, and the kubelet ends the old one, which may still answer.
        """
        self.start()
        old = self.engine.facts()
        self.cluster.kubectl("cordon", self.other.name)
        self.delete_pod()
        await_server(self.cluster)
        wait_until(lambda: self.is_another(old), "the other pod's server answers")

    def is_another(self, old: ServerFacts) -> bool:
        """Return True if a server takes queries that is not *old*."""
        with contextlib.suppress(DbcheckError):
            return is_restarted(old, self.engine.facts())
        return False

    def put_copy(self) -> None:
        """Put the copy of the data in the place of the data."""
        shutil.rmtree(self.folder)
        copy_folder(self.copy, self.folder)

    def replace_claim(self, folder: Path | None) -> None:
        """Start the node again, and the server on a new claim for that folder.

        None: for the volume that it had, as after a claim was deleted by mistake.
        """
        kubectl = self.cluster.kubectl
        self.start()
        kubectl("cordon", self.other.name)
        kubectl("scale", "statefulset/pg", "--replicas=0")
        kubectl("delete", "pvc", CLAIM)
        if folder:
            put_volume(self.cluster, "shared", "later", folder)
        else:
            kubectl("patch", "pv", "data-pg", "-p", '{"spec": {"claimRef": null}}')
        kubectl("scale", "statefulset/pg", "--replicas=1")
        await_server(self.cluster)
        self.await_answers()


@pytest.fixture
def database(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Database]:
    """Yield a database; the parameter is the kind of its volume, if it is another."""
    folder, copy = tmp_path / "data", tmp_path / "copy"
    kind = getattr(request, "param", "shared")
    try:
        with server_in(cluster, kind, folder) as engine:
            engine.prepare((LEDGER,))
            engine.checkpoint()
            if kind == "shared":
                copy_folder(folder, copy)
                (copy / "pgdata/postmaster.pid").unlink()
            node = find_node(cluster)
            (other,) = [one for one in cluster.nodes if one != node]
            try:
                yield Database(cluster, engine, node, other, folder, copy)
            finally:  # a pod on a node that is off would never go
                if not all(one.alive() for one in node.read_processes().values()):
                    start_node_again(cluster, node)
    finally:
        cluster.kubectl("uncordon", *(node.name for node in cluster.nodes))


def find_node(cluster: Cluster, pod: str = POD) -> Node:
    name = cluster.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
    return cluster.find_node(name)


def leave(database: Database) -> None:
    """Change nothing."""


@pytest.mark.parametrize(
    "tamper", [leave, Database.delete_rows], ids=["whole", "rows deleted"]
)
def test_a_pod_that_moved_to_another_node_proves_nothing(
    database: Database, tmp_path: Path, tamper: Callable[[Database], None]
) -> None:
    def restore() -> None:
        database.move()
        tamper(database)

    outcome = database.run(tmp_path / "run", restore)
    assert find_node(database.cluster) == database.other
    found = find_item(outcome, ItemId.SAME_POD)
    assert found.status is Status.CONTRADICTED
    moved = f"came back on node {database.other.name}, not on {database.node.name}"
    assert moved in found.reason
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert moved in str(outcome.judgement.reasons)


def test_a_pod_that_moved_to_an_older_copy_proves_nothing(
    database: Database, tmp_path: Path
) -> None:
    def restore() -> None:
        database.put_copy()
        database.move()

    outcome = database.run(tmp_path / "run", restore)
    assert find_item(outcome, ItemId.SAME_POD).status is Status.CONTRADICTED
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement


@pytest.mark.parametrize("volume", ["empty", "copy", ""])
def test_a_claim_that_was_made_anew_proves_nothing(
    database: Database, tmp_path: Path, volume: str
) -> None:
    folder = tmp_path / volume if volume else None
    outcome = database.run(tmp_path / "run", lambda: database.replace_claim(folder))
    assert find_node(database.cluster) == database.node
    found = find_item(outcome, ItemId.SAME_POD)
    assert found.status is Status.CONTRADICTED
    words = f"has the claim {CLAIM}, which was deleted and made anew"
    words += ", bound to another volume: later, not data-pg" if volume else ""
    assert found.reason.endswith(words)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement


@pytest.mark.parametrize(
    ("database", "restore", "verdict", "id", "words"),
    [
        pytest.param(
            "empty-dir",
            Database.start,
            Verdict.PASS,
            ItemId.SAME_POD,
            "with the same volumes",
            id="an emptyDir of a pod that stayed",
        ),
        pytest.param(
            "empty-dir",
            Database.replace_pod,
            Verdict.INCONCLUSIVE,
            ItemId.SAME_POD,
            "each pod gets an empty one",
            id="an emptyDir of another pod",
        ),
        pytest.param(
            "layer",
            Database.start,
            Verdict.INCONCLUSIVE,
            ItemId.SAME_SERVER,
            "a different server",
            id="the container's own layer",
        ),
    ],
    indirect=["database"],
)
def test_data_stay_as_long_as_what_they_are_on(
    database: Database,
    tmp_path: Path,
    restore: Callable[[Database], None],
    verdict: Verdict,
    id: ItemId,
    words: str,
) -> None:
    outcome = database.run(tmp_path / "run", lambda: restore(database))
    assert words in find_item(outcome, id).reason
    assert outcome.verdict is verdict, outcome.judgement


def test_a_pod_whose_node_comes_back_is_judged(
    database: Database, tmp_path: Path
) -> None:
    outcome = database.run(tmp_path / "run", database.start)
    assert find_item(outcome, ItemId.SAME_POD).status is Status.PRESENT
    assert outcome.case.depth is not None
    assert outcome.case.depth.depth is Depth.PROCESS, outcome.case.depth
    assert outcome.verdict is Verdict.PASS, outcome.judgement


def test_rows_that_are_gone_from_the_same_pod_and_volume_are_lost(
    database: Database, tmp_path: Path
) -> None:
    def restore() -> None:
        database.start()
        database.delete_rows()

    outcome = database.run(tmp_path / "run", restore)
    assert find_item(outcome, ItemId.SAME_POD).status is Status.PRESENT
    assert outcome.verdict is Verdict.FAIL, outcome.judgement


def test_an_older_copy_in_the_same_volume_proves_nothing(
    database: Database, tmp_path: Path
) -> None:
    def restore() -> None:
        database.put_copy()
        database.start()

    outcome = database.run(tmp_path / "run", restore)
    assert find_item(outcome, ItemId.NOT_RESTORED).status is Status.CONTRADICTED
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement


STANDBY = "standby"
OF_ORDERS = "cnpg.io/cluster=orders"


@pytest.fixture
def standby(database: Database, tmp_path: Path) -> Iterator[Engine]:
    """A streaming standby in a second pod; both have CloudNativePG's labels."""
    folder = tmp_path / STANDBY / "pgdata"
    program = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_basebackup"))[-1]
    url = database.engine.target.replace("+psycopg2", "")
    folder.mkdir(parents=True)
    words = [str(program), "-d", url, "-D", str(folder), "-R", "--checkpoint=fast"]
    subprocess.run(words, check=True, capture_output=True)
    subprocess.run(["chown", "-R", "postgres", str(folder)], check=True)
    database.cluster.kubectl("cordon", database.node.name)
    with server_in(database.cluster, "shared", folder.parent, STANDBY) as engine:
        label(database.cluster, POD, "primary")
        label(database.cluster, f"{STANDBY}-0", "replica")
        yield engine


def label(cluster: Cluster, pod: str, role: str) -> None:
    labels = (OF_ORDERS, f"cnpg.io/instanceRole={role}")
    cluster.kubectl("label", "pod", pod, "--overwrite", *labels)


def await_service(cluster: Cluster, role: str, pod: str) -> None:
    """Return once a service for the pods with that role leads to this pod."""
    service = f"""\
apiVersion: v1
kind: Service
metadata: {{name: orders, labels: {{app: {STANDBY}}}}}
spec:
  selector: {{cnpg.io/instanceRole: {role}}}
  ports: [{{port: 5432}}]
"""
    cluster.kubectl("apply", "-f", "-", text=service)
    wait_until(lambda: find_led_to(cluster) == pod, f"the service leads to {pod}")


def find_led_to(cluster: Cluster) -> str:
    """Return the pod to which the service leads, by its endpoints."""
    which = ("endpointslice", "-l", "kubernetes.io/service-name=orders")
    name = "jsonpath={.items[*].endpoints[*].targetRef.name}"
    return cluster.kubectl("get", *which, "-o", name)


def begin(database: Database, engine: Engine, folder: Path) -> None:
    """Do all that is done before a load; no power may be cut."""
    switch = HandSwitch(lambda: pytest.fail("it was cut"), lambda: None)
    with rig_of(database.cluster, engine, folder, switch, OF_ORDERS) as rig:
        run_preflight(rig, quick(), SEED)


def test_two_pods_that_are_primaries_are_refused(
    database: Database, standby: Engine, tmp_path: Path
) -> None:
    label(database.cluster, f"{STANDBY}-0", "primary")
    names = (f"default/{POD}", f"default/{STANDBY}-0")
    with refused(ErrorId.KUBERNETES_PRIMARY_UNCLEAR, UsageError, naming=names):
        begin(database, database.engine, tmp_path)


def test_a_service_that_leads_to_a_replica_is_refused(
    database: Database, standby: Engine, tmp_path: Path
) -> None:
    """By the server itself; if it takes writes, by what its pod is to the cluster."""
    await_service(database.cluster, "replica", f"{STANDBY}-0")
    with refused(ErrorId.SERVER_IS_REPLICA, EngineError):
        begin(database, standby, tmp_path)
    label(database.cluster, POD, "replica")
    label(database.cluster, f"{STANDBY}-0", "primary")
    names = (f"default/{POD}", f"default/{STANDBY}-0 is the primary")
    with refused(ErrorId.SERVER_IN_OTHER_POD, UsageError, naming=names):
        begin(database, database.engine, tmp_path)


@pytest.mark.parametrize("behind", [False, True], ids=["in step", "behind"])
def test_a_service_that_leads_to_the_next_primary_after_the_cut_proves_nothing(
    database: Database, standby: Engine, tmp_path: Path, behind: bool
) -> None:
    """A standby that is promoted may lack rows, and nobody promised that it has them.

    No kube-proxy runs here, so a proxy of the kit goes where the service leads.
    """
    cluster = database.cluster
    ports = {
        POD: make_url(database.engine.target).port or 0,
        f"{STANDBY}-0": make_url(standby.target).port or 0,
    }
    await_service(cluster, "primary", POD)
    if behind:
        execute(standby, "alter system set primary_conninfo = ''")
        execute(standby, "select pg_reload_conf()")

    def fail_over() -> None:
        execute(standby, "select pg_promote()")
        label(cluster, f"{STANDBY}-0", "primary")
        label(cluster, POD, "replica")
        await_service(cluster, "primary", f"{STANDBY}-0")

    with Proxy(lambda: ports[find_led_to(cluster)], lambda _: PASS_ON) as proxy:
        engine = through(proxy, database)
        switch = HandSwitch(database.cut, fail_over)
        with rig_of(cluster, engine, tmp_path, switch, OF_ORDERS) as rig:
            outcome = run_cycle(rig, quick(), SEED)
    found = find_item(outcome, ItemId.SAME_POD)
    assert found.status is Status.CONTRADICTED
    now = f"pod default/{STANDBY}-0 has the server now, on node {database.other.name}"
    assert f"{now}; pod default/{POD} had it" in found.reason
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement


def test_a_pod_of_a_node_that_is_off_is_not_taken_for_the_server(
    database: Database,
    standby: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody changes the labels, and the API shows that pod as ready for 50 s."""
    monkeypatch.setattr(pods_again, "API_S", 3.0)
    leads_to = database.engine

    def fail_over() -> None:
        nonlocal leads_to
        execute(standby, "select pg_promote()")
        leads_to = standby

    def find_port() -> int:
        return make_url(leads_to.target).port or 0

    with Proxy(find_port, lambda _: PASS_ON) as proxy:
        engine = through(proxy, database)
        switch = HandSwitch(database.cut, fail_over)
        with rig_of(database.cluster, engine, tmp_path, switch, OF_ORDERS) as rig:
            outcome = run_cycle(with_node(rig, host=None), quick(), SEED)
    found = find_item(outcome, ItemId.SAME_POD)
    assert found.status is Status.NOT_OBSERVABLE
    assert f"pod default/{POD} is shown with its container from before" in found.reason
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement


def through(proxy: Proxy, database: Database) -> Engine:
    """Return the engine that connects through a proxy."""
    url = make_url(database.engine.target).set(port=proxy.port)
    return open_engine(url.render_as_string())


def execute(engine: Engine, statement: str) -> None:
    with contextlib.closing(connect(engine.target, "")) as connection:
        connection.cursor().execute(statement)
