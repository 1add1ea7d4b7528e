"""Runs users' programs, as one that switches or promotes; waits for a switch.

Programs run without a shell; their time is limited, and all processes that they start
end with them.  A wait lasts until the switch has switched, or for the time off.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from typing import IO

from dbcheck.base import interrupt, limits, processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, PowerError, UsageError
from dbcheck.base.points import Point
from dbcheck.config.target import RestoreSettings
from dbcheck.model.cut import PowerState
from dbcheck.ports.site import Node

TAIL_MAX = 400  # characters of a program's output that an error shows
_MEANWHILE_S = 0.05  # between two calls of what is to be called meanwhile
_GRACE_S = 5  # how much later than dbcheck timeout(1) ends a program


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit code of a program, and its text on standard output and error."""

    code: int
    output: str
    errors: str

    @property
    def output_tail(self) -> str:
        """The end of the program's output, for an error's text."""
        printed = f"{self.output.strip()} {self.errors.strip()}".strip()
        return printed[-TAIL_MAX:] or "none"


def run_program(
    command: Sequence[str],
    what: str,
    timeout_s: float,
    *,
    text: str = "",
    hidden: Collection[str] = (),
    keep: Container[str] = (),
    meanwhile: Callable[[], None] | None = None,
) -> Finished:
    """Run *command* with *text* on its standard input; return once it has ended.

    what: names the program in errors.  hidden: secrets that its output must not show.
    keep: see processes.make_environment().  meanwhile: called again and again while it
    runs; if it raises, the program ends.  All processes that it started end with it;
    if this process dies, timeout(1) ends them a little later.  Raise PowerError if it
    cannot be run, or takes longer than *timeout_s*.
    """
    wrapper = ("timeout", "-s", "KILL", f"{timeout_s + _GRACE_S:g}")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                (*wrapper, *command),
                env=processes.make_environment(keep),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,  # timeout(1) stays in this session
            )
        except OSError as error:
            raise PowerError(
                f"cannot run the {what}: timeout: {error.strerror}",
                id=ErrorId.POWER_COMMAND_NOT_RUN,
                hint="Install coreutils.",
            ) from None
        try:
            _await_end(process, text, timeout_s, meanwhile)
        except subprocess.TimeoutExpired:
            raise PowerError(
                f"the {what} took longer than {timeout_s:g} s",
                id=ErrorId.POWER_COMMAND_TOO_SLOW,
                hint="Raise the power timeout, or fix the cause of the delay.",
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.stdin:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            process.wait()
        finished = Finished(
            process.returncode, _read_text(out, hidden), _read_text(err, hidden)
        )
    if finished.code == 127:
        raise PowerError(
            f"cannot run the {what}: {finished.output_tail}",
            id=ErrorId.POWER_COMMAND_NOT_RUN,
            hint="Install the program, or give its full path.",
        )
    return finished


def _await_end(
    process: subprocess.Popen[bytes],
    text: str,
    timeout_s: float,
    meanwhile: Callable[[], None] | None,
) -> None:
    """Wait until *process* has ended; raise TimeoutExpired after *timeout_s*."""
    if meanwhile is None:
        process.communicate(text.encode(), timeout_s)
        return
    ends_s = time.monotonic() + timeout_s
    while True:
        left_s = ends_s - time.monotonic()
        try:
            process.communicate(text.encode(), max(0.0, min(_MEANWHILE_S, left_s)))
        except subprocess.TimeoutExpired:
            if left_s <= _MEANWHILE_S:
                raise
            meanwhile()
        else:
            return


def format_command(command: Sequence[str]) -> str:
    """Return *command* as it would be typed."""
    return shlex.join(command)


def _read_text(file: IO[bytes], hidden: Collection[str]) -> str:
    file.seek(0)
    text = file.read().decode(errors="replace")
    for secret in hidden:
        text = text.replace(secret, "***") if secret else text
    return text


class PromotionProgram:
    """Runs one program, without a shell, with the name of the node as last argument.

    Its arguments may hold no secret: they are shown in errors and by ps(1).
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s

    def promote(self, name: str, _node: Node) -> None:
        """Promote *name*; raise EngineError unless the program exits with 0."""
        _run_on_node(
            *((*self._command, name), "promotion command", self._timeout_s),
            id=ErrorId.PROMOTION_COMMAND_FAILED,
            hint="It must promote the node that is its last argument.",
        )


_FAULT_TOO_SLOW = f"It has {limits.FAULT_S:g} s. Fix the cause of the delay."


class FaultByPrograms:
    """A ports.site.FaultPrograms that runs two programs, without a shell.

    Each gets the name of the node as its last argument, or of the single host.  Their
    arguments may hold no secret: they are shown in errors and by ps(1).
    """

    def __init__(
        self, begin: Sequence[str], end: Sequence[str], single: str = ""
    ) -> None:
        """single: the name of a host that is no node of a cluster, "" of a cluster."""
        self._begin, self._end, self._single = begin, end, single

    def begin(self, name: str) -> None:
        """Begin the fault of *name*; raise EngineError unless that exits with 0."""
        _run_on_node(
            (*self._begin, self._single or name),
            *("program that begins the fault", limits.FAULT_S),
            if_slow=_FAULT_TOO_SLOW,
            id=ErrorId.FAULT_NOT_BEGUN,
            hint="Nothing was cut. It must begin the fault of the node that is its last"
            " argument, and exit with 0 once it is there.",
        )

    def end(self, name: str) -> None:
        """End the fault of *name*; raise EngineError unless that exits with 0."""
        _run_on_node(
            (*self._end, self._single or name),
            *("program that ends the fault", limits.FAULT_S),
            if_slow=_FAULT_TOO_SLOW,
            id=ErrorId.FAULT_NOT_ENDED,
            hint="It must end the fault of the node that is its last argument, also"
            " with that node off, and exit with 0 if there is none.",
        )

    def require_programs(self) -> None:
        """Raise UsageError if one of the programs is not there."""
        for option, (program, *_) in (
            ("dbcheck_fault", self._begin),
            ("dbcheck_fault_end", self._end),
        ):
            if shutil.which(program) is None:
                raise UsageError(
                    f"{option}: there is no program {program!r} here",
                    id=ErrorId.FAULT_PROGRAM_MISSING,
                    hint="Install it, or give its full path.",
                )


class RebuildProgram:
    """Runs one program, without a shell, with the names of two nodes at its end.

    Its arguments may hold no secret: they are shown in errors and by ps(1).
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s

    def rebuild(self, name: str, writer: str) -> None:
        """Have *name* follow *writer*; raise EngineError unless it exits with 0."""
        _run_on_node(
            *((*self._command, name, writer), "rebuild command", self._timeout_s),
            id=ErrorId.REBUILD_COMMAND_FAILED,
            hint="It must make the node that is its last argument but one a standby of"
            " the node that is its last.",
        )


def _run_on_node(
    command: Sequence[str],
    what: str,
    timeout_s: float,
    *,
    id: ErrorId,
    hint: str,
    if_slow: str = "Fix the cause of the delay, or set a longer dbcheck_wait_s.",
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Run *command*; raise EngineError, with *id* and *hint*, unless it ends with 0.

    if_slow: the hint if it takes longer than timeout_s.  meanwhile: see run_program().
    """
    try:
        done = run_program(command, what, timeout_s, meanwhile=meanwhile)
    except PowerError as error:
        hint = error.hint
        if error.id is ErrorId.POWER_COMMAND_TOO_SLOW:
            hint = if_slow
        raise EngineError(str(error), id=error.id, hint=hint) from None
    if done.code:
        raise EngineError(
            f"the {what} `{format_command(command)}` ended with {done.code}; its"
            f" output: {done.output_tail}",
            id=id,
            hint=hint,
        )


class CopyByPrograms:
    """A ports.site.CopyPrograms that runs the user's programs, without a shell.

    Each gets the id of the run as its last argument; the one that restores to a point
    gets the point after it.  Their arguments may hold no secret: they are shown in
    errors and by ps(1).
    """

    def __init__(self, settings: RestoreSettings) -> None:
        self._settings = settings

    def take(self, run_id: str, meanwhile: Callable[[], None]) -> None:
        """Take the copy; raise EngineError unless its program exits with 0."""
        self._run(
            *(self._settings.copy, run_id, "program that takes the copy"),
            id=ErrorId.COPY_NOT_TAKEN,
            hint="It must take a copy of the server, named by the run's id, its last"
            " argument, and exit with 0 once the copy is complete.",
            meanwhile=meanwhile,
        )

    def restore(self, run_id: str, point: Point | None = None) -> None:
        """Restore the copy; raise EngineError unless its program exits with 0."""
        command, what = self._settings.restore, "the copy that is named by"
        if point is not None:
            command, run_id = (*command, run_id), point.value
            what = f"the archive to the point ({point.kind.value}) that is"
        self._run(
            *(command, run_id, "program that restores the copy"),
            id=ErrorId.COPY_NOT_RESTORED,
            hint=f"It must restore {what} its last argument, start a server on it at"
            f" {self._settings.target}, and exit with 0.",
        )

    def remove(self, run_id: str) -> None:
        """Remove the copy and its server; raise EngineError unless that exits with 0.

        Nothing happens without a program for it.
        """
        if self._settings.remove:
            self._run(
                *(self._settings.remove, run_id, "program that removes the copy"),
                id=ErrorId.COPY_NOT_REMOVED,
                hint="It must end the server on the copy, remove both, and exit with 0;"
                " also if there is no copy. Do it by hand now.",
            )

    def require_programs(self) -> None:
        """Raise UsageError if one of the programs is not there."""
        for key in ("copy", "restore", "remove"):
            command = getattr(self._settings, key)
            if command and shutil.which(command[0]) is None:
                raise UsageError(
                    f"dbcheck_restore: {key}: there is no program {command[0]!r} here",
                    id=ErrorId.COPY_PROGRAM_MISSING,
                    hint="Install it, or give its full path.",
                )

    def _run(
        self,
        command: Sequence[str],
        run_id: str,
        what: str,
        *,
        id: ErrorId,
        hint: str,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        _run_on_node(
            *((*command, run_id), what, self._settings.timeout_s),
            if_slow="Fix the cause of the delay, or raise dbcheck_restore: timeout_s.",
            id=id,
            hint=hint,
            meanwhile=meanwhile,
        )


class RestartProgram:
    """A ports.site.Restarter that runs one program, without a shell.

    Its arguments may hold no secret: they are shown in errors and by ps(1).
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s

    def restart(self) -> None:
        """Run the program; raise PowerError unless it exits with 0."""
        done = run_program(self._command, "restart command", self._timeout_s)
        if done.code:
            raise PowerError(
                f"the restart command `{format_command(self._command)}` ended with"
                f" {done.code}; its output: {done.output_tail}",
                id=ErrorId.RESTART_COMMAND_FAILED,
                hint="It must stop the server in an orderly way and start it again.",
            )


POLL_S = 0.5
_INTERRUPT_CHECK_S = 0.1


class OffTimer:
    """The time without power that a cut must last.

    Capacitors of supplies and drives hold a charge for seconds, so a cache whose power
    is back before they are empty was never without power.
    """

    def __init__(self, off_s: float) -> None:
        """Measure nothing yet; *off_s*: the least time without power, in seconds."""
        self.off_s = off_s
        self._off_since_s: float | None = None

    def begin(self) -> None:
        """Note that the power is off now."""
        self._off_since_s = time.monotonic()

    def wait(self, read: Callable[[], PowerState]) -> float | None:
        """Wait until the time is over; return how long the power was off, in seconds.

        read: returns the power's state.  If begin() was not called, as in a process
        that made no cut, the time begins now if the power is off; else no wait.
        Return None if the power may have been on.
        An interrupt that comes meanwhile, held back by the caller, ends the wait.
        """
        interrupts_before = interrupt.count_interrupts()
        since_s, self._off_since_s = self._off_since_s, None
        if since_s is None and _read_state_if_possible(read) is PowerState.OFF:
            since_s = time.monotonic()
        if since_s is None:
            return None
        while (off_s := time.monotonic() - since_s) < self.off_s:
            if interrupt.count_interrupts() > interrupts_before:
                break
            time.sleep(min(_INTERRUPT_CHECK_S, self.off_s - off_s))
        return (
            off_s
            if _read_state_if_possible(read) in (PowerState.OFF, PowerState.UNKNOWN)
            else None
        )


def _read_state_if_possible(read: Callable[[], PowerState]) -> PowerState | None:
    """Return read(), None if it fails: a failure must not stop the restore.

    A switch that cannot read its state returns UNKNOWN.
    """
    with contextlib.suppress(PowerError):
        return read()
    return None


def wait_for(
    wanted: PowerState, read: Callable[[], PowerState], timeout_s: float
) -> None:
    """Return once read() is *wanted*; raise PowerError after *timeout_s* seconds."""
    deadline = time.monotonic() + timeout_s
    while (state := read()) is not wanted:
        if time.monotonic() > deadline:
            raise PowerError(
                f"the power is still {state.value} after {timeout_s:g} s",
                id=ErrorId.POWER_STATE_NOT_REACHED,
                hint="Check the switch; do not trust this cycle.",
            )
        time.sleep(POLL_S)
