"""Labs for a test, labs that need no root, and the processes of a load."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec


@contextlib.contextmanager
def lab_of(spec: LabSpec, folder: Path) -> Iterator[Lab]:
    """Give a lab that ends with the test; skip if there can be none."""
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with Lab.start(spec, folder / "lab") as lab:
        yield lab


@contextlib.contextmanager
def host_of(lab: Lab) -> Iterator[TargetHost]:
    """Give the lab's own host: its sshd sees the files that its server sees."""
    to = urlsplit(lab.witness_url)
    host = open_host(
        f"ssh://{to.username}@{to.hostname}:{to.port}",
        lab.ssh,
    )
    with contextlib.closing(host):
        yield host


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
    spec = LabSpec(engine, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    return spec
