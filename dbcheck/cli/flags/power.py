"""The flags that choose who cuts the power, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.text import join_words
from dbcheck.cli.flags.groups import Flag, FlagsOf
from dbcheck.cli.flags.shared import complete_names
from dbcheck.cli.flags.target import EntryOptions
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import DECLARABLE, CutClass, SwitchKind
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig

_EXEC, _MANUAL, _LAB = SwitchKind.EXEC, SwitchKind.MANUAL, SwitchKind.LAB
_ONLY_IN_INVENTORY = [
    kind.value for kind in SwitchKind if kind not in (_MANUAL, _EXEC, _LAB)
]


def _list_kinds_typed_alone() -> tuple[str, ...]:
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
            f"{join_words(_ONLY_IN_INVENTORY, 'and')} need an inventory.",
            shell_complete=complete_names(_list_kinds_typed_alone, or_file=False),
        ),
    ] = _MANUAL.value
    of_exec: Annotated[Mapping[str, Any], FlagsOf(ExecConfig)] = field(
        default_factory=dict
    )
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
        return replace(entry, power=self.config()) if self.given else entry

    def config(self) -> SwitchConfig:
        """Return the switch that the flags describe; raise UsageError if invalid."""
        declared = CutClass(self.power_class) if self.power_class else None
        if self.power == _EXEC.value:
            return self._exec(declared)
        for name in self.of_exec:
            raise UsageError(
                f"{self.flags()[name].name} needs --power exec",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Give both, or neither.",
            )
        if self.power == _MANUAL.value:
            return ManualConfig(declared=declared)
        kind, _, lab = self.power.partition(":")
        if kind == _LAB.value and lab:
            if declared:
                raise UsageError(
                    "--power-class is for --power exec or manual",
                    id=ErrorId.OPTIONS_CONFLICT,
                    hint="A lab's drive is cut as the lab does it: leave it out.",
                )
            return LabConfig(lab)
        raise UsageError(
            f"--power {self.power} is not known",
            id=ErrorId.SWITCH_KIND_UNKNOWN,
            hint="Known are manual, exec and lab:NAME; an inventory (dbcheck init) can "
            f"also name {', '.join(_ONLY_IN_INVENTORY)}.",
        )

    def _exec(self, declared: CutClass | None) -> ExecConfig:
        if not self.of_exec.get("cut"):
            raise UsageError(
                "--power exec needs a command that cuts",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Give --cut-command.",
            )
        return ExecConfig(**self.of_exec, declared=declared)
