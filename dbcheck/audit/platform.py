"""Rules for what a host is: which cut reaches what, and what a PASS means there."""

from __future__ import annotations

from dbcheck.audit.rule import Rule, SubjectKind
from dbcheck.core.audited import Severity

VIRTUAL_MACHINE = "virtual machine"
CONTAINER = "container"
CLOUD = "cloud"
DESKTOP = "desktop virtualisation"
NONE = "none"

RULES = (
    Rule(
        id="host-virtual-machine",
        fact=VIRTUAL_MACHINE,
        safe=frozenset({NONE}),
        why="A cut of this virtual machine leaves the hypervisor's page cache and the"
        " drives with power: a PASS then says nothing about either.",
        fix="cut the power of the machine that runs the hypervisor",
        source="QEMU documentation, disk cache modes; docs/power.md",
        severity=Severity.NOTE,
        subject=SubjectKind.HOST,
        absent_is_safe=True,
    ),
    Rule(
        id="host-container",
        fact=CONTAINER,
        safe=frozenset({NONE}),
        why="Killing this container ends the server's process alone: the page cache and"
        " the drives stay as they were. Files are flushed by the host's kernel.",
        fix="cut the power of the host that runs the container, and keep the data on a"
        " volume",
        source="Docker documentation, docker kill; docs/power.md",
        severity=Severity.NOTE,
        subject=SubjectKind.HOST,
        absent_is_safe=True,
    ),
    Rule(
        id="host-cloud",
        fact=CLOUD,
        safe=frozenset({NONE}),
        why="A cloud's volume is kept by the provider's storage servers, whose power"
        " you cannot cut: a forced stop of the instance tests its kernel and the path"
        " to the volume, not what the provider's drives do.",
        fix="ask the provider what an acknowledged write survives; local (ephemeral)"
        " drives are gone after a stop",
        source="Amazon EC2 user guide, Stop and start; Google Cloud documentation,"
        " Local SSD",
        severity=Severity.NOTE,
        subject=SubjectKind.HOST,
        absent_is_safe=True,
    ),
    Rule(
        id="host-desktop",
        fact=DESKTOP,
        safe=frozenset({NONE}),
        why="The kernel runs in a virtual machine of a desktop program, which decides"
        " whether a flush reaches the drive: a result here says nothing about a"
        " server.",
        fix="test on the kind of host that will run in production",
        source="Docker documentation, Docker Desktop; Microsoft, WSL documentation;"
        " fsync(2) of macOS",
        severity=Severity.WARNING,
        subject=SubjectKind.HOST,
        absent_is_safe=True,
    ),
)
