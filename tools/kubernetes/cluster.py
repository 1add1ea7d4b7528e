"""Starts the programs of a cluster of one node, and waits until it takes pods."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template

from dbcheck.lab.certificates import Authority
from dbcheck.lab.held_port import HeldPort
from tools.kubernetes import images
from tools.kubernetes.machine import Traces
from tools.kubernetes.run import ClusterError, wait_until
from tools.kubernetes.state import NODE, Cluster

_CONFIGS = Path(__file__).with_name("configs")
_NEEDED = ("containerd", "ctr", "runc", "etcd")
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")  # Debian's, and that of others
_READY_S = 120.0
_LINES = 8
_PORTS = (
    "etcd_port",
    "peer_port",
    "api_port",
    "kubelet_port",
    "control_port",
    "scheduler_port",
)


def up(folder: Path) -> Cluster:
    """Make *folder*, with a cluster that runs and goes on; raise ClusterError.

    Call machine.down() afterwards, also if this fails.
    """
    _require_programs()
    cluster = Cluster(folder.resolve())
    programs = Path(cluster.program).parent
    os.umask(0o022)
    try:
        cluster.folder.mkdir(parents=True)
    except FileExistsError:
        raise ClusterError(f"{folder} is there already") from None
    traces = Traces.find(f"dbcheck-kubernetes-{os.getpid()}")
    traces.note(cluster)
    traces.make_cgroup()
    with _hold_ports() as ports:
        values = _write_configs(cluster, ports, traces.cgroup)
        _start_control(cluster, values)
        _start_containerd(cluster, programs)
        _start_node(cluster)
    return cluster


def start_again(cluster: Cluster) -> None:
    """Start what machine.cut() has ended, as a boot of the machine does.

    Return once the API server answers; the kubelet has then begun to look for what is
    to run.  Raise ClusterError.
    """
    Traces.of(cluster).make_cgroup()
    cluster.socket.unlink(missing_ok=True)
    for name, program in cluster.read_programs().items():
        cluster.start(name, *program.command, **program.variables)
        if name == "kube-apiserver":
            _await_api(cluster)
        if name == "containerd":
            wait_until("containerd listens", cluster.socket.exists, _READY_S)


def _require_programs() -> None:
    if os.geteuid() != 0:
        raise ClusterError("only root can start a kubelet")
    missing = [name for name in _NEEDED if not shutil.which(name)]
    if missing or not any(map(os.path.isdir, _CNI_FOLDERS)):
        raise ClusterError(
            f"missing: {', '.join(missing) or 'the plugins of CNI'}. apt-get install"
            " containerd etcd-server containernetworking-plugins"
        )


@contextlib.contextmanager
def _hold_ports() -> Iterator[Mapping[str, int]]:
    """Yield free ports; no other that looks for one finds these meanwhile."""
    held = {name: HeldPort() for name in _PORTS}
    yield {name: port.number for name, port in held.items()}


def _write_configs(
    cluster: Cluster, ports: Mapping[str, int], cgroup: str
) -> Mapping[str, str]:
    """Write the certificate and all settings; return what they were made of."""
    folder = cluster.folder
    for name in ("logs", "configs", "network", "images", "etcd"):
        (folder / name).mkdir()
    # Whoever shows a certificate of this authority may do anything: there is one.
    files = Authority().issue_certificate(NODE).write(folder / "tls")
    cni = next(path for path in _CNI_FOLDERS if os.path.isdir(path))
    values = {name: str(number) for name, number in ports.items()} | {
        "folder": str(folder),
        "socket": str(cluster.socket),
        "cgroup": cgroup,
        "plugins": cni,
        "pause": images.PAUSE,
        "authority": str(files.authority),
        "certificate": str(files.certificate),
        "key": str(files.key),
    }
    for source in _CONFIGS.iterdir():
        place = "network" if source.suffix == ".conf" else "configs"
        text = Template(source.read_text()).substitute(values)
        (folder / place / source.name).write_text(text)
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
            own.append(f"--flex-volume-plugin-dir={values['folder']}/kubelet/flex")
            own.append(f"--root-ca-file={values['authority']}")
        cluster.start(name, cluster.program, name, *own)


def _etcd_options(values: Mapping[str, str]) -> Sequence[str]:
    client = f"https://127.0.0.1:{values['etcd_port']}"
    peer = f"https://127.0.0.1:{values['peer_port']}"
    options = {
        "name": NODE,
        "data-dir": f"{values['folder']}/etcd/data",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{NODE}={peer}",
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
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": values["api_port"],
        "etcd-servers": f"https://127.0.0.1:{values['etcd_port']}",
        "etcd-cafile": values["authority"],
        "etcd-certfile": values["certificate"],
        "etcd-keyfile": values["key"],
        "tls-cert-file": values["certificate"],
        "tls-private-key-file": values["key"],
        "client-ca-file": values["authority"],
        "anonymous-auth": "false",
        "authorization-mode": "AlwaysAllow",
        "kubelet-certificate-authority": values["authority"],
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
    for name in ("etcd", "kube-apiserver"):
        if not cluster.read_processes()[name].alive():
            log = cluster.folder / "logs" / f"{name}.log"
            lines = log.read_text("utf-8", "replace").splitlines()[-_LINES:]
            raise ClusterError("\n".join([f"{name} ended:", *lines]))
    with contextlib.suppress(ClusterError):
        cluster.kubectl("get", "--raw=/readyz")
        return True
    return False


def _start_containerd(cluster: Cluster, programs: Path) -> None:
    config = cluster.folder / "configs/containerd.toml"
    cluster.start("containerd", "containerd", "--config", str(config))
    wait_until("containerd listens", cluster.socket.exists, _READY_S)
    folder = cluster.folder / "images"
    images.make_pause(folder / "pause.tar", programs / "pause")
    images.make_empty(folder / "empty.tar")
    for archive in sorted(folder.iterdir()):
        cluster.ctr("images", "import", str(archive))


def _start_node(cluster: Cluster) -> None:
    cluster.start(
        "kubelet",
        cluster.program,
        "kubelet",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--config={cluster.folder}/configs/kubelet.yaml",
        f"--root-dir={cluster.folder}/kubelet",
        f"--cert-dir={cluster.folder}/tls",
        f"--hostname-override={NODE}",
    )
    wait_until("the node is ready", lambda: _is_node_ready(cluster), _READY_S)
    account = ("get", "serviceaccount", "default")
    wait_until("pods have an account", lambda: _succeeds(cluster, *account), _READY_S)


def _is_node_ready(cluster: Cluster) -> bool:
    how = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
    return _answers(cluster) and cluster.kubectl("get", "nodes", "-o", how) == "True"


def _succeeds(cluster: Cluster, *words: str) -> bool:
    with contextlib.suppress(ClusterError):
        cluster.kubectl(*words)
        return True
    return False
