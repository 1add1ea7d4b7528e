"""Fetches MariaDB's plugin MyRocks, of the very release that is installed.

Debian's package of it wants the whole of mariadb-server, which makes a database and
starts a service.  A lab needs two files: the plugin, and a library that it uses.  They
come through apt, from the archives that this machine uses and checked with Debian's own
keys; nothing is installed, and apt's state on the machine is not touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from dbcheck.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.fetch import (
    KEYRING,
    alone,
    prepare_apt,
    require_debian,
    require_patchelf,
    run,
)

PACKAGE = "mariadb-plugin-rocksdb"
LIBRARY_PACKAGE = "libsnappy1v5"
SERVER_PACKAGE = "mariadb-server-core"
_LIBRARY = "libsnappy.so.1"
_ARCHIVES_AS = "$(REPO_URI) $(RELEASE) $(COMPONENT)"


def fetch(folder: Path) -> None:
    """Make *folder* hold the plugin; raise LabError if that fails.

    It appears there whole or not at all.  Two at once wait for each other.
    """
    with alone(folder):
        if folder.exists():
            return
        require_debian()
        version = run(
            ["dpkg-query", "--show", "--showformat=${Version}", SERVER_PACKAGE]
        )
        patchelf = require_patchelf()
        with tempfile.TemporaryDirectory(
            prefix=f"{folder.name}.", dir=folder.parent
        ) as scratch:
            tree, whole = Path(scratch, "tree"), Path(scratch, "whole")
            sources = sources_of(
                run(["apt-get", "indextargets", "--format", _ARCHIVES_AS])
            )
            settings = prepare_apt(Path(scratch, "apt"), sources)
            wanted = [f"{PACKAGE}={version}", LIBRARY_PACKAGE]
            run(["apt-get", "download", *wanted], settings, cwd=Path(scratch))
            for package in Path(scratch).glob("*.deb"):
                run(["dpkg-deb", "--extract", str(package), str(tree)])
            whole.mkdir(mode=0o755)
            for name in (programs.ROCKSDB, _LIBRARY):
                found = next(tree.rglob(name)).resolve()
                shutil.copy2(found, whole / name)
            os.chmod(whole, 0o755)
            change = ["--force-rpath", "--set-rpath", "$ORIGIN"]
            run([patchelf, *change, str(whole / programs.ROCKSDB)])
            whole.rename(folder)


def sources_of(targets: str) -> str:
    """Return Debian's archives among apt's index targets, as a list of sources.

    targets: a line for each, its archive, release and component.  Raise LabError if
    there is none.
    """
    found: dict[str, None] = {}
    for line in targets.splitlines():
        archive, _, rest = line.partition(" ")
        release, _, component = rest.partition(" ")
        if component == "main" and "/debian" in archive:
            found[f"deb [signed-by={KEYRING}] {archive} {release} main"] = None
    if not found:
        raise LabError(
            "apt has no mirror of Debian among its sources",
            hint=f"Install the Debian package {PACKAGE}.",
        )
    return "\n".join(found) + "\n"
