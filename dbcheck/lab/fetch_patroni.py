"""Fetches Patroni and etcd without the services that Debian's packages start.

They come through apt, from the archives that this machine uses and checked with
Debian's own keys, with all that they need and that is not installed; nothing is
installed, and apt's state on the machine is not touched.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dbcheck.lab import programs
from dbcheck.lab.fetch import (
    STATUS,
    alone,
    archives,
    keep,
    prepare_apt,
    require_debian,
    run,
)

# Patroni's module for etcd imports the second one.
_PACKAGES = ("patroni", "python3-etcd", "etcd-server")
_KEPT = (*(f"usr/bin/{name}" for name in programs.PATRONI), "usr/lib")


def fetch(folder: Path) -> None:
    """Make *folder* hold both, laid out as their packages; raise LabError.

    It appears there whole or not at all.  Two at once wait for each other.
    """
    with alone(folder):
        if folder.exists():
            return
        require_debian()
        with tempfile.TemporaryDirectory(
            prefix=f"{folder.name}.", dir=folder.parent
        ) as scratch:
            whole, apt = Path(scratch, "whole"), Path(scratch, "apt")
            settings = prepare_apt(apt, archives(), installed=STATUS.read_bytes())
            run(
                ["apt-get", "install", "--yes", "--download-only", *_PACKAGES], settings
            )
            for package in (apt / "cache/archives").glob("*.deb"):
                run(["dpkg-deb", "--extract", str(package), str(whole)])
            keep(whole, _KEPT)
            run([str(whole / "usr/bin/etcd"), "--version"])
            os.chmod(whole, 0o755)
            whole.rename(folder)
