"""Rules for the server's process and its host.

What bypasses the flushes, which cut reaches what, and what a PASS means there.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.audit.rule import Harm, Rule, SubjectKind
from dbcheck.model.audited import Severity
from dbcheck.model.depth import Depth
from dbcheck.model.host import ServerProcess

VIRTUAL_MACHINE = "virtual machine"
CONTAINER = "container"
CLOUD = "cloud"
DESKTOP = "desktop virtualisation"
NONE = "none"
FLUSH_CALLS, C_LIBRARY = "flush calls", "the c library's"
PRELOADED = "preloaded objects"
NO_SYNC_OPTION = "option that switches flushes off"


def list_facts_of_process(process: ServerProcess) -> Mapping[str, str]:
    """Return the facts about a server's process that decide whether it flushes."""
    unknown = bool(process.unread)
    facts = {
        FLUSH_CALLS: ", ".join(process.replaced) or ("" if unknown else C_LIBRARY),
        PRELOADED: ", ".join(process.preloaded) or ("" if unknown else NONE),
        NO_SYNC_OPTION: process.no_sync or ("" if process.no_sync_unread else NONE),
    }
    return {name: value for name, value in facts.items() if value}


RULES = (
    Rule(
        id="host-flush-replaced",
        fact=FLUSH_CALLS,
        safe=frozenset({C_LIBRARY}),
        why="The server has an object mapped that defines fsync() or fdatasync() in the"
        " place of the C library's, as libeatmydata does: what it flushes may never"
        " reach the drive.",
        fix="take that object out of LD_PRELOAD and /etc/ld.so.preload, and restart the"
        " server",
        source="ld.so(8), LD_PRELOAD and /etc/ld.so.preload; libeatmydata, README.md",
        severity=Severity.ERROR,
        subject=SubjectKind.HOST,
        harm=Harm(Depth.OS, everything=True),
        absent_is_safe=True,
        no_receipt="a lab preloads nothing; shown by"
        " tests/real/audit/test_server_process.py",
    ),
    Rule(
        id="host-no-sync-option",
        fact=NO_SYNC_OPTION,
        safe=frozenset({NONE}),
        why="With this option MariaDB flushes no file, so every commit may be lost with"
        " the memory of the host.",
        fix="take the option out of the command line and the option files, and restart"
        " the server",
        source="MariaDB documentation, mariadbd options, --debug-no-sync; my_sync.c and"
        " os0file.cc, my_disable_sync",
        severity=Severity.ERROR,
        subject=SubjectKind.HOST,
        harm=Harm(Depth.OS, everything=True),
        absent_is_safe=True,
        no_receipt="no variable shows the option; shown by"
        " tests/real/audit/test_server_process.py",
    ),
    Rule(
        id="host-preloaded",
        fact=PRELOADED,
        safe=frozenset({NONE}),
        why="An object is preloaded into the server, and may replace functions of the C"
        " library. It does not replace a flush function, unless host-flush-replaced"
        " says so.",
        fix="check that it is meant to be there, such as an allocator of memory",
        source="ld.so(8), LD_PRELOAD and /etc/ld.so.preload",
        severity=Severity.NOTE,
        subject=SubjectKind.HOST,
        absent_is_safe=True,
    ),
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
        " volume or a bind mount",
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
