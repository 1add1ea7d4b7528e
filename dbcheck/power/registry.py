"""Every kind of power switch, their names in an inventory, and a read-only switch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.config.validated import one_of
from dbcheck.model.cut import Cut, PowerState, SwitchKind
from dbcheck.ports.power import PowerSwitch
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.config import Fields, SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.kinds.sysrq import SysrqConfig

_READ_ONLY = "this command neither cuts nor restores power"
_HINT_READ_ONLY = "Use dbcheck power cut, or dbcheck power restore."
CONFIGS: tuple[type[SwitchConfig], ...] = (
    ManualConfig,
    ExecConfig,
    FenceConfig,
    SysrqConfig,
    LabConfig,
)
KINDS: Mapping[SwitchKind, type[SwitchConfig]] = {
    config.kind: config for config in CONFIGS
}
UNATTENDED = ", ".join(config.kind.value for config in CONFIGS if not config.attended)
# The variables that are no field of a config -> the type of their values.
TYPES_OF_OTHERS: Mapping[str, Any] = {
    shared.POWER: Annotated[
        str,
        one_of([config.kind.value for config in CONFIGS]),
        Meta(description="The kind of switch, see [power.md](power.md)."),
    ],
    **shared.TYPES_OF_OTHERS,
}
VARIABLES = frozenset(
    (
        *TYPES_OF_OTHERS,
        *(name for config in CONFIGS for name in shared.list_variables(config)),
    )
)
SECRETS = {shared.PASSWORD: "the password of the agent (`fence`)"}


class ReadOnlySwitch:
    """A ports.power.PowerSwitch that reads the state of a switch, and only that."""

    attended = False

    def __init__(self, switch: PowerSwitch) -> None:
        self._switch = switch
        self.kind, self.cut_class = switch.kind, switch.cut_class

    def state(self) -> PowerState:
        return self._switch.state()

    def cut(self) -> Cut:
        raise PowerError(
            _READ_ONLY, id=ErrorId.SWITCH_ONLY_REPORTS, hint=_HINT_READ_ONLY
        )

    def restore(self) -> None:
        raise PowerError(
            _READ_ONLY, id=ErrorId.SWITCH_ONLY_REPORTS, hint=_HINT_READ_ONLY
        )

    def failure(self) -> str | None:
        return self._switch.failure()


def read_switch_config(fields: Fields) -> SwitchConfig:
    """Return the switch's config for a target; raise UsageError naming the key.

    A kind that is not in CONFIGS is refused as unknown.
    """
    name = fields.value(
        shared.POWER, TYPES_OF_OTHERS[shared.POWER], SwitchKind.MANUAL.value
    )
    shared.withhold_secrets(fields)
    return KINDS[SwitchKind(name)].read(fields)
