"""Labs that need no root, and the processes of a load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.lab.lab import missing
from dbcheck.lab.spec import LabSpec


def workers_of(pid: int) -> list[int]:
    """Return the processes of the load that *pid* has started."""
    found = []
    for name in os.listdir("/proc"):
        try:
            stat = Path("/proc", name, "stat").read_text()
            words = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        parent = int(stat.rpartition(")")[2].split()[1]) if name.isdecimal() else 0
        if parent == pid and b"dbcheck.load.worker" in words:
            found.append(int(name))
    return found


def process_lab(engine: str) -> LabSpec:
    """Return a lab that needs no root; skip if there can be none."""
    spec = LabSpec(engine, rung="process")
    if lacking := missing(spec):
        pytest.skip("; ".join(lacking))
    return spec
