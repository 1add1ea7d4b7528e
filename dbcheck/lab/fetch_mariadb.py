"""Fetches parts of MariaDB that Debian packs with services: MyRocks, and Galera.

Debian's packages of them want the whole of mariadb-server, which makes a database and
starts a service, or the service of rsync.  A lab needs a few of their files.  They come
through apt, from the archives that this machine uses and checked with Debian's own
keys, and MariaDB's are of the very release that is installed; nothing is installed, and
apt's state on the machine is not touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dbcheck.error_ids import ErrorId
from dbcheck.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.fetch import (
    alone,
    archives,
    prepare_apt,
    require_debian,
    require_patchelf,
    run,
)

SERVER_PACKAGE = "mariadb-server-core"


@dataclass(frozen=True, slots=True)
class Part:
    """Files of some packages, which lie in one folder once they are fetched.

    of_server: packages that must have the version of the server.
    packages:  those that need not.
    files:     their names.
    patched:   which of them is to find the libraries beside it.
    """

    of_server: tuple[str, ...]
    packages: tuple[str, ...]
    files: tuple[str, ...]
    patched: str


MYROCKS = Part(
    ("mariadb-plugin-rocksdb",),
    ("libsnappy1v5",),
    (programs.ROCKSDB, "libsnappy.so.1"),
    programs.ROCKSDB,
)
# The scripts copy a node's data to another, by rsync.
GALERA = Part(
    ("mariadb-server",),
    ("galera-4", "rsync", "libpopt0"),
    (programs.GALERA, *programs.TRANSFER, "rsync", "libpopt.so.0"),
    "rsync",
)


def fetch(part: Part, folder: Path) -> None:
    """Make *folder* hold the files; raise LabError if that fails.

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
            settings = prepare_apt(Path(scratch, "apt"), archives())
            wanted = [f"{name}={version}" for name in part.of_server]
            command = ["apt-get", "download", *wanted, *part.packages]
            run(command, settings, cwd=Path(scratch))
            for package in Path(scratch).glob("*.deb"):
                run(["dpkg-deb", "--extract", str(package), str(tree)])
            whole.mkdir(mode=0o755)
            for name in part.files:
                shutil.copy2(_file_of(tree, name), whole / name)
            os.chmod(whole, 0o755)
            change = ["--force-rpath", "--set-rpath", "$ORIGIN"]
            run([patchelf, *change, str(whole / part.patched)])
            whole.rename(folder)


def _file_of(tree: Path, name: str) -> Path:
    """Return the file of that name, past settings that are called so, too."""
    for path in sorted(tree.rglob(name)):
        if path.is_file() and "etc" not in path.relative_to(tree).parts:
            return path.resolve()
    raise LabError(
        f"none of the packages has {name}",
        id=ErrorId.PROGRAM_MISSING,
        hint="Install the Debian package that has it.",
    )
