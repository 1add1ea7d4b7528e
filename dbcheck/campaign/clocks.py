"""All clocks of this machine at one moment, for the records of a run."""

from __future__ import annotations

import os
import uuid

from dbcheck.clock import clocks_us
from dbcheck.core.clocks import ClientClocks
from dbcheck.remote.addresses import boot_id

_PROCESS = uuid.uuid4().hex


def clocks() -> ClientClocks:
    """Return what all clocks of this machine show."""
    return ClientClocks(_boot(), *clocks_us())


def _boot() -> str:
    """Return what all processes share whose monotonic and boot-time clocks are one.

    Those of a time namespace of its own run apart (time_namespaces(7), since Linux
    5.6).  Where the system names no boot, only this process is known to share them.
    """
    boot = boot_id()
    if not boot:
        return _PROCESS
    try:
        return f"{boot} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return boot
