"""The switch that is up to three programs of the user: cut, restore and state."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from dbcheck.base import interrupt, limits, processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.base.setting import Setting
from dbcheck.base.system import now_us
from dbcheck.config.validated import Command
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.command import (
    TAIL_MAX,
    OffTimer,
    format_command,
    run_program,
    wait_for,
)
from dbcheck.power.kinds.config import Fields

_STATE_ON, _STATE_OFF = "state_on", "state_off"


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """Programs with their arguments, run without a shell; see config.SwitchConfig.

    Each must exit with 0.
    cut:     cuts the power, never by a shutdown.
    restore: restores the power; () if it comes back by itself (a reset).
    state:   prints "on" or "off" as the last word on standard output, in any case
             and with or without a full stop; () if no program shows the state.
    state_on, state_off: regular expressions for a `state` that prints other texts; one
             of them is found in its output.  "" if it prints "on" or "off".
    off_s:   seconds between power off and restore, at least.
    timeout_s: for each program, and again for the state that must follow.
    declared: the class of the cut, None if it is not known.
    """

    kind: ClassVar[SwitchKind] = SwitchKind.EXEC
    attended: ClassVar[bool] = False
    guarded: ClassVar[bool] = True
    needs_host: ClassVar[bool] = False

    cut: Annotated[
        Command,
        Meta(
            description="`exec`: a list, the program that cuts the power and its "
            "arguments."
        ),
        Setting(
            "--cut-command",
            "CMD",
            help="exec: cuts the power. It is started without a shell.",
        ),
    ]
    restore: Annotated[
        Command,
        Meta(
            description="`exec`: a list, the program that restores the power and its "
            "arguments."
        ),
        Setting(
            "--restore-command",
            "CMD",
            help="exec: restores the power. Leave it out if the power comes back by "
            "itself.",
        ),
    ] = ()
    state: Annotated[
        Command,
        Meta(
            description="`exec`: a list, the program that prints `on` or `off` as its "
            "last word, and its arguments."
        ),
        Setting(
            "--state-command",
            "CMD",
            help="exec: prints the state of the switch, with on or off as its last "
            "word.",
        ),
    ] = ()
    state_on: Annotated[
        str,
        Meta(
            description="`exec`: a regular expression that is found in what the state "
            "program prints when the power is on. Only with `dbcheck_power_state_off`."
        ),
    ] = ""
    state_off: Annotated[
        str,
        Meta(
            description="`exec`: the same for the power being off. Exactly one of the "
            "two must be found."
        ),
    ] = ""
    off_s: Annotated[
        shared.OffSeconds,
        Setting("--off-seconds", "S", help="exec: seconds without power, at least."),
    ] = limits.OFF_S
    timeout_s: Annotated[
        shared.Seconds,
        Setting(
            "--power-timeout", "S", help="exec: seconds that each command may take."
        ),
    ] = limits.POWER_TIMEOUT_S
    declared: CutClass | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        config = shared.read_config(cls, fields)
        for name in (_STATE_ON, _STATE_OFF):
            if fault := config._find_pattern_fault(name):
                what, hint = fault
                raise fields.error(
                    f"{shared.POWER}_{name}",
                    what,
                    id=ErrorId.POWER_STATE_PATTERN_INVALID,
                    hint=hint,
                )
        return config

    def _find_pattern_fault(self, name: str) -> tuple[str, str] | None:
        """Return the error of a pattern, and its remedy; None if it is right."""
        pattern = getattr(self, name)
        if not pattern:
            if self.state_on or self.state_off:
                return "is missing", "Give both patterns, or neither."
            return None
        if not self.state:
            return (
                "is given without a state program",
                f"Give {shared.POWER}_state, whose output it is found in.",
            )
        try:
            re.compile(pattern)
        except re.error as error:
            return f"is not a regular expression: {error}", "Correct it."
        return None

    @property
    def cut_class(self) -> CutClass:
        """The declared class, else UNKNOWN."""
        return self.declared or CutClass.UNKNOWN

    @property
    def shows_state(self) -> bool:
        """True if a program prints the state."""
        return bool(self.state)

    @property
    def class_assumed(self) -> bool:
        """False: a class that is not declared is UNKNOWN."""
        return False

    @property
    def returns_by_itself(self) -> bool:
        """True if no program restores the power."""
        return not self.restore

    def restore_command(self, own_command: tuple[str, ...]) -> tuple[str, ...]:
        """Return *own_command*, else the restore program; () without one."""
        return (own_command or self.restore) if self.restore else ()

    def describe(self, host: str) -> str:
        """Return the programs of a cut and a restore, in words."""
        way_back = "with no restore command: the power must come back by itself"
        if self.restore:
            restore = format_command(self.restore)
            way_back = f"wait at least {self.off_s:g} s, then run `{restore}`"
        steps = f"run `{format_command(self.cut)}`, {way_back}"
        if self.state:
            steps += (
                f"; `{format_command(self.state)}` would report whether the power is on"
            )
        if self.state_on:
            steps += f" (/{self.state_on}/ is on, /{self.state_off}/ is off)"
        return steps

    def outlet(self) -> Hashable:
        """Return the program that cuts, with its arguments."""
        return self.kind, self.cut

    def open(self, host: TargetHost | None, ask: Callable[[str], None]) -> ExecSwitch:
        """Return the switch; its programs are run when it is used."""
        return ExecSwitch(self)


class ExecSwitch:
    """Runs the user's programs.

    Their arguments may hold no secret: they are shown in errors and by ps(1).
    """

    kind = ExecConfig.kind
    attended = False

    def __init__(self, config: ExecConfig) -> None:
        """Run nothing yet."""
        self._config = config
        self.cut_class = config.cut_class
        self._prepared = False
        self._timer = OffTimer(config.off_s)

    def state(self) -> PowerState:
        """Run the state program; UNKNOWN if there is none."""
        if not self._config.state:
            return PowerState.UNKNOWN
        printed = self._run("state", self._config.state)
        if self._config.state_on:
            return self._match_state(printed)
        last = printed.split()[-1].strip(".").lower() if printed.strip() else ""
        try:
            return PowerState(last)
        except ValueError:
            raise PowerError(
                f"the state command printed {last!r} as its last word",
                id=ErrorId.POWER_STATE_NOT_UNDERSTOOD,
                hint="It must print on or off; if it cannot, give "
                f"{shared.POWER}_{_STATE_ON} and {shared.POWER}_{_STATE_OFF}.",
            ) from None

    def _match_state(self, printed: str) -> PowerState:
        """Return the state whose pattern is found; raise PowerError unless one is."""
        patterns = {
            PowerState.ON: self._config.state_on,
            PowerState.OFF: self._config.state_off,
        }
        states = [
            state
            for state, pattern in patterns.items()
            if re.search(pattern, printed, re.MULTILINE)
        ]
        if len(states) == 1:
            return states[0]
        raise PowerError(
            f"the state command printed {printed[-TAIL_MAX:].strip()!r}, in which "
            f"{'both patterns are' if states else 'neither pattern is'} found",
            id=ErrorId.POWER_STATE_NOT_UNDERSTOOD,
            hint=f"Exactly one of {shared.POWER}_{_STATE_ON} and "
            f"{shared.POWER}_{_STATE_OFF} must be found in it; correct them.",
        )

    def prepare(self) -> None:
        """Make sure that the power is on; raise PowerError if it is off."""
        if self.state() is PowerState.OFF:
            raise PowerError(
                "the power is off already, yet the server answered",
                id=ErrorId.POWER_STATE_OF_OTHER_HOST,
                hint="The state command reports on a different host; correct it.",
            )
        self._prepared = True

    def cut(self) -> Cut:
        """Make sure that the power is on, run the cut program, see the power off."""
        if not self._prepared:
            self.prepare()
        self._prepared = False
        asked_us = now_us()
        output = self._run("cut", self._config.cut)
        self._wait_for_state(PowerState.OFF)
        report: dict[str, object] = {"output": output[-TAIL_MAX:]}
        if self._config.restore:
            self._timer.begin()
            report["off_s"] = self._timer.off_s
            report["off_seen"] = bool(self._config.state)
        return Cut(asked_us, None, report)

    def restore(self) -> float | None:
        """Run the restore program after the time off, see the power on.

        An interrupt ends the time off, but not the restore, and is raised after it.
        """
        if not self._config.restore:
            return None
        with interrupt.hold_interrupts_back():
            off_s = self._timer.wait(self.state)
            self._run("restore", self._config.restore)
            self._wait_for_state(PowerState.ON)
        return off_s

    def failure(self) -> str | None:
        """Return None: only the server's answers show whether it came back."""
        return None

    def _wait_for_state(self, wanted: PowerState) -> None:
        # A reset passes through "off" too quickly to be seen.
        if self._config.state and self._config.restore:
            wait_for(wanted, self.state, self._config.timeout_s)

    def _run(self, name: str, command: tuple[str, ...]) -> str:
        # The program may log in to the switch with a secret in one of these variables.
        keep = processes.list_switch_variables()
        timeout_s = self._config.timeout_s
        hidden = [os.environ[variable] for variable in keep if variable in os.environ]
        done = run_program(
            command, f"{name} command", timeout_s, hidden=hidden, keep=keep
        )
        if done.code:
            raise PowerError(
                f"the {name} command exited with {done.code}, "
                f"output: {done.output_tail}",
                id=ErrorId.POWER_COMMAND_FAILED,
                hint=f"Run it by hand; it must exit with 0: {format_command(command)}",
            )
        return done.output
