"""The switch is a human at the plug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

from dbcheck.base import limits
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.config import Fields


@dataclass(frozen=True, slots=True)
class ManualConfig:
    """A human cuts and restores; see config.SwitchConfig.

    off_s:    seconds without power that the human is asked for.
    declared: what the human cuts, None to take it for the AC supply.
    """

    kind: ClassVar[SwitchKind] = SwitchKind.MANUAL
    attended: ClassVar[bool] = True
    guarded: ClassVar[bool] = False
    needs_host: ClassVar[bool] = False
    shows_state: ClassVar[bool] = False
    timeout_s: ClassVar[float] = limits.POWER_TIMEOUT_S

    off_s: shared.OffSeconds = limits.OFF_S
    declared: CutClass | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return shared.read_config(cls, fields)

    @property
    def cut_class(self) -> CutClass:
        """The declared class, else AC."""
        return self.declared or CutClass.AC

    @property
    def class_assumed(self) -> bool:
        """True if it was not declared."""
        return self.declared is None

    @property
    def returns_by_itself(self) -> bool:
        """False: the human restores it."""
        return False

    def restore_command(self, own_command: tuple[str, ...]) -> tuple[str, ...]:
        """Return (): it is the human's to restore."""
        return ()

    def describe(self, host: str) -> str:
        """Return the human's task, in words."""
        return (
            "ask you to cut the power by hand and, after at least "
            f"{self.off_s:g} s, to restore it"
        )

    def outlet(self) -> None:
        """Return None: a human can cut any host."""

    def open(self, host: TargetHost | None, ask: Callable[[str], None]) -> ManualSwitch:
        """Return the switch that asks the human."""
        return ManualSwitch(self, ask)


class ManualSwitch:
    """Asks a human to cut and to restore; sees nothing of it."""

    kind = ManualConfig.kind
    attended = True

    def __init__(self, config: ManualConfig, ask: Callable[[str], None]) -> None:
        """Ask nothing yet; *ask* shows a text to the human and returns at once."""
        self._ask = ask
        self._off_s = config.off_s
        self.cut_class = config.cut_class

    def state(self) -> PowerState:
        """Return UNKNOWN: nothing measures it."""
        return PowerState.UNKNOWN

    def cut(self) -> Cut:
        """Ask for the cut and return at once."""
        self._ask("Cut the power of the target NOW: pull the plug, do not shut down.")
        return Cut(asked_us=None, exact_us=None, report={"off_s": self._off_s})

    def restore(self) -> None:
        """Ask for the power and return at once."""
        self._ask(
            f"The target is gone. Leave it without power for {self._off_s:g} s by the "
            "clock, then restore it: a drive's cache stays powered for seconds."
        )

    def failure(self) -> str | None:
        """Return None: only the server's answers show it."""
        return None
