"""Restarts the server by a program of the user's."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.power.kinds.command import run, shown


class RestartProgram:
    """Runs one program, without a shell; see ports.restart.Restarter.

    Its arguments may hold no secret: they are shown in errors and by ps(1).
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s

    def restart(self) -> None:
        """Run it; raise PowerError unless it exits with 0."""
        done = run(self._command, "restart command", self._timeout_s)
        if done.code:
            raise PowerError(
                f"the restart command `{shown(self._command)}` ended with"
                f" {done.code}; its output: {done.output_tail}",
                id=ErrorId.RESTART_COMMAND_FAILED,
                hint="It must stop the server in an orderly way and start it again.",
            )
