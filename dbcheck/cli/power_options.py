"""The flags that choose who cuts the power, and how."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Annotated

import click

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.entry_options import EntryOptions
from dbcheck.cli.groups import Flag, Number
from dbcheck.cli.options import SECONDS, completed
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import DECLARABLE, CutClass, SwitchKind
from dbcheck.power.kinds.exec import ExecPlan
from dbcheck.power.kinds.lab import LabPlan
from dbcheck.power.kinds.manual import ManualPlan
from dbcheck.power.kinds.plan import PowerPlan

_EXEC, _MANUAL, _LAB = SwitchKind.EXEC, SwitchKind.MANUAL, SwitchKind.LAB
_ONLY_IN_INVENTORY = [
    kind.value for kind in SwitchKind if kind not in (_MANUAL, _EXEC, _LAB)
]
_OF_EXEC = frozenset(
    {
        *("cut_command", "restore_command", "state_command"),
        *("off_seconds", "power_timeout"),
    }
)


def _typed_alone() -> tuple[str, ...]:
    """Return the kinds that --power takes without a name behind them."""
    return _MANUAL.value, _EXEC.value


@dataclass(frozen=True)
class PowerOptions(EntryOptions):
    """Who cuts, and the commands of an exec switch."""

    section = "Power"

    power: Annotated[
        str,
        Flag(
            "--power",
            show_default=True,
            metavar="KIND",
            help="Who cuts: manual (you are asked), exec (the commands below), or "
            "lab:NAME (a lab that runs on this machine). "
            f"{' and '.join(_ONLY_IN_INVENTORY)} need an inventory.",
            shell_complete=completed(_typed_alone, or_file=False),
        ),
    ] = _MANUAL.value
    cut_command: Annotated[
        str,
        Flag(
            "--cut-command",
            metavar="CMD",
            help="exec: cuts the power. It is started without a shell.",
        ),
    ] = ""
    restore_command: Annotated[
        str,
        Flag(
            "--restore-command",
            metavar="CMD",
            help="exec: restores the power. Leave it out if the "
            "power comes back by itself.",
        ),
    ] = ""
    state_command: Annotated[
        str,
        Flag(
            "--state-command",
            metavar="CMD",
            help="exec: prints the state of the switch, with on or off as its last "
            "word.",
        ),
    ] = ""
    off_seconds: Annotated[
        float,
        Flag(
            "--off-seconds",
            type=Number(limits.OFF_S_MIN, limits.OFF_S_MAX),
            show_default=True,
            metavar="S",
            help="exec: seconds without power, at least.",
        ),
    ] = limits.OFF_S
    power_timeout: Annotated[
        float,
        Flag(
            "--power-timeout",
            type=SECONDS,
            show_default=True,
            metavar="S",
            help="exec: seconds that each command may take.",
        ),
    ] = limits.POWER_TIMEOUT_S
    power_class: Annotated[
        str | None,
        Flag(
            "--power-class",
            type=click.Choice(DECLARABLE, case_sensitive=False),
            help="exec, manual: what the cut takes the power from; it limits what a "
            "PASS claims. Default: AC for manual, unknown for exec.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this switch, if a flag is given."""
        return replace(entry, power=self.plan()) if self.given else entry

    def plan(self) -> PowerPlan:
        """Return the switch that the flags describe; raise UsageError if invalid."""
        declared = CutClass(self.power_class) if self.power_class else None
        if self.power == _EXEC.value:
            return self._exec(declared)
        for own, flag in self.flags().items():
            if own in self.given & _OF_EXEC:
                raise UsageError(
                    f"{flag.name} needs --power exec",
                    id=ErrorId.OPTION_NEEDS_ANOTHER,
                    hint="Give both, or neither.",
                )
        if self.power == _MANUAL.value:
            return ManualPlan(declared=declared)
        kind, _, lab = self.power.partition(":")
        if kind == _LAB.value and lab:
            if declared:
                raise UsageError(
                    "--power-class is for --power exec or manual",
                    id=ErrorId.OPTIONS_CONFLICT,
                    hint="A lab's drive is cut as the lab does it: leave it out.",
                )
            return LabPlan(lab)
        raise UsageError(
            f"--power {self.power} is not known",
            id=ErrorId.SWITCH_KIND_UNKNOWN,
            hint="Known are manual, exec and lab:NAME; an inventory (dbcheck init) can "
            f"also name {', '.join(_ONLY_IN_INVENTORY)}.",
        )

    def _exec(self, declared: CutClass | None) -> ExecPlan:
        if not self.cut_command:
            raise UsageError(
                "--power exec needs a command that cuts",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Give --cut-command.",
            )
        return ExecPlan(
            state=_split("--state-command", self.state_command),
            cut=_split("--cut-command", self.cut_command),
            restore=_split("--restore-command", self.restore_command),
            off_s=self.off_seconds,
            timeout_s=self.power_timeout,
            declared=declared,
        )


def _split(flag: str, command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(
            f"{flag} cannot be split into a program and its arguments: {error}",
            id=ErrorId.COMMAND_NOT_SPLITTABLE,
        ) from None
