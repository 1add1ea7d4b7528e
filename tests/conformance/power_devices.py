"""One device for each kind of power switch, and a look at it past the switch."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2
import pytest

from dbcheck.hosts.host import open_host
from dbcheck.lab.lab import Lab
from dbcheck.lab.switch import LabSwitch
from dbcheck.model.cut import PowerState, SwitchKind
from dbcheck.ports.power import PowerSwitch
from dbcheck.power.kinds import sysrq
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.kinds.sysrq import SysrqConfig, SysrqSwitch
from dbcheck.remote.address import SshOptions
from tests.kit import fence_lab
from tests.kit.lab_access import connect
from tests.kit.waiting import wait_until
from tests.kit.witnesses import running_sshd

OFF_S = 0.3


@dataclass
class Device:
    """A switch, and what it switches as a test sees it without the switch.

    power:  reads the device itself; None where nothing can be read.
    turn_off: switches it off past the switch; None where that cannot be.
    stuck:  makes a switch of it that cannot cut it, although it answers.
    broken: makes a switch that gets no sensible answer.
    measures: it measures for how long the power was off.
    asked:  what a human was asked for.
    """

    switch: PowerSwitch
    power: Callable[[], PowerState] | None = None
    turn_off: Callable[[], object] | None = None
    stuck: Callable[[], PowerSwitch] | None = None
    broken: Callable[[], PowerSwitch] | None = None
    measures: bool = False
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def by_hand(folder: Path, lab: Lab) -> Iterator[Device]:
    """Give a human, who is only asked."""
    asked: list[str] = []
    yield Device(ManualConfig(OFF_S).open(None, asked.append), asked=asked)


@contextlib.contextmanager
def by_programs(folder: Path, lab: Lab) -> Iterator[Device]:
    """Give a file that says whether the power is on; it goes a while after the cut."""
    plug, late = folder / "plug", folder / "late"
    plug.write_text("on")

    def switch(**changed: str) -> PowerSwitch:
        scripts = {
            "cut": f"touch {late}",
            "restore": f"echo on > {plug}",
            "state": f"cat {plug}; test -e {late} && rm {late} && echo off > {plug}; :",
        } | changed
        cut, restore, state = (
            ("sh", "-c", scripts[name]) for name in ("cut", "restore", "state")
        )
        plan = ExecConfig(cut, restore, state, off_s=OFF_S, timeout_s=2.0)
        return plan.open(None, print)

    yield Device(
        switch(),
        power=lambda: PowerState(plug.read_text().strip()),
        turn_off=lambda: plug.write_text("off"),
        stuck=lambda: switch(cut="true"),
        broken=lambda: switch(state="echo no such outlet; exit 3"),
        measures=True,
    )


@contextlib.contextmanager
def by_an_agent(folder: Path, lab: Lab) -> Iterator[Device]:
    """Give a fence agent that switches a lab."""
    agent = str(fence_lab.install(folder))

    def switch(fault: str = "", timeout_s: float = 60.0) -> PowerSwitch:
        options = {"plug": lab.name} | ({"fault": fault} if fault else {})
        plan = FenceConfig(agent, options, off_s=OFF_S, timeout_s=timeout_s)
        return plan.open(None, print)

    with powered(lab):
        yield Device(
            switch(),
            power=lambda: power_of(lab),
            turn_off=LabSwitch(lab.name).cut,
            stuck=lambda: switch("lies", 8.0),
            broken=lambda: switch("bad arguments"),
            measures=True,
        )


@contextlib.contextmanager
def by_kernel(folder: Path, lab: Lab) -> Iterator[Device]:
    """Give a host behind a real sshd, which ends once the stand-in trigger is written.

    No switch here may be made without that trigger: the machine's own would take this
    machine down.
    """
    trigger = folder / "trigger"
    trigger.touch()
    with (
        running_sshd(folder / "sshd", "openssh") as sshd,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(SysrqSwitch.__init__, "__kwdefaults__", {"trigger": str(trigger)})
        # The client is elsewhere.
        patch.setattr(sysrq, "read_boot_id", lambda: "another")
        host = open_host(
            f"ssh://{sshd.user}@{sshd.host}:{sshd.port}",
            options=SshOptions(
                identity_file=sshd.identity_file,
                known_hosts=sshd.known_hosts,
                config_file=Path(os.devnull),
            ),
        )
        over = threading.Event()

        def obey() -> None:
            wait_until(lambda: over.is_set() or trigger.read_text() == "b", "a reset")
            if not over.is_set():
                sshd.close()

        def stuck() -> PowerSwitch:
            over.set()
            kernel.join()
            return SysrqSwitch(SysrqConfig(1.0), host, trigger=str(trigger))

        def broken() -> PowerSwitch:
            sshd.close()
            return SysrqSwitch(SysrqConfig(1.0), host, trigger=str(trigger))

        kernel = threading.Thread(target=obey)
        kernel.start()
        try:
            yield Device(
                SysrqSwitch(SysrqConfig(10.0), host, trigger=str(trigger)),
                power=lambda: PowerState.OFF if trigger.read_text() else PowerState.ON,
                turn_off=sshd.close,
                stuck=stuck,
                broken=broken,
            )
        finally:
            over.set()
            kernel.join()
            host.close()


@contextlib.contextmanager
def by_a_lab(folder: Path, lab: Lab) -> Iterator[Device]:
    """Give a lab."""
    with powered(lab):
        yield Device(
            LabConfig(lab.name).open(None, print),
            power=lambda: power_of(lab),
            turn_off=LabSwitch(lab.name).cut,
            broken=lambda: LabConfig("nosuchlab").open(None, print),
        )


@contextlib.contextmanager
def powered(lab: Lab) -> Iterator[None]:
    """Leave the lab with its power on, for who comes next."""
    try:
        yield
    finally:
        if LabSwitch(lab.name).state() is PowerState.OFF:
            LabSwitch(lab.name).restore()


def power_of(lab: Lab) -> PowerState:
    """Return ON if the lab's server answers."""
    try:
        with closing(connect(lab.target_url, lab.password)):
            return PowerState.ON
    except psycopg2.Error:
        return PowerState.OFF


DEVICES: Mapping[SwitchKind, Callable[[Path, Lab], AbstractContextManager[Device]]] = {
    SwitchKind.MANUAL: by_hand,
    SwitchKind.EXEC: by_programs,
    SwitchKind.FENCE: by_an_agent,
    SwitchKind.SYSRQ: by_kernel,
    SwitchKind.LAB: by_a_lab,
}
