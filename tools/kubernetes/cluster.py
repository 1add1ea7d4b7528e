"""Starts the programs of a cluster, and waits until it takes pods."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import Template

from dbcheck.lab.certificates import Authority
from dbcheck.lab.held_port import HeldPort
from tools.kubernetes import images
from tools.kubernetes.machine import Traces
from tools.kubernetes.node import is_ready, start_node, start_node_again
from tools.kubernetes.run import ClusterError, wait_until
from tools.kubernetes.state import NAME, Cluster, Node, name_nodes

_CONFIGS = Path(__file__).with_name("configs")
_NEEDED = ("containerd", "ctr", "runc", "etcd")
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")  # Debian's, and that of others
_READY_S = 120.0
_SOCKET_BYTES = 107  # unix(7): 108, with the 0 at its end
_PORTS = (
    "etcd_port",
    "peer_port",
    "api_port",
    "control_port",
    "scheduler_port",
)


def up(folder: Path, nodes: int = 1) -> Cluster:
    """Make *folder*, with a cluster that runs and goes on; raise ClusterError.

    Call machine.down() afterwards, also if this fails.
    """
    _require_programs()
    cluster = Cluster(folder.resolve())
    names = name_nodes(nodes)
    _require_short(Node(cluster.folder / names[-1]).longest_socket)
    programs = Path(cluster.program).parent
    os.umask(0o022)
    try:
        cluster.folder.mkdir(parents=True)
    except FileExistsError:
        raise ClusterError(f"{folder} is there already") from None
    traces = Traces.find()
    traces.note(cluster)
    traces.make_bridge()
    with _hold_ports([*_PORTS, *names]) as ports:
        values = _write_configs(cluster, ports, traces)
        _start_control(cluster, values)
        images.make_all(cluster.folder / "images", programs)
        for name in names:
            start_node(
                cluster, Node(cluster.folder / name), values | {"port": ports[name]}
            )
        for node in cluster.nodes:
            comes = partial(_is_there, cluster, node)
            wait_until(f"the node {node.name} is ready", comes, _READY_S)
    account = ("get", "serviceaccount", "default")
    wait_until("pods have an account", lambda: cluster.does(*account), _READY_S)
    return cluster


def start_again(cluster: Cluster) -> None:
    """Start what machine.cut() has ended, as a boot of the machine does.

    Return once the API server answers; the kubelets have then begun to look for what is
    to run.  Raise ClusterError.
    """
    for name, program in cluster.read_programs().items():
        cluster.start(name, *program.command, **program.variables)
        if name == "kube-apiserver":
            _await_api(cluster)
    for node in cluster.nodes:
        start_node_again(cluster, node)


def _require_programs() -> None:
    if os.geteuid() != 0:
        raise ClusterError("only root can start a kubelet")
    missing = [name for name in _NEEDED if not shutil.which(name)]
    if missing or not any(map(os.path.isdir, _CNI_FOLDERS)):
        raise ClusterError(
            f"missing: {', '.join(missing) or 'the plugins of CNI'}. apt-get install"
            " containerd etcd-server containernetworking-plugins"
        )


def _require_short(socket: Path) -> None:
    over = len(os.fsencode(socket)) - _SOCKET_BYTES
    if over > 0:
        raise ClusterError(f"the folder has a path {over} bytes too long: {socket}")


@contextlib.contextmanager
def _hold_ports(names: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield free ports; no other that looks for one finds these meanwhile."""
    held = {name: HeldPort() for name in names}
    yield {name: str(port.number) for name, port in held.items()}


