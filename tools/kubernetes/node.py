"""Starts the nodes of a cluster, each with a containerd and a kubelet of its own."""

from __future__ import annotations

from pathlib import Path
from string import Template

from tools.kubernetes.machine import Traces
from tools.kubernetes.run import wait_until
from tools.kubernetes.state import Cluster, Node

_CONFIGS = Path(__file__).with_name("configs") / "node"
_LISTENS_S = 120.0


def start_node(cluster: Cluster, node: Node, values: dict[str, str]) -> None:
    """Make a node's folder, and start it; raise ClusterError.

    values: what its settings are made of, as those of the cluster; its port, too.
    """
    _write_configs(cluster, node, values)
    Traces.of(cluster).make_cgroup(node)
    config = node.folder / "configs/containerd.toml"
    node.start("containerd", "containerd", "--config", str(config))
    _await_containerd(node)
    for archive in sorted((cluster.folder / "images").iterdir()):
        node.ctr("images", "import", str(archive))
    node.start(
        "kubelet",
        cluster.program,
        "kubelet",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--config={node.folder}/configs/kubelet.yaml",
        f"--root-dir={node.folder}/kubelet",
        f"--cert-dir={node.folder}/tls",
        f"--hostname-override={node.name}",
        f"--node-ip={values['address']}",
    )


def start_node_again(cluster: Cluster, node: Node) -> None:
    """Start what machine.cut_node() has ended, as a boot of its machine does.

    Return once the kubelet has begun to look for what is to run.  Raise ClusterError.
    """
    Traces.of(cluster).make_cgroup(node)
    node.socket.unlink(missing_ok=True)
    for name, program in node.read_programs().items():
        node.start(name, *program.command, **program.variables)
        if name == "containerd":
            _await_containerd(node)


def is_ready(cluster: Cluster, node: Node) -> bool:
    """Return True if the cluster knows that the node can have pods."""
    how = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    words = ("get", "node", node.name, "--ignore-not-found", "-o", how)
    return cluster.kubectl(*words) == "True"


def _write_configs(cluster: Cluster, node: Node, values: dict[str, str]) -> None:
    for path in (node.folder, node.logs, node.folder / "configs", node.folder / "cni"):
        path.mkdir()
    own = {
        "folder": str(node.folder),
        "socket": str(node.socket),
        "cgroup": Traces.of(cluster).name_cgroup(node),
    }
    for source in _CONFIGS.iterdir():
        place = "cni" if source.suffix == ".conf" else "configs"
        text = Template(source.read_text()).substitute(values | own)
        (node.folder / place / source.name).write_text(text)


def _await_containerd(node: Node) -> None:
    what = f"the containerd of {node.name} listens"
    wait_until(what, node.socket.exists, _LISTENS_S)
