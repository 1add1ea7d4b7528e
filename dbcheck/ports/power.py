"""Protocol of a power switch; each docstring is the contract."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dbcheck.model.cut import Cut, CutClass, DriveCut, PowerState, SwitchKind


class PowerSwitch(Protocol):
    """Cuts and restores the power of one target.  Calls block."""

    kind: SwitchKind
    attended: bool  # a human pulls the plug: wait as long as it takes
    cut_class: CutClass  # what its cuts take the power from, if known or declared

    def state(self) -> PowerState:
        """Read the state from the device, never from memory."""

    def cut(self) -> Cut:
        """Drop power with no warning to the operating system.

        Return once state() is OFF or, if attended, once the human was asked;
        raise PowerError if the power did not go.
        """

    def restore(self) -> float | None:
        """Apply power.  Return once state() is ON; the system may still be booting.

        Return for how many seconds it was off before, None if the switch has not
        measured that.
        """

    def failure(self) -> str | None:
        """Return the reason why the target will certainly not come back, or None.

        Raise PowerError if that is the switch's own fault: the target is not to blame.
        """


@runtime_checkable
class Preparing(Protocol):
    """A power switch with work to do before it can cut at once."""

    def prepare(self) -> None:
        """Connect, and check whether a cut can be made; raise PowerError if not.

        cut() does so itself where it was not done.
        """


@runtime_checkable
class DriveScoped(Protocol):
    """A power switch of drives alone, whose host keeps running.

    restore() takes the server off the drives first, and puts it back on them.
    """

    def require_fit(self) -> None:
        """Raise PowerError if the host could not be put back on such drives."""

    def seen(self) -> DriveCut | None:
        """Return the host's evidence of the last cut, None before restore()."""
