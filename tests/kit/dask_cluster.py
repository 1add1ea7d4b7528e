"""A Dask scheduler and its workers, as processes of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dbcheck.base import processes
from tests.kit.labs import workers_of
from tests.kit.waiting import wait_until

NOTHING: Mapping[str, str] = {}


@dataclass
class Cluster:
    """What runs in a folder, which has a log of each process.

    tls: the flags that name certificates.  address: the scheduler's.
    workers: by their names.
    """

    folder: Path
    tls: Sequence[str] = ()
    address: str = ""
    scheduler: subprocess.Popen[bytes] | None = None
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_scheduler(self) -> None:
        """Start it on a free port of the loopback interface."""
        note = self.folder / "scheduler.json"
        words = ["scheduler", "--host", f"{'tls' if self.tls else 'tcp'}://127.0.0.1"]
        words += ["--port", "0", "--dashboard-address", "127.0.0.1:0"]
        words += ["--scheduler-file", str(note)]
        self.scheduler = self._start("scheduler", words)
        wait_until(lambda: note.exists() and bool(note.read_text()), "scheduler")
        self.address = json.loads(note.read_text())["address"]

    def add_worker(
        self,
        given: Mapping[str, str] = NOTHING,
        ahead_s: int = 0,
        threads: int = 1,
        port: int = 0,
    ) -> subprocess.Popen[bytes]:
        """Start a worker; wait for nothing.

        given: variables of its environment.  ahead_s: its monotonic clock is so far
        ahead of that of this machine, for which root is needed.  port: 0 for any.
        """
        name = f"worker-{len(self.workers)}"
        words = ["worker", self.address, "--no-nanny", "--nthreads", str(threads)]
        words += ["--no-dashboard", "--name", name, "--worker-port", str(port)]
        words += ["--local-directory", str(self.folder)]
        self.workers[name] = self._start(name, words, given, ahead_s)
        return self.workers[name]

    def await_workers(self) -> None:
        """Return once the scheduler knows each of them."""
        wait_until(
            lambda: all("Registered to:" in self.log(name) for name in self.workers),
            "workers",
        )

    def log(self, name: str) -> str:
        """Return what a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def logs(self) -> str:
        """Return what all have written."""
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    def loading(self) -> list[int]:
        """Return the processes of the load that the workers have started."""
        return [one for w in self.workers.values() for one in workers_of(w.pid)]

    def end(self) -> None:
        """Kill what still runs, also what was stopped."""
        for process in (*self.workers.values(), self.scheduler):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _start(
        self,
        name: str,
        words: list[str],
        given: Mapping[str, str] = NOTHING,
        ahead_s: int = 0,
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "dask", *words, *self.tls]
        if ahead_s:
            apart = ["unshare", "--time", f"--monotonic={ahead_s}", "--fork"]
            command = [*apart, "--kill-child", "--", *command]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                processes.die_with_parent(command),
                env={**processes.make_environment(), **given},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )


@contextlib.contextmanager
def cluster(
    folder: Path,
    workers: int,
    given: Mapping[str, str] = NOTHING,
    ahead_s: int = 0,
    tls: Sequence[str] = (),
    threads: int = 1,
) -> Iterator[Cluster]:
    """Give a scheduler with *workers*; nothing of it is left afterwards.

    ahead_s: how far the clock of the first one is ahead.
    """
    folder.mkdir()
    made = Cluster(folder, tls)
    try:
        made.start_scheduler()
        for number in range(workers):
            made.add_worker(given, 0 if number else ahead_s, threads)
        made.await_workers()
        yield made
    finally:
        made.end()
