"""The pods of each operator, as its objects in an API server show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.config.target import KubernetesSettings
from dbcheck.kubernetes.pods import DatabasePods
from dbcheck.model.pods import Pod, PodRole
from dbcheck.runner.placement import find_primary
from tests.kit.kubernetes.api import StandInApi
from tests.kit.kubernetes.api import empty_api as empty_api
from tests.kit.kubernetes.recorded import (
    NAMESPACE,
    SOURCES,
    Objects,
    lose_node,
    read_objects,
)
from tests.kit.kubernetes.store import RESOURCES

# What is recorded -> the selector that its users would take.
SELECTORS = {
    "cloudnative_pg": "cnpg.io/cluster",
    "zalando": "application=spilo,cluster-name",
    "crunchy": "postgres-operator.crunchydata.com/data=postgres",
    "percona_postgresql": "postgres-operator.crunchydata.com/data=postgres",
    "percona_server": "app.kubernetes.io/component=database",
    "percona_xtradb": "app.kubernetes.io/component=pxc",
    "mariadb_operator": "app.kubernetes.io/name=mariadb",
    "mysql_operator": "component=mysqld",
    "statefulset_local": "app",
    "statefulset_longhorn": "app",
}
WITHOUT_ROLES = ("percona_xtradb",)


def read(api: StandInApi, folder: Path, name: str, objects: Objects) -> list[Pod]:
    kinds = {resource.plural: kind for kind, resource in RESOURCES.items()}
    for plural, found in objects.items():
        for one in found:
            api.store.put(kinds[plural], one)
    path = api.kubeconfig(folder, namespace=NAMESPACE)
    return list(
        DatabasePods(KubernetesSettings(SELECTORS[name], kubeconfig=path)).read()
    )


@pytest.mark.parametrize("name", SOURCES)
def test_each_pod_is_read_whole(api: StandInApi, tmp_path: Path, name: str) -> None:
    objects = read_objects(name)
    pods = read(api, tmp_path, name, objects)
    assert len(pods) == len(objects["pods"])
    ids = {n["status"]["nodeInfo"]["machineID"] for n in objects["nodes"]}
    for pod in pods:
        assert pod.ready and not pod.ending and pod.addresses and pod.container_id
        assert pod.machine_id in ids and not pod.unread
        claims = [volume for volume in pod.volumes if volume.claim]
        assert claims
        for volume in claims:
            assert not volume.unread and volume.access_modes
            assert volume.volume is not None and volume.storage_class is not None
            assert volume.volume.handle and volume.volume.kind != "claimRef"


@pytest.mark.parametrize("name", sorted(set(SOURCES) - set(WITHOUT_ROLES)))
def test_the_primary_is_known_without_a_question_to_a_server(
    api: StandInApi, tmp_path: Path, name: str
) -> None:
    pods = read(api, tmp_path, name, read_objects(name))
    found = find_primary(pods, lambda pod: pytest.fail(f"{pod.name} was asked"))
    roles = {pod.role for pod in pods if pod.name != found.name}
    assert PodRole.PRIMARY not in roles


@pytest.mark.parametrize("name", WITHOUT_ROLES)
def test_without_labels_the_servers_are_asked(
    api: StandInApi, tmp_path: Path, name: str
) -> None:
    pods = read(api, tmp_path, name, read_objects(name))
    assert find_primary(pods, lambda pod: pod is pods[1]) is pods[1]


def test_a_pod_of_a_node_without_power_is_no_primary_beside_the_next_one(
    api: StandInApi, tmp_path: Path
) -> None:
    """Patroni's label stays on the pod of the dead node."""
    objects = read_objects("zalando")
    first, second = objects["pods"]
    assert first["metadata"]["labels"]["spilo-role"] == "master"
    lose_node(objects, first["spec"]["nodeName"])
    second["metadata"]["labels"]["spilo-role"] = "master"
    pods = read(api, tmp_path, "zalando", objects)
    assert [pod.role for pod in pods] == [PodRole.PRIMARY, PodRole.PRIMARY]
    assert find_primary(pods, lambda _: False).name == second["metadata"]["name"]
