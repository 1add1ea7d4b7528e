"""The role and the server's container of a pod, by its labels."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from dbcheck.base.decoding import UNDECODABLE, decode_json
from dbcheck.kubernetes.objects import ApiPod
from dbcheck.kubernetes.roles import (
    OPERATORS,
    find_role,
    find_server_container,
    name_operator,
)
from dbcheck.model.pods import PodRole
from tests.kit.kubernetes.recorded import SOURCES, lose_node, read_objects

PRIMARY, REPLICA, UNKNOWN = PodRole.PRIMARY, PodRole.REPLICA, PodRole.UNKNOWN

# What is recorded -> the operator, the container, and the role of each pod.
RECORDED = {
    "cloudnative_pg": ("CloudNativePG", "postgres", [PRIMARY, REPLICA, REPLICA]),
    "zalando": ("Zalando postgres-operator", "postgres", [PRIMARY, REPLICA]),
    "crunchy": ("Crunchy Postgres for Kubernetes", "database", [PRIMARY, REPLICA]),
    "percona_postgresql": (
        "Percona Operator for PostgreSQL",
        "database",
        [PRIMARY, REPLICA],
    ),
    "percona_server": (
        "Percona Operator for MySQL",
        "mysql",
        [PRIMARY, UNKNOWN, UNKNOWN],
    ),
    "percona_xtradb": (
        "Percona Operator for MySQL based on XtraDB Cluster",
        "pxc",
        [UNKNOWN, UNKNOWN, UNKNOWN],
    ),
    "mariadb_operator": ("mariadb-operator", "mariadb", [PRIMARY, REPLICA]),
    "mysql_operator": (
        "MySQL Operator for Kubernetes",
        "mysql",
        [PRIMARY, REPLICA, REPLICA],
    ),
    "statefulset_local": ("", "postgres", [UNKNOWN]),
    "statefulset_longhorn": ("", "mysql", [UNKNOWN]),
}
CNPG = {"cnpg.io/cluster": "orders"}
SPILO = {"application": "spilo", "cluster-name": "orders"}
STACKGRES = {"app": "StackGresCluster", "stackgres.io/cluster-name": "orders"}
KUBEBLOCKS = {"app.kubernetes.io/managed-by": "kubeblocks"}
PATRONI_OF_KUBEBLOCKS = "apps.kubeblocks.postgres.patroni/role"
CRUNCHY = {"postgres-operator.crunchydata.com/cluster": "orders"}
CRUNCHY_ROLE = "postgres-operator.crunchydata.com/role"


def labels_of(pod: dict[str, Any]) -> dict[str, str]:
    return cast("dict[str, str]", pod["metadata"]["labels"])


def names_of(pod: dict[str, Any]) -> list[str]:
    return [container["name"] for container in pod["spec"]["containers"]]


def test_each_recording_is_expected() -> None:
    assert RECORDED.keys() == SOURCES.keys()


@pytest.mark.parametrize("recorded", RECORDED)
def test_recorded_pods_have_their_roles_and_containers(recorded: str) -> None:
    operator, container, roles = RECORDED[recorded]
    pods = read_objects(recorded)["pods"]
    assert [find_role(labels_of(pod)) for pod in pods] == roles
    assert {name_operator(labels_of(pod)) for pod in pods} == {operator}
    assert {find_server_container(labels_of(pod), names_of(pod)) for pod in pods} == {
        container
    }


@pytest.mark.parametrize("recorded", RECORDED)
def test_the_container_has_the_claims_of_its_pod(recorded: str) -> None:
    """A recording whose container is another one would show wrong volumes."""
    for pod in read_objects(recorded)["pods"]:
        claims = {
            volume["name"]
            for volume in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in volume
        }
        name = find_server_container(labels_of(pod), names_of(pod))
        (found,) = [c for c in pod["spec"]["containers"] if c["name"] == name]
        assert claims <= {mount["name"] for mount in found["volumeMounts"]}


@pytest.mark.parametrize(
    ("labels", "role"),
    [
        ({**CNPG, "role": "primary"}, PRIMARY),  # before 1.21
        ({**CNPG, "role": "replica"}, REPLICA),
        ({**SPILO, "spilo-role": "primary"}, PRIMARY),  # a Spilo that is told so
        ({"spilo-role": "master"}, PRIMARY),  # other labels of the cluster
        ({**CRUNCHY, CRUNCHY_ROLE: "primary"}, PRIMARY),
        ({**STACKGRES, "role": "master"}, PRIMARY),
        ({**STACKGRES, "role": "primary"}, PRIMARY),
        ({**STACKGRES, "role": "replica"}, REPLICA),
        ({"application": "patroni", "role": "master"}, PRIMARY),
        ({**KUBEBLOCKS, "kubeblocks.io/role": "secondary"}, REPLICA),
        ({**KUBEBLOCKS, "kubeblocks.io/role": "leader"}, PRIMARY),
        (
            {
                **KUBEBLOCKS,
                "kubeblocks.io/role": "primary",
                PATRONI_OF_KUBEBLOCKS: "master",
            },
            PRIMARY,
        ),
    ],
)
def test_the_labels_of_other_releases_are_known(
    labels: dict[str, str], role: PodRole
) -> None:
    assert find_role(labels) is role


@pytest.mark.parametrize(
    "value",
    [
        "standby_leader",
        "demoted",
        "uninitialized",
        "promoted",
        "unhealthy",
        "",
        "PRIMARY ",
    ]
    + ["Primary", "PRIMARY", "Master", "true", "leader", "primary\n", "prımary"],
)
@pytest.mark.parametrize(
    "labels",
    [
        {**CNPG, "cnpg.io/instanceRole": "{}"},
        {**SPILO, "spilo-role": "{}"},
        {**CRUNCHY, CRUNCHY_ROLE: "{}"},
        {**STACKGRES, "role": "{}"},
        {"app.kubernetes.io/name": "mariadb", "k8s.mariadb.com/role": "{}"},
    ],
)
def test_an_unknown_value_is_no_role(labels: dict[str, str], value: str) -> None:
    planted = {label: text.format(value) for label, text in labels.items()}
    assert find_role(planted) is UNKNOWN


@pytest.mark.parametrize(
    "labels",
    [
        {**CNPG, "cnpg.io/instanceRole": "primary", "role": "replica"},
        {**CNPG, "cnpg.io/instanceRole": "replica", "role": "primary"},
        {**CNPG, "cnpg.io/instanceRole": "primary", "role": "unhealthy"},
        {**CNPG, "cnpg.io/instanceRole": "unhealthy", "role": "primary"},
        {**CNPG, "cnpg.io/instanceRole": "primary", "spilo-role": "replica"},
        {**SPILO, "spilo-role": "master", "mysql.percona.com/primary": "false"},
        {
            **KUBEBLOCKS,
            "kubeblocks.io/role": "primary",
            PATRONI_OF_KUBEBLOCKS: "replica",
        },
    ],
)
def test_labels_that_disagree_are_no_role(labels: dict[str, str]) -> None:
    assert find_role(labels) is UNKNOWN


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"role": "primary"},  # of whom?
        {"app": "orders", "role": "master"},
        {"mysql.oracle.com/cluster-role": "PRIMARY"},  # no cluster
        {**CNPG, "spilo-roles": "master"},
        {"app.kubernetes.io/name": "mysql", "app.kubernetes.io/component": "primary"},
    ],
)
def test_a_label_that_no_operator_writes_is_no_role(labels: dict[str, str]) -> None:
    assert find_role(labels) is UNKNOWN


@pytest.mark.parametrize("value", [None, True, 1, ["primary"], {"primary": "primary"}])
def test_a_label_that_is_no_text_is_never_read(value: Any) -> None:
    metadata = {"name": "orders-1", "uid": "1", "labels": {"role": value}}
    with pytest.raises(UNDECODABLE, match="Expected `str`"):
        decode_json(json.dumps({"metadata": metadata}), ApiPod)


def test_a_pooler_has_the_label_of_a_primary_and_no_server() -> None:
    """Zalando's poolers have the role of the servers that they lead to."""
    labels = {
        "application": "db-connection-pooler",
        "cluster-name": "orders",
        "connection-pooler": "orders-pooler",
        "spilo-role": "master",
    }
    assert find_role(labels) is UNKNOWN
    assert find_server_container(labels, ["connection-pooler"]) == ""


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({**CNPG, "cnpg.io/podRole": "pooler"}, ["pgbouncer"]),
        ({**CNPG, "cnpg.io/jobRole": "initdb"}, ["initdb"]),
        ({**CRUNCHY, CRUNCHY_ROLE: "pgbouncer"}, ["pgbouncer", "pgbouncer-config"]),
        ({"mysql.oracle.com/cluster": "orders", "component": "router"}, ["router"]),
        (
            {"app.kubernetes.io/managed-by": "percona-xtradb-cluster-operator"},
            ["haproxy"],
        ),
    ],
)
def test_a_pod_of_an_operator_may_have_no_server(
    labels: dict[str, str], names: list[str]
) -> None:
    assert find_server_container(labels, names) == ""
    assert find_role(labels) is UNKNOWN


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["server"], "server"),
        (["postgres", "metrics"], ""),  # which one, only its user knows
        ([], ""),
    ],
)
def test_without_an_operator_the_only_container_is_it(
    names: list[str], found: str
) -> None:
    assert find_server_container({"app": "orders"}, names) == found


