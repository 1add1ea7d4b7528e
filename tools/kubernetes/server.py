"""Starts a PostgreSQL in a pod of a cluster, with its data on a volume or without."""

from __future__ import annotations

from pathlib import Path
from string import Template

from tools.kubernetes import images
from tools.kubernetes.state import NODE, Cluster

MANIFESTS = Path(__file__).with_name("manifests")
KINDS = tuple(sorted(path.stem for path in MANIFESTS.glob("*.yaml")))
_START_S = 120.0


def start_server(cluster: Cluster, kind: str, port: int, folder: Path) -> None:
    """Start a server as a manifest says; raise ClusterError if it does not come up.

    kind: one of KINDS.  port: on 127.0.0.1.  folder: for the data, if on a volume.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = Template((MANIFESTS / f"{kind}.yaml").read_text()).substitute(
        folder=folder.resolve(), port=port, node=NODE, image=images.EMPTY
    )
    cluster.kubectl("apply", "-f", "-", text=text)
    wait = f"--timeout={_START_S:g}s"
    kubectl = cluster.kubectl
    kubectl("rollout", "status", "statefulset/pg", wait, timeout_s=2 * _START_S)


def end_server(cluster: Cluster) -> None:
    """Delete the server, with its claim; what is on a local volume stays."""
    for what in ("statefulset/pg", "service/pg", "pvc/data-pg-0", "pv/data"):
        cluster.kubectl("delete", what, "--ignore-not-found", timeout_s=_START_S)
