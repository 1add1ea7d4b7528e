"""The files of a cluster and of its nodes, their processes, and who asks them."""

from __future__ import annotations

import contextlib
import json
import string
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from dbcheck.lab.process import Process
from tools.kubernetes.build import build
from tools.kubernetes.run import ClusterError, run, start

NAME = "dbcheck"  # of the cluster, of the user who may do all, and of the first node
_LINES = 8
NAMESPACE = "k8s.io"  # containerd's, in which the kubelet's containers are


def name_nodes(count: int) -> Sequence[str]:
    """Return the names of so many nodes: "dbcheck", "dbcheck-b", "dbcheck-c", ..."""
    return [NAME, *(f"{NAME}-{letter}" for letter in string.ascii_lowercase[1:count])]


@dataclass(frozen=True)
class Program:
    """A program that was started: its command line and its process.

    variables: besides the environment's.
    """

    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    start_ticks: int = 0


@dataclass(frozen=True)
class Programs:
    """Programs that are started and killed together, with their files in one folder."""

    folder: Path

    @property
    def state(self) -> Path:
        """The file that names the processes."""
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        """The folder with a log of each program."""
        return self.folder / "logs"

    def read_programs(self) -> dict[str, Program]:
        """Return the programs that were started, by name, in their order."""
        if not self.state.exists():
            return {}
        stored = json.loads(self.state.read_text())
        return {name: Program(**fields) for name, fields in stored.items()}

    def read_processes(self) -> dict[str, Process]:
        """Return the processes of these programs, as they were started last."""
        return {
            name: Process(program.pid, program.start_ticks)
            for name, program in self.read_programs().items()
        }

    def start(self, name: str, *command: str, **variables: str) -> None:
        """Start a program, and note its process before anything else happens."""
        process = start(command, self.logs / f"{name}.log", variables)
        started = Program(list(command), variables, *process)
        programs = self.read_programs() | {name: started}
        stored = {name: asdict(program) for name, program in programs.items()}
        self.state.write_text(json.dumps(stored))

    def require_running(self, *names: str) -> None:
        """Raise ClusterError, with the end of its log, if one of these has ended."""
        processes = self.read_processes()
        for name in names:
            if not processes[name].alive():
                log = (self.logs / f"{name}.log").read_text("utf-8", "replace")
                last = log.splitlines()[-_LINES:]
                raise ClusterError("\n".join([f"{name} ended:", *last]))

    def kill(self) -> None:
        """Kill them; what they have started goes on."""
        for process in self.read_processes().values():
            process.kill()


@dataclass(frozen=True)
class Node(Programs):
    """A node: a kubelet with a containerd of its own.  The folder has its name."""

    @property
    def name(self) -> str:
        """How the cluster calls it."""
        return self.folder.name

    @property
    def socket(self) -> Path:
        """The socket of its containerd."""
        return self.folder / "containerd.sock"

    @property
    def longest_socket(self) -> Path:
        """Of the sockets in its folder, that with the longest path."""
        return self.folder / "kubelet/pod-resources/kubelet.sock"

    @property
    def containerd_state(self) -> Path:
        """What containerd has below /run elsewhere, and a boot finds empty."""
        return self.folder / "containerd/state"

    def ctr(self, *words: str) -> str:
        """Return what containerd's own client prints; raise ClusterError."""
        return run(["ctr", "--address", str(self.socket), "-n", NAMESPACE, *words])


@dataclass(frozen=True)
class Cluster(Programs):
    """A cluster: the programs that control it, and its nodes in folders of their own.

    All of its files, state included, are in one folder.
    """

    @property
    def kubeconfig(self) -> Path:
        """The file with which a client is let in."""
        return self.folder / "configs/kubeconfig.yaml"

    @property
    def traces(self) -> Path:
        """The file that says how this machine was before."""
        return self.folder / "traces.json"

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes, the first one first."""
        return [Node(path) for path in sorted(self.folder.glob(f"{NAME}*"))]

    def find_node(self, name: str) -> Node:
        """Return the node of that name; raise ClusterError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        named = ", ".join(node.name for node in self.nodes) or "none"
        raise ClusterError(f"no node {name!r} among those of {self.folder}: {named}")

    @cached_property
    def program(self) -> str:
        """Kubernetes, all of its programs in one."""
        return str(build() / "kubernetes")

    def kubectl(self, *words: str, text: str = "", timeout_s: float = 60.0) -> str:
        """Return what kubectl prints; raise ClusterError.

        text: what it reads.
        """
        options = ["--kubeconfig", str(self.kubeconfig)]
        options += ["--cache-dir", str(self.folder / "cache")]
        command = [self.program, "kubectl", *options, *words]
        return run(command, text=text, timeout_s=timeout_s)

    def does(self, *words: str) -> bool:
        """Return True if kubectl does so, False if it refuses."""
        with contextlib.suppress(ClusterError):
            self.kubectl(*words)
            return True
        return False
