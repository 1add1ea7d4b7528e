"""Objects of a database on Kubernetes, complete enough for a real API server.

What a server would add of itself (a uid, times, defaults) is left out; what a kubelet
reports is in the status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from tests.kit.kubernetes.store import Object

NAMESPACE = "prod"
SELECTOR = "app.kubernetes.io/name=orders"
_LABELS = {"app.kubernetes.io/name": "orders"}
_ACCOUNT = "kube-api-access-x7d2k"
_ACCOUNT_MOUNT = {
    "name": _ACCOUNT,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "readOnly": True,
}
_PROJECTED = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
    ]
}


def make_node(name: str) -> Object:
    """Return a node, which its kubelet says is ready."""
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "nodeInfo": {
                "machineID": hashlib.md5(name.encode()).hexdigest(),
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "6.12.0",
                "osImage": "Debian GNU/Linux 13 (trixie)",
                "containerRuntimeVersion": "containerd://2.0.0",
                "kubeletVersion": "v1.34.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_class(
    name: str, provisioner: str, parameters: Mapping[str, str] | None = None
) -> Object:
    """Return a storage class."""
    return {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "parameters": dict(parameters or {}),
        "reclaimPolicy": "Retain",
        "mountOptions": ["noatime"],
    }


def make_volume(
    name: str, storage_class: str, source: Mapping[str, Any], claim: str = ""
) -> Object:
    """Return a PersistentVolume; source: e.g. {"csi": {...}}.

    claim: that of NAMESPACE to which it is bound, "" for none.
    """
    spec: Object = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
        "mountOptions": ["noatime"],
        **source,
    }
    if claim:
        spec["claimRef"] = {"namespace": NAMESPACE, "name": claim}
    metadata = {"name": name}
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Bound" if claim else "Available"},
    }


def make_claim(name: str, volume: str, storage_class: str) -> Object:
    """Return a PersistentVolumeClaim that is bound to a volume."""
    size = {"storage": "10Gi"}
    modes = ["ReadWriteOnce"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {
            "accessModes": modes,
            "resources": {"requests": size},
            "storageClassName": storage_class,
            "volumeName": volume,
        },
        "status": {"phase": "Bound", "accessModes": modes, "capacity": size},
    }


def make_pod(
    name: str,
    node: str,
    labels: Mapping[str, str] | None = None,
    *,
    claim: str = "",
    address: str = "10.244.1.7",
) -> Object:
    """Return a running pod with a PostgreSQL and an exporter beside it.

    claim: has its data; without one an emptyDir has.  Both containers have the token of
    the pod's account, which an API server adds to those that have it not.
    """
    data: Object = {"name": "data", "emptyDir": {}}
    if claim:
        data = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    every = {**_LABELS, **(labels or {})}
    term = {
        "labelSelector": {"matchLabels": dict(_LABELS)},
        "topologyKey": "kubernetes.io/hostname",
    }
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": every},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1800,
            "affinity": {"podAntiAffinity": rules},
            "containers": [
                {
                    "name": "postgres",
                    "image": "registry.example.net/postgresql:17.6",
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/var/lib/pg"},
                        _ACCOUNT_MOUNT,
                    ],
                },
                {
                    "name": "exporter",
                    "image": "registry.example.net/exporter:1",
                    "volumeMounts": [_ACCOUNT_MOUNT],
                },
            ],
            "volumes": [data, {"name": _ACCOUNT, "projected": _PROJECTED}],
        },
        "status": _make_status(name, address),
    }


def make_orders() -> Iterator[Object]:
    """Yield a database of three pods on three nodes, its primary on the first.

    The pods orders-1 to -3 have the claims of their name, and those volumes of a
    driver.  scratch-1 is another one, on the first node and with an emptyDir.
    """
    yield {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}
    yield make_class("fast", "rbd.csi.example.net", {"replicas": "3"})
    for number in (1, 2, 3):
        yield make_node(f"node{number}")
        name = f"orders-{number}"
        driver = {"driver": "rbd.csi.example.net", "volumeHandle": f"rbd/{name}"}
        yield make_volume(f"pv-{number}", "fast", {"csi": driver}, name)
        yield make_claim(name, f"pv-{number}", "fast")
        role = {"role": "primary" if number == 1 else "replica", "ordinal": str(number)}
        address = f"10.244.{number}.7"
        yield make_pod(name, f"node{number}", role, claim=name, address=address)
    other = {"app.kubernetes.io/name": "scratch", "empty": ""}
    yield make_pod("scratch-1", "node1", other, address="10.244.1.9")


def _make_status(name: str, address: str) -> Object:
    statuses = [
        {
            "name": container,
            "ready": True,
            "started": True,
            "restartCount": 0,
            "image": "registry.example.net/x:1",
            "imageID": "registry.example.net/x@sha256:" + "0" * 64,
            "containerID": "containerd://"
            + hashlib.sha256(f"{name}/{container}".encode()).hexdigest(),
            "state": {"running": {"startedAt": "2026-11-02T03:04:05Z"}},
        }
        for container in ("exporter", "postgres")  # in the order of the runtime
    ]
    types = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "hostIP": "192.0.2.10",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": "2026-11-02T03:04:00Z",
        "conditions": [{"type": kind, "status": "True"} for kind in types],
        "containerStatuses": statuses,
    }
