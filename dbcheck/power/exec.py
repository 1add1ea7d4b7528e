"""The switch is three programs of the user's."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from dbcheck import children, interrupt
from dbcheck.core.cut import Cut, PowerState
from dbcheck.core.cutclass import CutClass
from dbcheck.errors import PowerError
from dbcheck.power.command import SAID_MAX, run, shown
from dbcheck.power.hold import Hold, wait_for


@dataclass(frozen=True, slots=True)
class ExecCommands:
    """Programs with their words, run without a shell; each must exit with 0.

    cut:     drops the power, never by a shutdown.
    restore: applies it; () if the power comes back by itself (a reset).
    state:   prints "on" or "off" as the last word on standard output, in any case
             and with or without a full stop; () if there is none.
    off_s:   seconds between power off and restore, at least.
    timeout_s: for each program, and for the state that it leads to.
    cut_class: what the cut takes the power from, as its user declares it.
    """

    cut: tuple[str, ...]
    restore: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    off_s: float = 15.0
    timeout_s: float = 60.0
    cut_class: CutClass = CutClass.UNKNOWN


class ExecSwitch:
    """Runs the user's programs.

    Their words may hold no secret: they are shown in errors and by ps(1).
    """

    kind = "exec"
    attended = False

    def __init__(self, commands: ExecCommands) -> None:
        self._commands = commands
        self.cut_class = commands.cut_class
        self._prepared = False
        self._hold = Hold(commands.off_s)

    def state(self) -> PowerState:
        """Run the state program; UNKNOWN if there is none."""
        if not self._commands.state:
            return PowerState.UNKNOWN
        words = self._run("state", self._commands.state).split()
        last = words[-1].strip(".").lower() if words else ""
        try:
            return PowerState(last)
        except ValueError:
            raise PowerError(
                f"the state command printed {last!r} as its last word",
                hint="It must print on or off.",
            ) from None

    def prepare(self) -> None:
        """Make sure that the power is on; raise PowerError if it is off."""
        if self.state() is PowerState.OFF:
            raise PowerError(
                "the power is off already, yet the server answered",
                hint="The state command looks at another host than the target.",
            )
        self._prepared = True

    def cut(self) -> Cut:
        """Make sure that the power is on, run the cut program, see the power off."""
        if not self._prepared:
            self.prepare()
        self._prepared = False
        asked_us = time.monotonic_ns() // 1000
        output = self._run("cut", self._commands.cut)
        self._wait(PowerState.OFF)
        report: dict[str, object] = {"output": output[-SAID_MAX:]}
        if self._commands.restore:
            self._hold.begin()
            report["off_s"] = self._hold.off_s
            report["off_seen"] = bool(self._commands.state)
        return Cut(asked_us, None, report)

    def restore(self) -> float | None:
        """Run the restore program after the hold, see the power on.

        An interrupt ends the hold, never the restore, and comes once that is done.
        """
        if not self._commands.restore:
            return None
        with interrupt.held_back():
            off_s = self._hold.wait(self.state)
            self._run("restore", self._commands.restore)
            self._wait(PowerState.ON)
        return off_s

    def failure(self) -> str | None:
        """Return None: only the server's answers can tell."""
        return None

    def _wait(self, wanted: PowerState) -> None:
        # A reset passes through "off" too quickly to be seen.
        if self._commands.state and self._commands.restore:
            wait_for(wanted, self.state, self._commands.timeout_s)

    def _run(self, name: str, command: tuple[str, ...]) -> str:
        keep = children.switch_variables()  # it may log in to the switch with one
        timeout_s = self._commands.timeout_s
        hidden = [os.environ[variable] for variable in keep if variable in os.environ]
        done = run(command, f"{name} command", timeout_s, hidden=hidden, keep=keep)
        if done.code:
            raise PowerError(
                f"the {name} command exited with {done.code}, saying: {done.said}",
                hint=f"Run it by hand; it must exit with 0: {shown(command)}",
            )
        return done.output
