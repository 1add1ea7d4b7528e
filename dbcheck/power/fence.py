"""The switch is a power agent of the fence-agents package."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dbcheck import children, interrupt
from dbcheck.core.cut import Cut, PowerState
from dbcheck.core.cutclass import CutClass
from dbcheck.errors import PowerError, UsageError
from dbcheck.power import fence_metadata
from dbcheck.power.classes import of_agent
from dbcheck.power.command import SAID_MAX, Finished, run
from dbcheck.power.hold import Hold, wait_for
from dbcheck.secret import Secret

_METADATA_TIMEOUT_S = 30.0
_STATUS = re.compile(r"^Status: (ON|OFF)$", re.MULTILINE)
_OFF_CODE = 2
_SYSTEM = ("/usr/sbin", "/sbin", "/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class FenceDevice:
    """An agent and how to reach its device.

    agent:     e.g. "fence_apc_snmp", or a path.
    options:   name -> value, as in the agent's manual page; no secret.
    secrets:   name -> where the value is to be had.
    off_s:     seconds between power off and on, at least.
    timeout_s: for one call of the agent, which may take several seconds.
    cut_class: what its user declares that it cuts, None to go by the agent's name.
    """

    agent: str
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    off_s: float = 15.0
    timeout_s: float = 60.0
    cut_class: CutClass | None = None


class FenceSwitch:
    """Tells an agent off and on, with everything on its standard input.

    Never reboot: that may be reported as done before the power is off, and as done
    though the power does not come back (FenceAgentAPI.md of fence-agents).
    """

    kind = "fence"
    attended = False

    def __init__(self, device: FenceDevice) -> None:
        """Find the agent, check the options, read the secrets.

        Raise UsageError, or PowerError.  The secrets are read once: whatever happens
        to where they are, the power can be given back.
        """
        self._device = device
        self._name = Path(device.agent).name
        self.cut_class = of_agent(device.agent, device.cut_class)
        fence_metadata.require_name(self._name)
        path = os.pathsep.join((*_SYSTEM, children.search_path()))
        program = shutil.which(device.agent, path=path)
        if program is None:
            raise UsageError(
                f"{device.agent} is not installed here",
                hint="Install the package fence-agents.",
            )
        self._program = program
        for name, value in device.options.items():
            if not value.isprintable():
                raise UsageError(f"{self._name}: the option {name} is not printable")
        said = run((program, "-o", "metadata"), self._name, _METADATA_TIMEOUT_S)
        metadata = fence_metadata.parse(self._name, said.output)
        metadata.require_power(self._name)
        given = device.options.keys() | device.secrets.keys()
        metadata.require_options(self._name, given)
        self._prepared = False
        self._hold = Hold(device.off_s)
        secrets = {name: one.read() for name, one in device.secrets.items()}
        # A function, so that no repr() of this object's parts shows them.
        self._reveal: Callable[[], Mapping[str, str]] = lambda: secrets

    def state(self) -> PowerState:
        """Ask the device; raise PowerError if it does not say.

        Its words and its exit code must agree: 2 is off, but also a wrong option
        (EC_BAD_ARGS in fencing.py of fence-agents).
        """
        done = self._ask("status")
        found = _STATUS.search(done.output)
        if found and (found[1], done.code) in (("ON", 0), ("OFF", _OFF_CODE)):
            return PowerState(found[1].lower())
        raise self._failed("status", done, "Run it by hand with the action status.")

    def prepare(self) -> None:
        """Make sure that the power is on; raise PowerError if it is off."""
        if self.state() is not PowerState.ON:
            raise PowerError(
                "the power is off already, yet the server answered",
                hint="The agent switches another outlet than the target's.",
            )
        self._prepared = True

    def cut(self) -> Cut:
        """Make sure that the power is on, say off, see the power off.

        An agent that is told off while the power is off says that it did it.
        """
        if not self._prepared:
            self.prepare()
        self._prepared = False
        asked_us = time.monotonic_ns() // 1000
        said = self._switch("off", PowerState.OFF)
        self._hold.begin()
        report = {"agent": self._name, "output": said}
        held = {"off_s": self._hold.off_s, "off_seen": True}
        return Cut(asked_us, None, {**report, **held})

    def restore(self) -> float | None:
        """Say on after the hold, see the power on.

        An interrupt ends the hold, never the restore, and comes once that is done.
        """
        with interrupt.held_back():
            off_s = self._hold.wait(self.state)
            self._switch("on", PowerState.ON)
        return off_s

    def failure(self) -> str | None:
        """Return None: only the server's answers can tell."""
        return None

    def _switch(self, action: str, wanted: PowerState) -> str:
        done = self._ask(action)
        if done.code:
            hint = "Look at the device: its power may be off or on."
            raise self._failed(action, done, hint)
        wait_for(wanted, self.state, self._device.timeout_s)
        return done.output[-SAID_MAX:]

    def _ask(self, action: str) -> Finished:
        secrets = self._reveal()
        options = {**self._device.options, **secrets, "action": action}
        return run(
            (self._program,),
            f"{self._name} {action}",
            self._device.timeout_s,
            text="".join(f"{name}={value}\n" for name, value in options.items()),
            hidden=secrets.values(),
        )

    def _failed(self, action: str, done: Finished, hint: str) -> PowerError:
        return PowerError(
            f"{self._name} {action} exited with {done.code}, saying: {done.said}",
            hint=hint,
        )
