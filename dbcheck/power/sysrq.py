"""The switch is the target's own kernel: a reset at once, with the power on."""

from __future__ import annotations

import time

from dbcheck.core.cut import Cut, PowerState
from dbcheck.core.cutclass import CutClass
from dbcheck.errors import HostError, PowerError
from dbcheck.power.target import Armed, Identity, Target
from dbcheck.remote.addresses import boot_id

TRIGGER = "/proc/sysrq-trigger"
_POLL_S = 0.2


class SysrqSwitch:
    """Has the target's kernel reboot at once: no sync, no unmount, no power cut.

    What the page cache held is lost, what the drive's cache held is not: OS depth
    at most, and the report of each cut says so.
    """

    kind = "sysrq"
    attended = False
    cut_class = CutClass.RESET

    def __init__(
        self, target: Target, timeout_s: float = 60.0, *, trigger: str = TRIGGER
    ) -> None:
        """Reach nothing yet; trigger: the file on the target that takes the word."""
        self._target = target
        self._timeout_s = timeout_s
        self._trigger = trigger
        self._armed: Armed | None = None

    def state(self) -> PowerState:
        """Return ON if the host answers; UNKNOWN if not, for many reasons have that."""
        try:
            self._target.identity()
        except HostError:
            return PowerState.UNKNOWN
        return PowerState.ON

    def prepare(self) -> None:
        """Log in, look which host it is, and have it hold the trigger open.

        A host under load takes seconds for a login: what is left to do at the cut is
        to send one message.  Raise PowerError if the host cannot be reset.
        """
        self._let_go()
        try:
            self._armed = self._target.arm(self._trigger)
        except HostError as error:
            raise PowerError(f"no reset: {error}", hint=error.hint) from None
        try:
            self._require_other(self._armed.identity)
        except PowerError:
            self._let_go()
            raise

    def cut(self) -> Cut:
        """Reset the host; return once it is silent, or has another boot id."""
        if self._armed is None or not self._armed.is_alive():
            self.prepare()
        assert self._armed is not None
        before = self._armed.identity
        asked_us = time.monotonic_ns() // 1000
        try:
            self._armed.reset()
        except HostError as error:
            raise PowerError(f"no reset: {error}", hint=error.hint) from None
        finally:
            self._let_go()
        self._wait_until_gone(before)
        return Cut(asked_us, None, {"boot_id": before.boot_id})

    def restore(self) -> None:
        """Return at once: the power was never gone, and the host boots by itself."""
        self._let_go()

    def failure(self) -> str | None:
        """Return None: only the server's answers can tell."""
        return None

    def _let_go(self) -> None:
        if self._armed is not None:
            self._armed.close()
            self._armed = None

    def _require_other(self, host: Identity) -> None:
        if not host.boot_id:
            raise PowerError(f"{self._target.place} does not report its boot id")
        if host.boot_id == boot_id():
            raise PowerError(
                f"{self._target.place} is the machine that dbcheck runs on",
                hint="Run dbcheck on another machine than the one that it resets.",
            )

    def _wait_until_gone(self, before: Identity) -> None:
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            try:
                if self._target.identity().boot_id != before.boot_id:
                    return
            except HostError:
                return
            time.sleep(_POLL_S)
        raise PowerError(
            f"{self._target.place} is still up {self._timeout_s:g} s after its reset",
            hint="See its kernel's log: is sysrq compiled in (CONFIG_MAGIC_SYSRQ)?",
        )
