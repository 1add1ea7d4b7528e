"""Who this host is; only read, nothing is written.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library, remote/wire.py and what is sent before it.
"""

from __future__ import annotations

import os
from typing import Any

from dbcheck.hosts.agent.sudo import as_root
from dbcheck.remote.wire import first_line, host_names

SERIAL = "/sys/class/dmi/id/product_serial"  # only root may read it


def identity() -> dict[str, Any]:
    """Return what identifies this host; what cannot be read is empty."""
    return {**host_names(), "serial": serial()}


def serial() -> str:
    """Return the machine's serial number, "" if there is none or it is hidden."""
    if os.geteuid() == 0 or not os.path.exists(SERIAL):
        return first_line(SERIAL)
    return (as_root("cat", SERIAL) or "").strip()
