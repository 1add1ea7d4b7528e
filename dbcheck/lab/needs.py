"""Checks what a lab on a virtual drive needs of a machine, besides programs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from dbcheck.lab import programs

_LACKS = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EADDRINUSE)
_MESSAGES = tuple(os.strerror(number).lower() for number in _LACKS)
_KILLED = "terminated by signal 9"  # PostgreSQL's message about its own startup process
CAP_SYS_ADMIN = 21  # linux/capability.h


def is_resource_shortage(output: str) -> bool:
    """Return whether *output* reports a lack of memory, processes, files or a port.

    Such a program may work at the next try, so its failure is not due to its data.
    """
    lower = output.lower()
    return _KILLED in lower or any(message in lower for message in _MESSAGES)


def missing_for_drive_rung(filesystem: str) -> list[str]:
    """Return what this machine lacks for a virtual drive with *filesystem* on it.

    Each reason is a clause for a human; none means that a drive can be built.
    Nothing is changed.
    """
    reasons = []
    if os.geteuid() != 0:
        reasons.append("this process is not root")
    elif not has_capability(CAP_SYS_ADMIN):
        reasons.append("root lacks CAP_SYS_ADMIN here (a container?)")
    for device in ("/dev/fuse", "/dev/loop-control"):
        if (why := _cannot_open(device)) is not None:
            reasons.append(f"cannot open {device}: {why}")
    for kind in ("fuse", filesystem):
        if not _kernel_has(kind):
            reasons.append(f"the kernel has no {kind} filesystem")
    for tool in (f"mkfs.{filesystem}", "mount", "unshare"):
        if programs.find(tool) is None:
            reasons.append(programs.lacking(tool))
    return reasons


def has_capability(number: int) -> bool:
    """Return whether this process has a capability in effect (capabilities(7))."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return bool(int(fields["CapEff"], 16) >> number & 1)


def _cannot_open(device: str) -> str | None:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return None


def _kernel_has(kind: str) -> bool:
    """Return whether the kernel has the filesystem, or a module that it can load."""
    if kind in Path("/proc/filesystems").read_text().split():
        return True
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    try:
        return f"/{kind}.ko" in modules.read_text()
    except OSError:
        return False
