"""Fetch a server of another release, run the tests with it, and record the result.

`python -m tests.releases postgresql-17 [TEST ...]`; as root.  The packages come through
apt into a private tree, as those of MySQL do (dbcheck/lab/fetch.py).  The tests run in
a mount namespace of their own (unshare(1)), in which the server's files of that tree
lie over the machine's own; nothing is installed.  Each result is a line of results.md.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dbcheck.errors import DbcheckError
from dbcheck.lab import fetch

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.md")
TESTS = (
    "tests/planted/test_rows.py",
    *(
        f"tests/real/test_{name}.py"
        for name in (
            "binlog",
            "control_server",
            "crash_canary",
            "cycle",
            "engine",
            "engine_identity",
            "engine_places",
            "engine_privileges",
            "engine_refusals",
            "engine_settings",
            "server_log",
        )
    ),
)


@dataclass(frozen=True)
class Family:
    """What the releases of a server have in common.

    engine:   which tests are its own.
    programs: those of its packages that run, below usr, as patterns.
    data:     folders that these need, below usr.
    version:  the command that prints it; found: the version in what that prints.
    """

    engine: str
    programs: tuple[str, ...]
    data: tuple[str, ...]
    version: str
    found: re.Pattern[str]


_POSTGRESQL = Family(
    "postgresql",
    ("lib/postgresql/*/bin/*",),
    ("lib/postgresql", "share/postgresql"),
    "/usr/lib/postgresql/*/bin/postgres --version",
    re.compile(r"\(PostgreSQL\) (\S+)"),
)
_MARIADB = Family(
    "mariadb",
    (
        "bin/mariadb-install-db",
        "bin/my_print_defaults",
        "bin/resolveip",
        "sbin/mariadbd",
        "sbin/mysqld",  # a link, by which 10.5 knows its server
    ),
    ("lib/mysql", "share/mysql", "share/mariadb"),
    "/usr/sbin/mariadbd --no-defaults --version",
    re.compile(r" Ver (\S+)-MariaDB"),
)


@dataclass(frozen=True)
class Release:
    """A release of Debian and its packages of a server."""

    family: Family
    suite: str
    packages: tuple[str, ...]


def _mariadb(suite: str, suffix: str = "") -> Release:
    cores = ("mariadb-server-core", "mariadb-client-core")
    return Release(_MARIADB, suite, tuple(core + suffix for core in cores))


RELEASES = {
    "mariadb-10.5": _mariadb("bullseye", "-10.5"),
    "mariadb-11.8": _mariadb("trixie"),
    "postgresql-13": Release(_POSTGRESQL, "bullseye", ("postgresql-13",)),
    "postgresql-17": Release(_POSTGRESQL, "trixie", ("postgresql-17",)),
    "postgresql-18": Release(_POSTGRESQL, "unstable", ("postgresql-18",)),
}


def main(words: Sequence[str]) -> int:
    """Test one release; return pytest's exit status, or 2 if there is none to test."""
    if not words or words[0] not in RELEASES:
        sys.stderr.write(f"usage: tests.releases {'|'.join(RELEASES)} [TEST ...]\n")
        return 2
    name, tests = words[0], tuple(words[1:]) or TESTS
    release = RELEASES[name]
    with tempfile.TemporaryDirectory(prefix="dbcheck-release-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the server's account must get there
        try:
            layer = _layer(folder, _fetched(folder, release), release.family)
        except DbcheckError as error:
            sys.stderr.write(f"{name}: {error}\n{error.hint}\n")
            return 2
        done = _tested(layer, release.family, tests)
    sys.stdout.write(done.stdout)
    found = release.family.found.search(done.stdout)
    if found is None:
        sys.stderr.write(f"{name}: its server does not run here\n")
        return 2
    last = done.stdout.rstrip().rpartition("\n")[2].strip("= ")
    _record(name, found[1], tests, last)
    return done.returncode


def _fetched(folder: Path, release: Release) -> Path:
    """Return a tree of the packages and all that they depend on."""
    mirror = fetch.mirror_of(
        fetch.run(["apt-get", "indextargets", "--format", fetch.TARGETS_AS])
    )
    tree = folder / "tree"
    packages = fetch.download(folder / "apt", mirror, release.suite, *release.packages)
    for one in packages:
        fetch.run(["dpkg-deb", "--extract", str(one), str(tree)])
    tree.chmod(0o755)
    for apart in ("lib", "lib64"):  # from /usr, as the packages of Debian 11 have it
        if (tree / apart).is_dir() and not (tree / apart).is_symlink():
            shutil.copytree(
                tree / apart, tree / "usr" / apart, symlinks=True, dirs_exist_ok=True
            )
    for loader in (tree / "usr/lib64").iterdir():
        if os.path.isabs(target := os.readlink(loader)):
            loader.unlink()
            loader.symlink_to(tree / "usr" / target.removeprefix("/usr")[1:])
    return tree


def _layer(folder: Path, tree: Path, family: Family) -> Path:
    """Return what is to lie over /usr: the server's own files, fit to run here."""
    layer = folder / "layer"
    programs = [
        program.relative_to(tree)
        for pattern in family.programs
        for program in sorted((tree / "usr").glob(pattern))
    ]
    for program in programs:
        server = tree / program
        if not server.is_symlink() and server.read_bytes()[:4] == b"\x7fELF":
            fetch.patch(tree, tree, program)
    folders = [
        Path("usr", name) for name in family.data if (tree / "usr" / name).exists()
    ]
    for moved in (*folders, *programs):
        if os.path.lexists(tree / moved):  # and did not go with its folder
            (layer / moved).parent.mkdir(parents=True, exist_ok=True)
            (tree / moved).rename(layer / moved)
    for whole in folders:  # nothing of the machine's own shows through it
        os.setxattr(layer / whole, "trusted.overlay.opaque", b"y")
    return layer


def _tested(
    layer: Path, family: Family, tests: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run *tests* where the files of *layer* stand in the place of Debian's."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-k", family.engine, *tests]
    script = [
        f"mount -t overlay overlay -o lowerdir={layer}/usr:/usr /usr",
        family.version,
        f"exec {shlex.join(pytest)}",
    ]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-e", "-c", "\n".join(script)],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _record(name: str, version: str, tests: Sequence[str], said: str) -> None:
    """Put the result in the place of the release's former one, in their order."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    named = ", ".join(test.removeprefix("tests/") for test in tests)
    line = f"| {name} | {version} | {day} | {named} | {said} |"
    lines = RESULTS.read_text("utf-8").splitlines()
    rows = [old for old in lines if re.match(r"\| \w+-\d", old)]
    others = [old for old in lines if old not in rows]
    kept = [row for row in rows if not row.startswith(f"| {name} |")]
    RESULTS.write_text("\n".join([*others, *sorted([*kept, line])]) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
