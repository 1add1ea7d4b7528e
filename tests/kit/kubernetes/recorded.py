"""Objects of databases on Kubernetes, as its API would return them.

They are written after what each operator makes, not recorded from a cluster; where
each shape is from stands below.  What the API server, the kubelet and the controllers
of Kubernetes fill in is as of 1.34, without managedFields; the resource requests,
images of sidecars and environments are cut short.  Everything runs and is ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# The plural of a kind in lower case -> its objects.
Objects = dict[str, list[dict[str, Any]]]

NAMESPACE = "prod"
_FOLDER = Path(__file__).parent / "objects"

# What is recorded -> the operator's release and files, and the storage's.
SOURCES: Mapping[str, str] = {
    # Three instances, a volume for WAL each, on a volume group of their node.
    "cloudnative_pg": "CloudNativePG 1.30.0: pkg/specs/pods.go, volumes.go, "
    "services.go, pkg/reconciler/persistentvolumeclaim; TopoLVM, docs/user-manual.md",
    # The master's service has no selector: Patroni writes its endpoints.
    "zalando": "Zalando postgres-operator 2.0.1: pkg/cluster/k8sres.go, labels of "
    "pkg/cluster/util.go; no rule keeps its pods apart by default; AWS EBS CSI driver",
    # One StatefulSet an instance; the primary's service leads to another service.
    "crunchy": "Crunchy Postgres for Kubernetes 6.0.3: "
    "internal/controller/postgrescluster/instance.go, cluster.go, topology.go, "
    "internal/postgres/reconcile.go, internal/pgbackrest/reconcile.go; Rook, "
    "deploy/examples/csi/rbd/storageclass.yaml",
    "percona_postgresql": "Percona Operator for PostgreSQL 3.0.0: deploy/cr.yaml and "
    "the same files; Longhorn, examples/storageclass.yaml",
    # Group replication; the volumes are folders of the node.
    "percona_server": "Percona Operator for MySQL 1.2.0: pkg/mysql/mysql.go, "
    "deploy/cr.yaml; local-path-provisioner, README.md",
    "percona_xtradb": "Percona Operator for MySQL based on XtraDB Cluster 1.19.0: "
    "e2e-tests/init-deploy/compare/statefulset_some-name-pxc.yml; GKE, the "
    "Compute Engine persistent disk CSI driver",
    "mariadb_operator": "mariadb-operator 26.6.0: pkg/builder/pod_builder.go, "
    "container_builder.go, statefulset_builder.go, with antiAffinityEnabled; "
    "Kubernetes, local volumes",
    "mysql_operator": "MySQL Operator for Kubernetes 9.1.0-2.2.2: "
    "mysqloperator.controller.innodbcluster.cluster_objects; AKS, the Azure disk "
    "CSI driver",
    # PostgreSQL, whose container was started again once.
    "statefulset_local": "Kubernetes, StatefulSets and local volumes",
    # MySQL.
    "statefulset_longhorn": "Kubernetes, StatefulSets; Longhorn, "
    "examples/storageclass.yaml, with two replicas",
}


def read_objects(name: str) -> Objects:
    """Return the objects of one database: those of *name* in SOURCES.

    The keys are pods, persistentvolumeclaims, persistentvolumes, storageclasses,
    nodes, services and endpointslices.  Each call gives objects of its own.
    """
    objects: Objects = json.loads((_FOLDER / f"{name}.json").read_text())
    return objects


def lose_node(objects: Objects, node: str, at: str = "2026-11-28T10:00:50Z") -> None:
    """Change *objects* to what the API shows of a node without power, from *at* on.

    The node's controller marks it and its pods (Kubernetes 1.34,
    pkg/controller/nodelifecycle/node_lifecycle_controller.go), and the services leave
    them out, except those whose endpoints Patroni writes.  By what the API says the
    pods still run, and so do their containers.
    """
    unready = {"status": "False", "lastTransitionTime": at}
    unknown = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": at,
    }
    taint = {"key": "node.kubernetes.io/unreachable", "timeAdded": at}
    (lost,) = [n for n in objects["nodes"] if n["metadata"]["name"] == node]
    lost["spec"]["taints"] = [
        {**taint, "effect": effect} for effect in ("NoSchedule", "NoExecute")
    ]
    for condition in lost["status"]["conditions"]:
        condition.update(unknown)
    for pod in objects["pods"]:
        for condition in pod["status"]["conditions"]:
            if pod["spec"]["nodeName"] == node and condition["type"] == "Ready":
                condition.update(unready)
    for endpoint in _endpoints_by_controller(objects):
        if endpoint["nodeName"] == node:
            endpoint["conditions"].update(ready=False, serving=False)


def _endpoints_by_controller(objects: Objects) -> Iterator[dict[str, Any]]:
    """Return the endpoints that Kubernetes finds by the selector of a service."""
    for found in objects["endpointslices"]:
        manager = found["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
        if manager == "endpointslice-controller.k8s.io":
            yield from found["endpoints"]
