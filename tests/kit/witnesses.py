"""Real witnesses for the tests: over OpenSSH, over asyncssh, and a local one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.lab.ssh import sshd as sshd_module
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.model.witness import Watermark
from dbcheck.ports.witness import LoadLog, WitnessLog
from dbcheck.remote.address import SshOptions
from dbcheck.rows.acks import Ack
from dbcheck.witness.log import AckBatch, Event, LogScan
from dbcheck.witness.openlog import ConfirmedLog
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import AgentWitness
from tests.kit.lab_access import children

SERVERS = ("openssh", "asyncssh")
_AGENT = b"-I\0-S\0-c\0"


@contextmanager
def running_sshd(folder: Path, server: str) -> Iterator[Sshd]:
    """Run an SSH server of the kind *server*; skip if it is not installed."""
    sshd = Sshd(folder)
    with pytest.MonkeyPatch.context() as patch:
        if server == "asyncssh":
            pytest.importorskip("asyncssh")
            patch.setattr(sshd_module, "_find_openssh", lambda: None)
        elif sshd_module._find_openssh() is None:
            pytest.skip("needs OpenSSH's sshd")
        sshd.start()
    try:
        yield sshd
    finally:
        sshd.close()


class Place:
    """A folder for logs, and a way to it."""

    def __init__(self, folder: Path, sshd: Sshd | None) -> None:
        self.folder = folder
        self.sshd = sshd

    def witness(
        self, *, limits: WindowLimits | None = None, folder: Path | None = None
    ) -> AgentWitness:
        """Return a witness there; memory is allowed, tests may run on tmpfs."""
        path = folder or self.folder
        if self.sshd is None:
            return open_witness(f"file:{path}", limits=limits, volatile=True)
        return open_witness(
            f"ssh://{self.sshd.user}@{self.sshd.host}:{self.sshd.port}{path}",
            limits=limits,
            volatile=True,
            options=SshOptions(
                identity_file=self.sshd.identity_file,
                known_hosts=self.sshd.known_hosts,
            ),
        )

    def agents(self) -> list[int]:
        """Return the processes of the agents that serve this place.

        A local one is our own child; what a lab has started is further down.
        """
        if self.sshd is None:
            pids = children(os.getpid())
        else:
            assert self.sshd._child is not None
            pids = sshd_module._list_descendants(self.sshd._child.pid)
        return [pid for pid in pids if is_agent(pid)]

    def log_path(self, run_id: str) -> Path:
        return self.folder / run_id / "acks.log"


def is_agent(pid: int) -> bool:
    """Say whether *pid* is a live agent, not the shell that will become one."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return status != "Z" and command.partition(b"\0")[2].startswith(_AGENT)


@contextmanager
def running_place(kind: str, folder: Path) -> Iterator[Place]:
    """Give a place in *folder*: "file", or behind an SSH server of that kind."""
    if kind == "file":
        yield Place(folder / "logs", None)
        return
    with running_sshd(folder / "sshd", kind) as sshd:
        yield Place(folder / "logs", sshd)


def append_from_threads(log: WitnessLog, sessions: int, each: int) -> None:
    """Let *sessions* threads append *each* acks of their own."""

    def run(session: int) -> None:
        for seq in range(1, each + 1):
            log.append(ack_of(session, seq))

    threads = [threading.Thread(target=run, args=(s,)) for s in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ack_of(session: int, seq: int) -> Ack:
    """Return the ack that the tests log under a key; its time is a whole 100 us."""
    return Ack(session, seq, seq * 64 + session, 10**9 + seq * 100)


def read_back(
    witness: AgentWitness, run_id: str, confirmed: Watermark | None, number: int = 0
) -> tuple[list[Ack], list[object]]:
    """Return the acks and the events of a stored log."""
    acks: list[Ack] = []
    events: list[object] = []
    chunks = witness.read(run_id, number)
    for entry in LogScan(chunks, run_id, confirmed, number=number):
        if isinstance(entry, AckBatch):
            acks += [Ack(*row) for row in entry.acks.tolist()]
        elif isinstance(entry, Event):
            events.append(entry.body)
    return acks, events


def give_up_after(log: LoadLog, silence_s: float) -> None:
    """Have a witness that worked so far be given up after a shorter silence."""
    assert isinstance(log, ConfirmedLog)
    window = log._window
    window._limits = replace(window._limits, silence_s=silence_s)


def witness_threads() -> list[str]:
    """Return the threads of logs that are still open."""
    return [t.name for t in threading.enumerate() if t.name.startswith("witness-")]
