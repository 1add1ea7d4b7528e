"""Cuts and restores an idle host once, to test its switch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import Cut, PowerState
from dbcheck.ports.power import PowerSwitch, Preparing

_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The observations of a self-test; durations in seconds.

    cut_s:     from the request until the switch reported off.
    off_s:     from that report until the switch reported on.
    back_s:    from that report until the host answered; None if it was not asked.
    rebooted:  whether the host has another boot id; None if it was not asked.
    states:    what the switch reported before the cut, after it, and after the restore.
    """

    cut: Cut
    cut_s: float
    off_s: float
    back_s: float | None
    rebooted: bool | None
    states: tuple[str, str, str]


def run_self_test(
    switch: PowerSwitch,
    host: TargetHost | None,
    wait_s: float,
    note_cut: Callable[[], None] = lambda: None,
) -> SelfTest:
    """Cut, restore, and wait up to *wait_s* for the host; raise PowerError.

    note_cut: called once the switch is ready, just before it is told to cut.
    Whatever fails after the cut was requested, the power is restored first.  Before
    that it is left as it is: an outlet that is off already is that of another host.
    """
    before = host.identity() if host else None
    first = switch.state()
    if isinstance(switch, Preparing):
        switch.prepare()
    note_cut()
    began_s = time.monotonic()
    with interrupt.hold_interrupts_back():
        try:
            with interrupt.let_interrupts_through():
                cut = switch.cut()
                cut_at_s = time.monotonic()
                between = switch.state()
        except BaseException as cause:
            try:
                switch.restore()
            except PowerError as error:
                why = str(cause) or "interrupted"
                text = f"{why}; the power may still be off: {error}"
                raise PowerError(text, id=error.id, hint=error.hint) from cause
            raise
        switch.restore()
    on_at_s = time.monotonic()
    last = switch.state()
    back_s, rebooted = None, None
    if host and before:
        rebooted = _await_host(host, wait_s) != before.boot_id
        back_s = time.monotonic() - on_at_s
        if last is PowerState.UNKNOWN:
            last = switch.state()
    states = (first.value, between.value, last.value)
    return SelfTest(
        cut, cut_at_s - began_s, on_at_s - cut_at_s, back_s, rebooted, states
    )


def _await_host(host: TargetHost, wait_s: float) -> str:
    """Return the boot id once the host answers."""
    ends_s = time.monotonic() + wait_s
    while True:
        try:
            return host.identity().boot_id
        except HostError as error:
            if time.monotonic() > ends_s:
                raise PowerError(
                    f"{host.place} does not answer {wait_s:g} s after its power "
                    f"was restored: {error}",
                    id=ErrorId.HOST_NOT_BACK,
                    hint="Check its console, and that its BIOS powers on after a power "
                    "loss.",
                ) from None
            time.sleep(_POLL_S)
