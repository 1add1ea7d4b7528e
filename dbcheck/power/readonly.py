"""A switch that is only read: nothing is cut or restored by it."""

from __future__ import annotations

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.model.cut import Cut, PowerState
from dbcheck.ports.power import PowerSwitch

_READ_ONLY = "this command neither cuts nor restores power"


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
