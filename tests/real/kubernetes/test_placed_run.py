"""The pods of a run that is judged later, and of a look that cuts nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load_inventory
from dbcheck.model.cluster import ONLY_NODE, Promise, SiteKind
from dbcheck.model.host import Expected
from dbcheck.model.pods import Pod
from dbcheck.model.records import Manifest
from dbcheck.runner.placement import place_as_run, place_to_look
from tests.kit.kubernetes.api import StandInApi
from tests.kit.kubernetes.api import empty_api as empty_api
from tests.kit.kubernetes.database import NAMESPACE, put_database
from tests.kit.pods import POD
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST

INVENTORY = """\
all:
  hosts:
    orders:
      dbcheck_kubernetes:
        kubeconfig: {kubeconfig}
        namespace: prod
        selector: app=orders
      dbcheck_target: postgresql+psycopg2://dbcheck@orders.prod.svc/app
{more}
    worker-1:
    worker-2:
    worker-3:
"""
NODES = ["worker-1", "worker-2", "worker-3"]
ROLES = [
    {"cnpg.io/cluster": "orders", "cnpg.io/instanceRole": role}
    for role in ("primary", "replica", "replica")
]


def read_entry(api: StandInApi, folder: Path, more: str = "") -> Entry:
    text = INVENTORY.format(kubeconfig=api.kubeconfig(folder), more=more)
    (path := folder / "inventory.yml").write_text(text)
    return load_inventory(path).entry("orders")


def pod_on(node: str, name: str = "orders-0") -> Pod:
    """Return a pod as it was when the run began; it had another address."""
    id = f"machine-of-{node}-then"
    return replace(POD, name=name, node=node, machine_id=id, addresses=("192.0.2.66",))


def manifest_of(*pods: Pod, promise: Promise | None = None) -> Manifest:
    site = SiteKind.SINGLE if promise is None else SiteKind.STREAMING
    names = [pod.name if site.is_cluster else ONLY_NODE for pod in pods]
    nodes = {
        name: replace(MANIFEST.writer, pod=pod)
        for name, pod in zip(names, pods, strict=True)
    }
    first = names[0]
    return replace(MANIFEST, nodes=nodes, writer_name=first, site=site, promise=promise)


def test_a_run_is_judged_on_the_node_that_was_cut(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store, ["worker-2"])  # where the pod is by now
    manifest = manifest_of(pod_on("worker-1"))
    placed = place_as_run(read_entry(api, tmp_path), manifest, is_own=False)
    assert (placed.machine, placed.host) == ("worker-1", "ssh://worker-1")
    assert placed.expected == Expected(machine_id="machine-of-worker-1-then")
    assert api.asked == []  # it may be the API's node that is without power


def test_a_run_that_was_in_no_pod_is_not_placed(
    api: StandInApi, tmp_path: Path
) -> None:
    entry = read_entry(api, tmp_path)
    assert place_as_run(entry, MANIFEST, is_own=False) is entry


def test_the_pods_of_a_cluster_are_read_where_they_are_now(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store, NODES, ROLES)
    entry = read_entry(api, tmp_path, "      dbcheck_topology: streaming")
    then = [pod_on(node, f"orders-{i}") for i, node in enumerate(NODES)]
    manifest = manifest_of(*then, promise=Promise.WRITER_GONE)
    placed = place_as_run(entry, manifest, is_own=False)
    assert [placed.name, *(each.name for each in placed.standbys)] == [
        "orders-0",
        "orders-1",
        "orders-2",
    ]
    # No address of a manifest is given a password.
    assert "127.0.0.2" in placed.target and "192.0.2.66" not in placed.target
    api.store.remove("Pod", "orders-1", NAMESPACE)
    with refused(ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming="orders-1"):
        place_as_run(entry, manifest, is_own=False)
    with refused(ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming="orders-1"):
        place_as_run(entry, manifest, is_own=True)


def test_the_pod_of_the_old_writer_may_be_gone(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store, NODES, ROLES)
    entry = read_entry(api, tmp_path, "      dbcheck_topology: streaming")
    then = [pod_on(node, f"orders-{i}") for i, node in enumerate(NODES)]
    manifest = manifest_of(*then, promise=Promise.WRITER_GONE)
    api.store.remove("Pod", "orders-0", NAMESPACE)
    with refused(ErrorId.SITE_DIFFERS_FROM_RUN, UsageError, naming="orders-0"):
        place_as_run(entry, manifest, is_own=False)
    writer = place_as_run(entry, manifest, is_own=True)
    assert "192.0.2.66" in writer.target
    assert all("127.0.0." in each.target for each in writer.standbys)


def test_a_look_needs_no_host_for_the_node(api: StandInApi, tmp_path: Path) -> None:
    put_database(api.store, ["worker-9"])
    entry = read_entry(api, tmp_path)
    assert place_to_look(entry) is entry
    api.store.move_pod("orders-0", "worker-3", NAMESPACE)
    assert place_to_look(entry).machine == "worker-3"


def test_a_look_at_pods_without_a_primary_is_refused(
    api: StandInApi, tmp_path: Path
) -> None:
    put_database(api.store, NODES[:2])  # without labels, and no server answers
    with refused(ErrorId.KUBERNETES_PRIMARY_UNCLEAR, UsageError, naming="answer"):
        place_to_look(read_entry(api, tmp_path))