@pytest.mark.parametrize(
    ("labels", "names", "found"),
    [
        (STACKGRES, ["patroni", "pgbouncer", "postgres-util"], "patroni"),
        (KUBEBLOCKS, ["kbagent", "postgresql", "pgbouncer"], "postgresql"),
        (KUBEBLOCKS, ["mysql", "mariadb"], ""),  # never both
        ({"app.kubernetes.io/name": "mariadb"}, ["mariadb", "agent"], "mariadb"),
    ],
)
def test_the_container_of_other_operators(
    labels: dict[str, str], names: list[str], found: str
) -> None:
    assert find_server_container(labels, names) == found


def test_the_container_of_patroni_may_have_any_name() -> None:
    assert find_server_container({"application": "patroni"}, ["orders"]) == "orders"
    assert find_server_container({"application": "patroni"}, ["orders", "x"]) == ""


def test_labels_of_two_operators_name_none() -> None:
    assert name_operator({**CNPG, **SPILO}) == ""


def test_a_chart_of_mariadb_is_no_operator() -> None:
    labels = {"app.kubernetes.io/name": "mariadb", "helm.sh/chart": "mariadb-20.5.5"}
    assert name_operator(labels) == ""


def test_the_label_of_a_lost_primary_stays() -> None:
    """Patroni's is written by the pod itself, so two claim to be the primary."""
    objects = read_objects("zalando")
    old, new = objects["pods"]
    lose_node(objects, old["spec"]["nodeName"])
    labels_of(new)["spilo-role"] = "master"
    assert [find_role(labels_of(pod)) for pod in (old, new)] == [PRIMARY, PRIMARY]
    ready = [
        condition["status"]
        for pod in (old, new)
        for condition in pod["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    assert ready == ["False", "True"]


def test_an_old_primary_of_cloudnativepg_is_unknown_during_a_failover() -> None:
    objects = read_objects("cloudnative_pg")
    old = objects["pods"][0]
    lose_node(objects, old["spec"]["nodeName"])
    labels_of(old).update({"cnpg.io/instanceRole": "unhealthy", "role": "unhealthy"})
    assert find_role(labels_of(old)) is UNKNOWN


def test_each_operator_has_a_name_of_its_own() -> None:
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS)
