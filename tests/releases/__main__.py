"""Fetch a release's PostgreSQL, run the tests with it, and record the result.

`python -m tests.releases postgresql-17 [TEST ...]`; as root.  The packages come through
apt into a private tree, as those of MySQL do (tests/mysql/fetch.py).  The tests run in
a mount namespace of their own (unshare(1)), in which that tree lies over the machine's
own PostgreSQL; nothing is installed.  Each result is a line of results.md.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dbcheck.errors import DbcheckError
from tests.mysql import fetch

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.md")
# package -> the release of Debian that has it
SUITES = {
    "postgresql-17": "trixie",
    "postgresql-18": "unstable",
}
TESTS = ("tests/real", "tests/planted")
_OVER = ("usr/lib/postgresql", "usr/share/postgresql")
_VERSION = re.compile(r"\(PostgreSQL\) (\S+)")


def main(words: Sequence[str]) -> int:
    """Test one package; return pytest's exit status, or 2 if there is none to test."""
    if not words or words[0] not in SUITES:
        sys.stderr.write(f"usage: tests.releases {'|'.join(SUITES)} [TEST ...]\n")
        return 2
    package, tests = words[0], tuple(words[1:]) or TESTS
    with tempfile.TemporaryDirectory(prefix="dbcheck-release-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the server's account must get there
        try:
            tree = _fetched(folder, package)
        except DbcheckError as error:
            sys.stderr.write(f"{package}: {error}\n{error.hint}\n")
            return 2
        done = _tested(tree, tests)
    sys.stdout.write(done.stdout)
    found = _VERSION.search(done.stdout)
    if found is None:
        sys.stderr.write(f"{package}: its server does not run here\n")
        return 2
    last = done.stdout.rstrip().rpartition("\n")[2].strip("= ")
    _record(package, found[1], tests, last)
    return done.returncode


def _fetched(folder: Path, package: str) -> Path:
    """Return a tree of *package* and all that it depends on, fit to run here."""
    mirror = fetch.mirror_of(
        fetch.run(["apt-get", "indextargets", "--format", fetch.TARGETS_AS])
    )
    tree = folder / "tree"
    for one in fetch.download(folder / "apt", mirror, SUITES[package], package):
        fetch.run(["dpkg-deb", "--extract", str(one), str(tree)])
    tree.chmod(0o755)
    (programs,) = tree.glob("usr/lib/postgresql/*/bin")
    for program in sorted(programs.iterdir()):
        if program.read_bytes()[:4] == b"\x7fELF":
            fetch.patch(tree, tree, program.relative_to(tree))
    return tree


def _tested(tree: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run *tests* where the programs of *tree* stand in the place of Debian's."""
    binds = [f"mount --bind {tree / over} /{over}" for over in _OVER]
    pytest = [sys.executable, "-m", "pytest", "-q", "-k", "postgresql", *tests]
    script = [*binds, "/usr/lib/postgresql/*/bin/postgres --version"]
    script.append(f"exec {shlex.join(pytest)}")
    return subprocess.run(
        ["unshare", "--mount", "sh", "-e", "-c", "\n".join(script)],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _record(package: str, version: str, tests: Sequence[str], said: str) -> None:
    """Put the result in the place of the package's former one."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    line = f"| {package} | {version} | {day} | `{' '.join(tests)}` | {said} |"
    lines = RESULTS.read_text("utf-8").splitlines()
    kept = [old for old in lines if not old.startswith(f"| {package} |")]
    RESULTS.write_text("\n".join([*kept, line]) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
