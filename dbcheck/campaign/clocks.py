"""All clocks of this machine at one moment, for the records of a run."""

from __future__ import annotations

import os
import uuid

from dbcheck.clock import clocks_us
from dbcheck.model.host import ClientClocks
from dbcheck.remote.addresses import boot_id

_PROCESS = uuid.uuid4().hex


def clocks() -> ClientClocks:
    """Read every clock of this machine."""
    return ClientClocks(_boot(), *clocks_us())


def _boot() -> str:
    """Return a name for this boot of the machine, and for its time namespace.

    Clocks of another time namespace differ (time_namespaces(7), since Linux 5.6).
    Where the system names no boot, the name is this process's own.
    """
    boot = boot_id()
    if not boot:
        return _PROCESS
    try:
        return f"{boot} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return boot
