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
from dbcheck.power.kinds.exec import ExecPlan
from dbcheck.power.kinds.fence import FencePlan
from dbcheck.power.kinds.lab import LabPlan
from dbcheck.power.kinds.manual import ManualPlan
from dbcheck.power.kinds.plan import Fields, PowerPlan
from dbcheck.power.kinds.sysrq import SysrqPlan

_READ_ONLY = "this command neither cuts nor restores power"
PLANS: tuple[type[PowerPlan], ...] = (
    ManualPlan,
    ExecPlan,
    FencePlan,
    SysrqPlan,
    LabPlan,
)
KINDS: Mapping[SwitchKind, type[PowerPlan]] = {plan.kind: plan for plan in PLANS}
UNATTENDED = ", ".join(plan.kind.value for plan in PLANS if not plan.attended)
OTHERS: Mapping[str, Any] = {  # variables without a field: what each may be
    shared.POWER: Annotated[
        str,
        one_of([plan.kind.value for plan in PLANS]),
        Meta(description="The kind of switch, see [power.md](power.md)."),
    ],
    **shared.OTHERS,
}
VARIABLES = frozenset(
    (*OTHERS, *(name for plan in PLANS for name in shared.list_variables(plan)))
)
SECRETS = {shared.PASSWORD: "the password of the agent (`fence`)"}


class ReadOnlySwitch:
    """See ports.power.PowerSwitch."""

    attended = False

    def __init__(self, switch: PowerSwitch) -> None:
        self._switch = switch
        self.kind, self.cut_class = switch.kind, switch.cut_class

    def state(self) -> PowerState:
        return self._switch.state()

    def cut(self) -> Cut:
        raise PowerError(_READ_ONLY, id=ErrorId.SWITCH_ONLY_REPORTS)

    def restore(self) -> None:
        raise PowerError(_READ_ONLY, id=ErrorId.SWITCH_ONLY_REPORTS)

    def failure(self) -> str | None:
        return self._switch.failure()


def read_power_plan(fields: Fields) -> PowerPlan:
    """Return the switch's plan for a target; raise UsageError naming the key.

    A kind that is not in PLANS is refused as unknown.
    """
    name = fields.value(shared.POWER, OTHERS[shared.POWER], SwitchKind.MANUAL.value)
    shared.withhold_secrets(fields)
    return KINDS[SwitchKind(name)].read(fields)
