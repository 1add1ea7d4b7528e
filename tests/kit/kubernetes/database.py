"""Puts the objects of a database into a stand-in: nodes, pods, claims and volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.kit.kubernetes.store import Store

NAMESPACE, CLASS = "prod", "local"


def put_database(
    store: Store,
    nodes: Sequence[str] = ("worker-1",),
    labels: Sequence[Mapping[str, str]] = ({},),
    name: str = "orders",
) -> None:
    """Put a StatefulSet's pods into *store*, one on each of *nodes*, on local volumes.

    labels: of each pod, beside app=NAME.  Pod i has the address 127.0.0.(i + 2), as
    servers of tests may have.
    """
    store.put(
        "StorageClass",
        {"metadata": {"name": CLASS}, "provisioner": "kubernetes.io/no-provisioner"},
    )
    for number, node in enumerate(nodes):
        _put_node(store, node)
        own = f"{name}-{number}"
        claim, volume = f"data-{own}", f"volume-{own}"
        store.put("PersistentVolume", _make_volume(volume, node))
        store.put("PersistentVolumeClaim", make_claim(claim, volume))
        more = labels[number] if number < len(labels) else {}
        address = f"127.0.0.{number + 2}"
        store.put("Pod", _make_pod(own, node, claim, address, {"app": name, **more}))


def make_claim(name: str, volume: str) -> dict[str, Any]:
    """Make a claim that is bound to *volume*."""
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "volumeName": volume,
        },
        "status": {"phase": "Bound"},
    }


def _put_node(store: Store, name: str) -> None:
    if store.find("Node", name) is None:
        info = {"machineID": f"machine-of-{name}", "bootID": f"boot-of-{name}"}
        store.put("Node", {"metadata": {"name": name}, "status": {"nodeInfo": info}})


def _make_volume(name: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/srv/data"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
        },
    }


def _make_pod(
    name: str, node: str, claim: str, address: str, labels: Mapping[str, str]
) -> dict[str, Any]:
    owner = {"kind": "StatefulSet", "name": name.rpartition("-")[0], "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": dict(labels),
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "postgres",
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/var/lib/postgresql"},
                        {"name": "settings", "mountPath": "/etc/postgresql"},
                        {"name": "scratch", "mountPath": "/scratch"},
                    ],
                }
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "scratch", "emptyDir": {"medium": "Memory"}},
                {"name": "unused", "emptyDir": {}},
            ],
            "terminationGracePeriodSeconds": 60,
        },
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "postgres",
                    "restartCount": 2,
                    "containerID": "containerd://0123abcd",
                }
            ],
        },
    }
