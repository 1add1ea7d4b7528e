"""A witness on the client's own disk, for targets on other machines."""

from __future__ import annotations

from pathlib import Path

from dbcheck.base import processes
from dbcheck.remote.channel import Pipe
from dbcheck.remote.way import run_here
from dbcheck.witness.base import AgentWitness
from dbcheck.witness.channel import PROGRAM
from dbcheck.witness.window import WindowLimits


class FileWitness(AgentWitness):
    """Runs the same agent as on a remote host, as a child; it dies with the client."""

    kind = "file"

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        limits: WindowLimits | None = None,
        volatile: bool = False,
        python: str = processes.PYTHON,
    ) -> None:
        """Keep logs in the absolute path *folder*; *python* runs the agent."""
        limits = limits or WindowLimits()
        super().__init__(url, str(folder), limits, volatile=volatile)
        self._python = python

    def _open_pipe(self) -> Pipe:
        return run_here(PROGRAM, self._python)
