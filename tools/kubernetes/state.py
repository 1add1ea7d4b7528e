"""The files of a cluster, its processes, and the clients that ask it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from dbcheck.lab.process import Process
from tools.kubernetes.build import build
from tools.kubernetes.run import run, start

NODE = "dbcheck"
NAMESPACE = "k8s.io"  # containerd's, in which the kubelet's containers are


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
class Cluster:
    """A cluster whose files, state included, are in one folder."""

    folder: Path

    @property
    def socket(self) -> Path:
        """The socket of its containerd."""
        return self.folder / "containerd.sock"

    @property
    def containerd_state(self) -> Path:
        """What containerd has below /run elsewhere, and a boot finds empty."""
        return self.folder / "containerd/state"

    @property
    def kubeconfig(self) -> Path:
        """The file with which a client is let in."""
        return self.folder / "configs/kubeconfig.yaml"

    @property
    def state(self) -> Path:
        """The file that names its processes."""
        return self.folder / "state.json"

    @property
    def traces(self) -> Path:
        """The file that says how this machine was before."""
        return self.folder / "traces.json"

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

    def ctr(self, *words: str) -> str:
        """Return what containerd's own client prints; raise ClusterError."""
        return run(["ctr", "--address", str(self.socket), "-n", NAMESPACE, *words])

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
        log = self.folder / "logs" / f"{name}.log"
        process = start(command, log, variables)
        started = Program(list(command), variables, *process)
        programs = self.read_programs() | {name: started}
        stored = {name: asdict(program) for name, program in programs.items()}
        self.state.write_text(json.dumps(stored))
