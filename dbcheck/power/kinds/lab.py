"""The switch of a lab that runs on this machine, as a kind that an inventory names."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from dbcheck.base import limits
from dbcheck.config.validated import Text
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.ports.power import PowerSwitch
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.config import Fields
from dbcheck.power.kinds.shared import require_declared_class

_LAB = f"{shared.POWER}_lab"
_CUT_CLASS = CutClass.LAB_DRIVE


@dataclass(frozen=True, slots=True)
class LabConfig:
    """The lab *name* cuts its own virtual drive; see config.SwitchConfig."""

    kind: ClassVar[SwitchKind] = SwitchKind.LAB
    attended: ClassVar[bool] = False
    guarded: ClassVar[bool] = False
    needs_host: ClassVar[bool] = False
    shows_state: ClassVar[bool] = True
    timeout_s: ClassVar[float] = limits.POWER_TIMEOUT_S

    name: Annotated[Text, Meta(description="`lab`: the name of the lab.")]
    declared: CutClass | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return shared.read_config(cls, fields)

    @property
    def cut_class(self) -> CutClass:
        """The class of a lab's cuts."""
        return require_declared_class("a lab", _CUT_CLASS, self.declared)

    @property
    def class_assumed(self) -> bool:
        """False: it is known."""
        return False

    @property
    def returns_by_itself(self) -> bool:
        """False: the lab restores its drive when it is asked to."""
        return False

    def restore_command(self, own_command: tuple[str, ...]) -> tuple[str, ...]:
        """Return (): what a lab left without power is ended with it."""
        return ()

    def describe(self, host: str) -> str:
        """Return the lab's cut, in words."""
        return f"have the lab {self.name} cut its virtual drive, and restore it"

    def outlet(self) -> Hashable:
        """Return the lab's name."""
        return self.kind, self.name

    def open(self, host: TargetHost | None, ask: Callable[[str], None]) -> PowerSwitch:
        """Return the lab's switch; it is reached when it is used."""
        # Not above: whoever reads an inventory would import much of the lab.
        from dbcheck.lab.switch import LabSwitch

        switch = LabSwitch(self.name)
        switch.cut_class = self.cut_class  # raises if another one is declared
        return switch
