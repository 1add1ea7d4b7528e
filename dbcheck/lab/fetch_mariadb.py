"""Fetches parts of MariaDB that Debian packs with services: MyRocks, and Galera.

Debian's packages of them want the whole of mariadb-server, which makes a database and
starts a service, or the service of rsync.  A lab needs a few of their files.  They come
through apt, from the archives that this machine uses and checked with Debian's own
keys, and MariaDB's are of the very release that is installed; nothing is installed, and
apt's state on the machine is not touched.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.fetch import (
    STATUS,
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
    with_libraries: those that come with the libraries that this machine lacks.
    files:     their names.
    patched:   which of them are to find the libraries beside them.
    """

    of_server: tuple[str, ...]
    packages: tuple[str, ...]
    files: tuple[str, ...]
    patched: tuple[str, ...]
    with_libraries: tuple[str, ...] = ()


MYROCKS = Part(
    ("mariadb-plugin-rocksdb",),
    ("libsnappy1v5",),
    (programs.ROCKSDB, "libsnappy.so.1"),
    (programs.ROCKSDB,),
)
# The scripts copy a node's data to another, by rsync through stunnel.
_OVER_TLS = ("stunnel", "openssl")
GALERA = Part(
    ("mariadb-server",),
    ("galera-4", "rsync", "libpopt0"),
    (programs.GALERA, *programs.TRANSFER, "libpopt.so.0"),
    ("rsync", *_OVER_TLS),
    tuple(programs.PACKAGES[name] for name in _OVER_TLS),
)
_LIBRARY = re.compile(r"lib[^/]*\.so\.[0-9.]+")


def fetch(part: Part, folder: Path) -> None:
    """Make *folder* hold the files; raise LabError if that fails.

    It appears there whole or not at all, in place of one that lacks a file.  Two at
    once wait for each other.
    """
    with alone(folder):
        if all((folder / name).is_file() for name in part.files):
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
            apt = Path(scratch, "apt")
            settings = prepare_apt(apt, archives(), installed=STATUS.read_bytes())
            wanted = [f"{name}={version}" for name in part.of_server]
            command = ["apt-get", "download", *wanted, *part.packages]
            run([*command, *part.with_libraries], settings, cwd=Path(scratch))
            for package in Path(scratch).glob("*.deb"):
                run(["dpkg-deb", "--extract", str(package), str(tree)])
            whole.mkdir(mode=0o755)
            _fetch_libraries(part.with_libraries, apt, settings, whole)
            for name in part.files:
                shutil.copy2(_file_of(tree, name), whole / name)
            os.chmod(whole, 0o755)
            change = ["--force-rpath", "--set-rpath", "$ORIGIN"]
            for name in part.patched:
                run([patchelf, *change, str(whole / name)])
            if folder.exists():
                folder.rename(Path(scratch, "old"))
            whole.rename(folder)


def _fetch_libraries(
    packages: Sequence[str], apt: Path, settings: Path, folder: Path
) -> None:
    """Put into *folder* the libraries of these packages that this machine lacks."""
    needed = [
        name
        for package in packages
        for name in library_packages(
            run(["apt-cache", "show", "--no-all-versions", package], settings)
        )
    ]
    if not needed:
        return
    command = ["apt-get", "install", "--yes", "--download-only", "--no-upgrade"]
    run([*command, *needed], settings)
    tree = apt / "libraries"
    for package in (apt / "cache/archives").glob("*.deb"):
        run(["dpkg-deb", "--extract", str(package), str(tree)])
    for path in sorted(tree.rglob("lib*.so.*")):
        if path.is_file() and _LIBRARY.fullmatch(path.name):
            shutil.copy2(path.resolve(), folder / path.name)


def library_packages(described: str) -> list[str]:
    """Return the packages of libraries that a package depends on.

    described: it, as apt-cache shows it.  Of alternatives the first one counts.
    """
    for line in described.splitlines():
        field, _, value = line.partition(":")
        if field == "Depends":
            names = [re.split(r"[\s(|:]", each.strip())[0] for each in value.split(",")]
            return [name for name in names if name.startswith("lib")]
    return []


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
