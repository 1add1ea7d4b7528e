"""The switch is the target's own kernel: a reset at once, with the power on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError, UsageError
from dbcheck.base.system import now_us
from dbcheck.hosts.host import ArmedReset, TargetHost
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.model.host import Identity
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.config import Fields
from dbcheck.power.kinds.shared import require_declared_class
from dbcheck.remote.same_host import read_boot_id

TRIGGER = "/proc/sysrq-trigger"
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class SysrqConfig:
    """The target's own kernel resets the host, over SSH; see config.SwitchConfig.

    timeout_s: within which the host must have gone.
    """

    kind: ClassVar[SwitchKind] = SwitchKind.SYSRQ
    attended: ClassVar[bool] = False
    guarded: ClassVar[bool] = True
    needs_host: ClassVar[bool] = True
    shows_state: ClassVar[bool] = False

    timeout_s: shared.Seconds = limits.POWER_TIMEOUT_S
    declared: CutClass | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return shared.read_config(cls, fields)

    @property
    def cut_class(self) -> CutClass:
        """RESET."""
        return require_declared_class("sysrq", CutClass.RESET, self.declared)

    @property
    def class_assumed(self) -> bool:
        """False: it is known."""
        return False

    @property
    def returns_by_itself(self) -> bool:
        """True: the power never goes, and the host boots by itself."""
        return True

    def restore_command(self, own_command: tuple[str, ...]) -> tuple[str, ...]:
        """Return (): there is nothing to restore."""
        return ()

    def describe(self, host: str) -> str:
        """Return the reset on the host, in words."""
        return (
            f"write b to {TRIGGER} on {host}: its kernel resets the host at once, "
            "without a sync, and it boots by itself"
        )

    def outlet(self) -> None:
        """Return None: a kernel resets no other host than its own."""

    def open(self, host: TargetHost | None, ask: Callable[[str], None]) -> SysrqSwitch:
        """Return the switch; nothing is reached yet."""
        if host is None or host.is_local:
            raise UsageError(
                "sysrq needs SSH to a host other than this one",
                id=ErrorId.HOST_IS_THIS_MACHINE,
                hint="Set ansible_host, and do not set dbcheck_ask_host to false.",
            )
        return SysrqSwitch(self, host)


class SysrqSwitch:
    """Has the target's kernel reboot at once: no sync, no unmount, no power cut.

    What the page cache held is lost, what the drive's cache held is not: OS depth
    at most, and the report of each cut says so.
    """

    kind = SysrqConfig.kind
    attended = False

    def __init__(
        self, config: SysrqConfig, host: TargetHost, *, trigger: str = TRIGGER
    ) -> None:
        """Reach nothing yet; trigger: the file on the host that takes the letter."""
        self.cut_class = config.cut_class
        self._host = host
        self._timeout_s = config.timeout_s
        self._trigger = trigger
        self._armed: ArmedReset | None = None

    def state(self) -> PowerState:
        """Return ON if the host answers; UNKNOWN if not, which has many reasons."""
        try:
            self._host.identity()
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
            self._armed = self._host.arm_reset(self._trigger)
        except HostError as error:
            raise PowerError(
                f"cannot reset the host: {error}", id=error.id, hint=error.hint
            ) from None
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
        asked_us = now_us()
        try:
            self._armed.reset()
        except HostError as error:
            raise PowerError(
                f"cannot reset the host: {error}", id=error.id, hint=error.hint
            ) from None
        finally:
            self._let_go()
        self._wait_until_gone(before)
        return Cut(asked_us, None, {"boot_id": before.boot_id})

    def restore(self) -> None:
        """Return at once: the power was never gone, and the host boots by itself."""
        self._let_go()

    def failure(self) -> str | None:
        """Return None: only the server's answers show it."""
        return None

    def _let_go(self) -> None:
        if self._armed is not None:
            self._armed.close()
            self._armed = None
            self._host.close()

    def _require_other(self, host: Identity) -> None:
        if not host.boot_id:
            raise PowerError(
                f"{self._host.place} does not report its boot id",
                id=ErrorId.BOOT_ID_MISSING,
                hint="Mount /proc there, or use another switch if it is not Linux.",
            )
        if host.boot_id == read_boot_id():
            raise PowerError(
                f"{self._host.place} is the machine that dbcheck runs on",
                id=ErrorId.HOST_IS_THIS_MACHINE,
                hint="Run dbcheck on a machine other than the one it resets.",
            )

    def _wait_until_gone(self, before: Identity) -> None:
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            try:
                if self._host.identity().boot_id != before.boot_id:
                    return
            except HostError:
                return
            time.sleep(_POLL_S)
        raise PowerError(
            f"{self._host.place} is still up {self._timeout_s:g} s after the sysrq "
            "reset",
            id=ErrorId.HOST_DID_NOT_RESET,
            hint="Check its kernel log, and that it has sysrq (CONFIG_MAGIC_SYSRQ).",
        )
