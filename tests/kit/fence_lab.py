"""A fence agent that drives a lab, in the way of fence-agents (FenceAgentAPI.md).

Options on standard input: action, plug (the lab's name), password (any), and fault:
what to do wrong instead.  The tests run it by a script that names this module.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from dbcheck.lab.switch import LabSwitch

METADATA = """<?xml version="1.0" ?>
<resource-agent name="fence_lab" shortdesc="Cuts the power of a lab">
<parameters>
  <parameter name="action" required="1"/>
  <parameter name="plug" required="1" obsoletes="port"/>
  <parameter name="port" required="1" deprecated="1"/>
  <parameter name="password" required="0"/>
  <parameter name="fault" required="0"/>
</parameters>
<actions><action name="on" automatic="0"/><action name="off"/><action name="reboot"/>
<action name="status"/><action name="monitor"/><action name="metadata"/></actions>
</resource-agent>"""


def install(folder: Path) -> Path:
    """Write the script that runs this module; return its path."""
    path = folder / "fence_lab"
    root = Path(__file__).parents[2]
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
        "from tests.kit.fence_lab import main\nsys.exit(main())\n"
    )
    path.chmod(0o755)
    return path


def main() -> int:
    """Do what the options say; return the exit code that an agent would give."""
    if sys.argv[1:] == ["-o", "metadata"]:
        sys.stdout.write(METADATA)
        return 0
    options = dict(line.strip().split("=", 1) for line in sys.stdin if "=" in line)
    if options.get("fault"):
        return fault(options)
    switch = LabSwitch(options["plug"])
    if options["action"] == "off":
        switch.cut()
        sys.stdout.write("Success: Powered OFF\n")
    elif options["action"] == "on":
        switch.restore()
        sys.stdout.write("Success: Powered ON\n")
    else:
        found = switch.state().value
        sys.stdout.write(f"Status: {found.upper()}\n")
        return 2 if found == "off" else 0
    return 0


def fault(options: dict[str, str]) -> int:
    """Fail as agents do."""
    kind, _, place = options["fault"].partition(":")
    if kind == "bad arguments":  # EC_BAD_ARGS is the code of "off"
        sys.stderr.write("Failed: You have to enter plug number or machine name\n")
        return 2
    if kind == "tells":
        sys.stderr.write(f"cannot log in with {options['password']}\n")
        return 1
    if kind == "hangs":
        Path(place).write_text(str(os.getpid()))
        time.sleep(1000)
    if kind == "notes":
        arguments = Path("/proc/self/cmdline").read_text() + str(dict(os.environ))
        Path(place).write_text(f"{options['password']}\n{arguments}")
    sys.stdout.write("Success: Powered OFF\nStatus: ON\n")  # and it is on
    return 0
