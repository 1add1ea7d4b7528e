"""Programs of a copy, which run one after the other beside the daemon's other work."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs, server_account
from dbcheck.lab.process import kill_group
from dbcheck.lab.restoring.methods import Step
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.base import LOG_BYTES_MAX, last_lines
from dbcheck.lab.servers.container import Launcher

_POLL_S = 0.01


class RunningSteps:
    """Programs that run one after the other; each dies with the thread that polls.

    folder: the account's, in which they run.  log: a file for their output, in a
    folder of this process.  account: runs them, None: this process's account.
    """

    def __init__(
        self, steps: Sequence[Step], folder: Path, log: Path, account: Account | None
    ) -> None:
        self._left = list(steps)
        self._folder, self._log, self._account = folder, log, account
        self._step: Step | None = None
        self._process: subprocess.Popen[bytes] | None = None
        server_account.make_file(log, None)

    def poll(self) -> bool:
        """Start the next program if one has ended; return whether all have ended.

        Raise LabError, with the end of its output, if one cannot be started or fails.
        """
        while self._process is None or self._process.poll() is not None:
            self._require_success()
            if not self._left:
                return True
            self._step = self._left.pop(0)
            self._process = self._start(self._step)
        return False

    def wait(self, timeout_s: float) -> None:
        """Wait until all have ended; raise as poll() does, or after *timeout_s*."""
        ends_s = time.monotonic() + timeout_s
        try:
            while not self.poll():
                if time.monotonic() >= ends_s:
                    name = self._step.command[0] if self._step else ""
                    raise LabError(
                        f"{name} did not end within {timeout_s:g} s",
                        id=ErrorId.PROGRAM_FAILED,
                    )
                time.sleep(_POLL_S)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the program that runs, and start no other one."""
        self._left.clear()
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            kill_group(process.pid)
            process.wait()

    def pids(self) -> list[int]:
        """Return the program that runs now."""
        process = self._process
        return [process.pid] if process and process.poll() is None else []

    def _start(self, step: Step) -> subprocess.Popen[bytes]:
        variables = {"PATH": processes.make_search_path(), "LC_ALL": "C"}
        if step.is_own:
            variables = processes.make_environment()
        plainly = server_account.plainly
        try:
            with contextlib.ExitStack() as files:
                output = files.enter_context(open(self._log, "ab", opener=plainly))
                source = step.input_file or Path(os.devnull)
                stdin = files.enter_context(open(source, "rb"))
                return Launcher().start(
                    step.command,
                    None if step.is_own else self._account,
                    {**variables, **step.variables},
                    cwd=self._folder,
                    stdin=stdin.fileno(),
                    stdout=output.fileno(),
                )
        except OSError as error:
            raise LabError(
                f"cannot start {step.command[0]}: {error.strerror}",
                id=ErrorId.PROGRAM_FAILED,
            ) from error

    def _require_success(self) -> None:
        """Raise LabError if the last program failed."""
        if self._process is None or self._step is None:
            return
        status, self._process = self._process.returncode, None
        if status:
            text = server_account.read_as_text(self._log, None, LOG_BYTES_MAX)
            raise programs.Failed(
                f"{self._step.command[0]} failed with status {status}\n"
                f"{last_lines(text)}",
                status,
            )
