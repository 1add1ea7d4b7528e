"""Puts objects into a cluster with the status that only its parts would write.

So a test has nodes that no kubelet serves, and pods that run on them.  After some 50 s
the node controller finds out that such a node says nothing, unless it is ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tools.kubernetes.state import Cluster

Manifest = Mapping[str, Any]
_TIMEOUT_S = 120.0
# What the controller of volumes notes on a claim once it has bound it.
_BOUND = "jsonpath={.metadata.annotations.pv\\.kubernetes\\.io/bind-completed}=yes"


def put_objects(cluster: Cluster, objects: Iterable[Manifest]) -> None:
    """Add or change objects, in their order, with their status; raise ClusterError.

    Claims are bound afterwards.  That a claim's status is written has the controller
    look at it soon; else it may do so after 15 s.
    """
    manifests = list(objects)
    items = [
        {key: value for key, value in manifest.items() if key != "status"}
        for manifest in manifests
    ]
    every = {"kind": "List", "apiVersion": "v1", "items": items}
    cluster.kubectl("apply", "-f", "-", text=json.dumps(every))
    for manifest in manifests:
        status = manifest.get("status")
        if status and manifest["kind"] != "PersistentVolume":
            patch = json.dumps({"status": status})
            what = ["--subresource=status", "--type=merge", "-p", patch]
            cluster.kubectl("patch", *name_object(manifest), *what)
    wait = [
        "wait",
        f"--for={_BOUND}",
        "pvc",
        "--all",
        "-A",
        f"--timeout={_TIMEOUT_S:g}s",
    ]
    if cluster.kubectl("get", "pvc", "-A", "-o", "name"):
        cluster.kubectl(*wait, timeout_s=2 * _TIMEOUT_S)


def end_controllers(cluster: Cluster) -> None:
    """End what changes objects of itself; then only clients change them."""
    for name in ("kube-controller-manager", "kube-scheduler"):
        cluster.read_processes()[name].kill()


def remove_object(cluster: Cluster, manifest: Manifest) -> None:
    """Remove an object at once; of a pod, no kubelet is asked to end it first."""
    now = ["--force", "--grace-period=0", "--ignore-not-found", "--wait=false"]
    cluster.kubectl("delete", *name_object(manifest), *now)


def name_object(manifest: Manifest) -> list[str]:
    """Return the words by which kubectl finds an object."""
    metadata = manifest["metadata"]
    words = [manifest["kind"].lower(), metadata["name"]]
    if "namespace" in metadata:
        words += ["-n", metadata["namespace"]]
    return words