def _write_configs(
    cluster: Cluster, ports: Mapping[str, str], traces: Traces
) -> dict[str, str]:
    """Write the certificate and all settings; return what they were made of."""
    folder = cluster.folder
    for path in (cluster.logs, folder / "configs", folder / "images", folder / "etcd"):
        path.mkdir()
    # Whoever shows the one certificate may do anything.
    files = Authority().issue_certificate(NAME, traces.address).write(folder / "tls")
    cni = next(path for path in _CNI_FOLDERS if os.path.isdir(path))
    values = {name: ports[name] for name in _PORTS} | {
        "folder": str(folder),
        "bridge": traces.bridge,
        "address": traces.address,
        "subnet": f"{traces.address.rpartition('.')[0]}.0/24",
        "addresses": str(folder / "addresses"),
        "plugins": cni,
        "pause": images.PAUSE,
        "authority": str(files.authority),
        "certificate": str(files.certificate),
        "key": str(files.key),
    }
    for source in _CONFIGS.glob("*.*"):
        text = Template(source.read_text()).substitute(values)
        (folder / "configs" / source.name).write_text(text)
    return values


def _start_control(cluster: Cluster, values: Mapping[str, str]) -> None:
    """Start etcd, and what of Kubernetes runs beside the node."""
    cluster.start("etcd", "etcd", *_etcd_options(values))
    cluster.start(
        "kube-apiserver", cluster.program, "kube-apiserver", *_api_options(values)
    )
    _await_api(cluster)
    client = f"--kubeconfig={cluster.kubeconfig}"
    at = "--bind-address=127.0.0.1"
    for name, port in (
        ("kube-controller-manager", "control_port"),
        ("kube-scheduler", "scheduler_port"),
    ):
        own = [client, at, f"--secure-port={values[port]}", "--leader-elect=false"]
        own.append(f"--cert-dir={values['folder']}/tls")
        if port == "control_port":
            own.append(f"--service-account-private-key-file={values['key']}")
            own.append(f"--flex-volume-plugin-dir={values['folder']}/flex")
            own.append(f"--root-ca-file={values['authority']}")
        cluster.start(name, cluster.program, name, *own)


def _etcd_options(values: Mapping[str, str]) -> Sequence[str]:
    client = f"https://127.0.0.1:{values['etcd_port']}"
    peer = f"https://127.0.0.1:{values['peer_port']}"
    options = {
        "name": NAME,
        "data-dir": f"{values['folder']}/etcd/data",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{NAME}={peer}",
        "client-cert-auth": "true",
        "peer-client-cert-auth": "true",
    }
    for kind in ("", "peer-"):
        options[f"{kind}trusted-ca-file"] = values["authority"]
        options[f"{kind}cert-file"] = values["certificate"]
        options[f"{kind}key-file"] = values["key"]
    return [f"--{name}={value}" for name, value in options.items()]


def _api_options(values: Mapping[str, str]) -> Sequence[str]:
    options = {
        "bind-address": values["address"],
        "advertise-address": values["address"],
        "secure-port": values["api_port"],
        "etcd-servers": f"https://127.0.0.1:{values['etcd_port']}",
        "etcd-cafile": values["authority"],
        "etcd-certfile": values["certificate"],
        "etcd-keyfile": values["key"],
        "tls-cert-file": values["certificate"],
        "tls-private-key-file": values["key"],
        "client-ca-file": values["authority"],
        "anonymous-auth": "false",
        # RBAC for the accounts of pods; who has the one certificate may do anything.
        "authorization-mode": "RBAC,ABAC",
        "authorization-policy-file": f"{values['folder']}/configs/policy.jsonl",
        "kubelet-certificate-authority": values["authority"],
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-client-certificate": values["certificate"],
        "kubelet-client-key": values["key"],
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-signing-key-file": values["key"],
        "service-account-key-file": values["certificate"],
        "service-cluster-ip-range": "10.96.0.0/24",
        "endpoint-reconciler-type": "none",
        "allow-privileged": "true",
        "cert-dir": f"{values['folder']}/tls",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _await_api(cluster: Cluster) -> None:
    wait_until("the API server answers", lambda: _answers(cluster), _READY_S)


def _answers(cluster: Cluster) -> bool:
    """Return True once the API server is ready; raise ClusterError if it ended."""
    cluster.require_running("etcd", "kube-apiserver")
    return cluster.does("get", "--raw=/readyz")


def _is_there(cluster: Cluster, node: Node) -> bool:
    """Return True once a new node is ready; raise ClusterError if it ended."""
    node.require_running("containerd", "kubelet")
    return is_ready(cluster, node)
