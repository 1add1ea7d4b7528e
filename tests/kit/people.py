"""A person at a terminal who pulls the plug of a lab when asked to."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbcheck.cli.lab import describe_as_host
from dbcheck.lab.lab import Lab
from tests.kit.terminal import Terminal
from tests.kit.users import QUICK

# The lab plays another host, and its power is off for a second.
_PROGRAM = (
    "from dbcheck.cycle.preflight import before_load;"
    "from dbcheck.runner import checks;"
    "from dbcheck.cli import main;"
    "before_load.require_independent = lambda *_: 'the test says so';"
    "checks.require_independent = lambda *_: 'the test says so';"
    "main()"
)
CTRL_C, ENTER = "\x03", "\n"


def write_inventory(folder: Path, host: Mapping[str, Any]) -> None:
    """Write an inventory with two hosts that a person cuts."""
    (folder / "quick.toml").write_text(QUICK.format(0.6, 1.0))
    by_hand = {
        "dbcheck_power": "manual",
        "dbcheck_power_off_s": 1,
        "dbcheck_workload": str(folder / "quick.toml"),
    }
    hosts = {name: {**host, **by_hand} for name in ("db1", "db2")}
    other = {"dbcheck_target": "postgresql://db2/x", "dbcheck_witness": "ssh://w2/l"}
    hosts["db2"] |= other
    (folder / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))


def command_of(folder: Path, verb: str, *words: str) -> tuple[str, ...]:
    inventory = ("--inventory", str(folder / "inventory.yml"))
    return (sys.executable, "-c", _PROGRAM, verb, *words, *inventory)


class Person:
    """Somebody with a lab as their server, who pulls its plug when asked to.

    here: the working folder of what they start.
    """

    def __init__(self, lab: Lab, folder: Path, here: Path) -> None:
        self.lab, self.folder, self._here = lab, folder, here
        host = describe_as_host(lab)
        for name in ("dbcheck_power_lab", "dbcheck_power_scope"):
            del host[name]
        write_inventory(folder, host)

    def sit_down(self, verb: str, *words: str) -> Terminal:
        """Start a command at a terminal."""
        command = command_of(self.folder, verb, *words)
        return Terminal(*command, environment=os.environ, folder=self._here)

    def go_to_plug(self, at: Terminal) -> None:
        """Have the load begin; wait until asked for the cut."""
        at.until("Enter")
        at.type(ENTER)
        at.until("NOW")

    def pull_plug(self, at: Terminal) -> None:
        """Go there, cut the power when asked, and restore it when asked."""
        self.go_to_plug(at)
        self.lab.freeze_server()  # to its clients, what a power cut is: silence
        at.until("then restore it")
        switch = self.lab.switch()
        switch.cut()
        switch.restore()
