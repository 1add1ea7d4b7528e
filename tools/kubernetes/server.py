"""Starts a PostgreSQL in a pod of a cluster, with its data on a volume or without."""

from __future__ import annotations

from pathlib import Path
from string import Template

from tools.kubernetes import images
from tools.kubernetes.state import NAME, Cluster

MANIFESTS = Path(__file__).with_name("manifests")
_VOLUMES = MANIFESTS / "volumes"
# Of a server on a volume its kind says which: one of the first node, or one of all.
ON_VOLUME = tuple(sorted(path.stem for path in _VOLUMES.glob("*.yaml")))
KINDS = (*ON_VOLUME, "empty-dir", "layer")
SERVER = "pg"
_START_S = 120.0


def start_server(
    cluster: Cluster, kind: str, port: int, folder: Path, name: str = SERVER
) -> None:
    """Start a server as a manifest says; raise ClusterError if it does not come up.

    kind: one of KINDS.  port: on 127.0.0.1, whichever node the server is on.  folder:
    for the data, if on a volume.
    """
    manifest = f"{kind}.yaml"
    if kind in ON_VOLUME:
        manifest = "claim.yaml"
        put_volume(cluster, kind, f"data-{name}", folder, name)
    text = Template((MANIFESTS / manifest).read_text()).substitute(
        name=name, port=port, image=images.EMPTY
    )
    cluster.kubectl("apply", "-f", "-", text=text)
    await_server(cluster, name)


def await_server(cluster: Cluster, name: str = SERVER) -> None:
    """Return once the pod of a server is ready; raise ClusterError."""
    words = ("rollout", "status", f"statefulset/{name}", f"--timeout={_START_S:g}s")
    cluster.kubectl(*words, timeout_s=2 * _START_S)


def put_volume(
    cluster: Cluster, kind: str, volume: str, folder: Path, name: str = SERVER
) -> None:
    """Add a volume for the claim of a server; raise ClusterError.

    kind: one of ON_VOLUME.  volume: its name.  folder: made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = Template((_VOLUMES / f"{kind}.yaml").read_text()).substitute(
        volume=volume, folder=folder.resolve(), name=name, node=NAME
    )
    cluster.kubectl("apply", "-f", "-", text=text)


def end_server(cluster: Cluster, name: str = SERVER) -> None:
    """Delete the server, its claim and its volumes; what is in their folders stays."""
    what = ("statefulset,service,pvc,pv", "-l", f"app={name}")
    cluster.kubectl("delete", *what, timeout_s=_START_S)
