"""Cuts a cluster or one of its nodes off, ends it, and puts this machine back.

A kubelet changes settings of the kernel, and makes control groups, mounts, a bridge and
folders outside of its own.  What was there before is noted first, and only what is of
this cluster goes.  If two run at once, the one that began first must end last.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dbcheck.lab.process import Process
from tools.kubernetes.run import ClusterError, run, wait_until
from tools.kubernetes.state import Cluster, Node, Programs

_CGROUPS = Path("/sys/fs/cgroup")
# What a kubelet sets (pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables).
_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",  # the plugin for bridges sets it
)
_KERNEL = Path("/proc/sys")
_PLUGINS = Path("/var/lib/kubelet/device-plugins")  # of any kubelet, wherever its root
_PLUGIN_FILES = ("kubelet.sock", "kubelet_internal_checkpoint")
_LINKS = Path("/var/log/containers")  # one for each container, to its log
_SHIMS = Path("/run/containerd/s")
# Folders that are made outside of the cluster's own, inner ones first.
_FOLDERS = (_PLUGINS, _PLUGINS.parent, _LINKS, _SHIMS, _SHIMS.parent)
_END_S = 30.0


@dataclass(frozen=True)
class Traces:
    """What a cluster changes on this machine outside of its folder.

    cgroup:   how the control groups of its nodes begin, below each hierarchy's root.
    bridge:   the network between its pods and its nodes.
    address:  that of each node in it, the first of 254.
    settings: the kernel's, as they were.
    missing:  those of _FOLDERS that were not there.
    """

    cgroup: str
    bridge: str
    address: str
    settings: dict[str, str]
    missing: list[str]

    @classmethod
    def find(cls) -> Traces:
        """Note how this machine is now, and choose what this process will make."""
        number = os.getpid()
        settings = {
            name: (_KERNEL / name).read_text().strip()
            for name in _SETTINGS
            if (_KERNEL / name).exists()
        }
        missing = [str(one) for one in _FOLDERS if not one.is_dir()]
        address = f"10.{128 + number % 64}.{number // 64 % 256}.1"
        cgroup, bridge = f"dbcheck-kubernetes-{number}", f"dbcheck-{number}"
        return cls(cgroup, bridge, address, settings, missing)

    @classmethod
    def of(cls, cluster: Cluster) -> Traces:
        """Return what was noted before the cluster began."""
        if not cluster.traces.exists():
            raise ClusterError(f"{cluster.folder} has no cluster")
        return cls(**json.loads(cluster.traces.read_text()))

    def note(self, cluster: Cluster) -> None:
        """Write it down."""
        cluster.traces.write_text(json.dumps(asdict(self)))

    def name_cgroup(self, node: Node) -> str:
        """Return the control group of a node's containers."""
        return f"{self.cgroup}-{node.name}"

    def make_cgroup(self, node: Node) -> None:
        """Make a node's control group, in each hierarchy that this machine has."""
        for top in _list_hierarchies():
            (top / self.name_cgroup(node)).mkdir(exist_ok=True)

    def list_members(self, node: Node) -> set[Process]:
        """Return the processes in a node's control group: those of its containers."""
        found = set()
        for top in _list_hierarchies():
            for file in (top / self.name_cgroup(node)).rglob("cgroup.procs"):
                with contextlib.suppress(OSError):  # the group is gone
                    found |= {Process.of(int(pid)) for pid in file.read_text().split()}
        return {process for process in found if process}

    def remove_cgroup(self, node: Node) -> None:
        """Remove a node's control group, without a process now; raise ClusterError."""
        for top in _list_hierarchies():
            for folder, _, _ in os.walk(top / self.name_cgroup(node), topdown=False):
                wait_until(f"{folder} goes", partial(_rmdir, folder), _END_S)

    def make_bridge(self) -> None:
        """Make the bridge, with the node's address; raise ClusterError."""
        run(["ip", "link", "add", "name", self.bridge, "type", "bridge"])
        run(["ip", "address", "add", f"{self.address}/24", "dev", self.bridge])
        run(["ip", "link", "set", self.bridge, "up"])

    def put_back(self, cluster: Cluster) -> None:
        """Set the kernel's settings back, and remove what is outside of the folder."""
        for name, text in self.settings.items():
            (_KERNEL / name).write_text(text)
        if os.path.isdir(f"/sys/class/net/{self.bridge}"):
            run(["ip", "link", "delete", self.bridge])
        for link in _LINKS.glob("*"):
            if link.is_symlink() and link.readlink().is_relative_to(cluster.folder):
                link.unlink()
        if str(_PLUGINS) in self.missing:
            for name in _PLUGIN_FILES:
                (_PLUGINS / name).unlink(missing_ok=True)
        for folder in self.missing:
            _rmdir(folder)


def _rmdir(folder: str) -> bool:
    """Remove an empty folder; return False if it is not empty."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return True


def _list_hierarchies() -> list[Path]:
    """Return the root of each hierarchy of control groups (cgroups(7))."""
    if (_CGROUPS / "cgroup.procs").exists():
        return [_CGROUPS]
    return [
        path
        for path in sorted(_CGROUPS.iterdir())
        if not path.is_symlink() and (path / "cgroup.procs").exists()
    ]


def cut(cluster: Cluster) -> None:
    """Kill all of a cluster at once, as if its machine had stopped; raise ClusterError.

    What a machine has in memory goes, too: mounts, control groups, and containerd's
    state.  All other files stay, and so does what is in the kernel's page cache.
    """
    _cut(Traces.of(cluster), cluster.nodes, [*cluster.nodes, cluster])


def cut_node(cluster: Cluster, node: Node) -> None:
    """Do so with one node; nothing tells the rest of the cluster."""
    _cut(Traces.of(cluster), [node], [node])


def down(cluster: Cluster) -> None:
    """End all processes of a cluster, and remove its folder; raise ClusterError."""
    cut(cluster)
    Traces.of(cluster).put_back(cluster)
    shutil.rmtree(cluster.folder)


def _cut(traces: Traces, nodes: Sequence[Node], groups: Sequence[Programs]) -> None:
    for programs in groups:  # first, as those of a node would start containers again
        programs.kill()
    for shim in _find_shims(nodes):
        shim.kill()
    members = set[Process]().union(*map(traces.list_members, nodes))
    # A server must not see one of its processes end before it.  All are killed before
    # the first is waited for: dbcheck would see a server that is idle until its end.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, number)
    for member in members:
        member.kill()
    for node in nodes:
        _clear_memory(traces, node)


def _clear_memory(traces: Traces, node: Node) -> None:
    """Remove what is only in the memory of a machine, of a node without processes."""
    for point in reversed(list(_find_mounts(node.folder))):
        run(["umount", "--lazy", point])  # a canary of dbcheck may still be there
    traces.remove_cgroup(node)
    for address in node.containerd_state.rglob("address"):
        socket = address.read_text().removeprefix("unix://")
        if Path(socket).parent == _SHIMS:
            Path(socket).unlink(missing_ok=True)
    shutil.rmtree(node.containerd_state, ignore_errors=True)


def _find_shims(nodes: Sequence[Node]) -> Iterator[Process]:
    """Yield the processes that the containerd of each node has started and left."""
    addresses = {os.fsencode(node.socket) for node in nodes}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            named = os.path.basename(words[0]).startswith(b"containerd-shim")
            ours = named and not addresses.isdisjoint(words)
            if ours and (found := Process.of(int(name))):
                yield found


def _find_mounts(folder: Path) -> Iterator[str]:
    """Yield what is mounted below *folder*, in the order of the mounts."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if point.startswith(f"{folder}/"):
            yield point
