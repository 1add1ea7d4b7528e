"""The switch is a human at the plug."""

from __future__ import annotations

from collections.abc import Callable

from dbcheck.core.cut import Cut, PowerState
from dbcheck.core.cutclass import CutClass


class ManualSwitch:
    """Asks a human to cut and to restore; sees nothing of it.

    ask: shows a text to the human and returns at once.
    off_s: seconds without power that the human is asked for.
    cut_class: what the human says that is cut.
    """

    kind = "manual"
    attended = True

    def __init__(
        self,
        ask: Callable[[str], None],
        off_s: float = 15.0,
        cut_class: CutClass = CutClass.AC,
    ) -> None:
        self._ask = ask
        self._off_s = off_s
        self.cut_class = cut_class

    def state(self) -> PowerState:
        """Return UNKNOWN: nobody tells."""
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
        """Return None: only the server's answers can tell."""
        return None
