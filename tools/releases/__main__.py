"""Fetch a server of another release, run the tests with it, and record the result.

    python -m tools.releases postgresql-17 [TEST ...]
    python -m tools.releases mariadb-11.8 -- .venv/bin/dbcheck lab explore ...
    python -m tools.releases --fetch mysql-8.0 FOLDER

As root.  Tests and other commands run in a mount namespace of their own (unshare(1)),
in which the server's files lie over the machine's own; nothing is installed.  The
result of the tests is a line of results.md.  --fetch leaves the server in FOLDER.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dbcheck.base.errors import DbcheckError
from tools.releases.known import RELEASES, Family

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.md")
TESTS = (
    "tests/planted/test_rows.py",
    *(
        f"tests/real/{place}.py"
        for place in (
            "cycle/test_binlog",
            "cycle/test_control_server",
            "cycle/test_cycle",
            "engines/test_engine",
            "engines/test_engine_identity",
            "engines/test_engine_places",
            "engines/test_engine_privileges",
            "engines/test_engine_refusals",
            "engines/test_engine_settings",
            "engines/test_index_plans",
            "hosts/test_crash_canary",
            "server_log/test_server_log",
        )
    ),
)
_COMMAND, _FETCH = "--", "--fetch"


def main(words: Sequence[str]) -> int:
    """Fetch, run or test as the command line says; return the exit status.

    2 if the command line is wrong, or there is no such server to be had.
    """
    match list(words):
        case [option, name, folder] if option == _FETCH and name in RELEASES:
            return _fetch(name, Path(folder))
        case [name, option, _, *_] if option == _COMMAND and name in RELEASES:
            return _run(name, words[2:])
        case [name, *tests] if name in RELEASES and _COMMAND not in tests:
            return _test(name, tests or TESTS)
    sys.stderr.write(
        f"usage: tools.releases {'|'.join(RELEASES)} [TEST ... | -- COMMAND]\n"
        f"       tools.releases {_FETCH} RELEASE FOLDER\n"
    )
    return 2


def _fetch(name: str, folder: Path) -> int:
    if folder.exists():
        sys.stderr.write(f"{folder} is there already\n")
        return 2
    folder.mkdir(parents=True)
    try:
        layer = RELEASES[name].source.lay(folder.resolve())
    except DbcheckError as error:
        return _refuse(name, error)
    sys.stdout.write(f"{layer}\n")
    return 0


def _run(name: str, command: Sequence[str]) -> int:
    try:
        with _layer(name) as layer:
            beside = _beside(layer, RELEASES[name].family, command)
            return subprocess.run(beside, env=_environment()).returncode
    except DbcheckError as error:
        return _refuse(name, error)


def _test(name: str, tests: Sequence[str]) -> int:
    """Run *tests* with that server, and record how they ended."""
    family = RELEASES[name].family
    pytest = [sys.executable, "-m", "pytest", "-q", "-k", family.engine, *tests]
    try:
        with _layer(name) as layer:
            done = subprocess.run(
                _beside(layer, family, pytest),
                cwd=ROOT,
                env=_environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
    except DbcheckError as error:
        return _refuse(name, error)
    sys.stdout.write(done.stdout)
    found = family.found.search(done.stdout)
    if found is None:
        sys.stderr.write(f"{name}: its server does not run here\n")
        return 2
    last = done.stdout.rstrip().rpartition("\n")[2].strip("= ")
    _record(name, found[1], tests, last)
    return done.returncode


def _refuse(name: str, error: DbcheckError) -> int:
    sys.stderr.write(f"{name}: {error}\n{error.hint}\n")
    return 2


@contextmanager
def _layer(name: str) -> Iterator[Path]:
    """Fetch a release into a folder that goes afterwards."""
    with tempfile.TemporaryDirectory(prefix="dbcheck-release-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the server's account must get there
        yield RELEASES[name].source.lay(folder)


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}


def _beside(layer: Path, family: Family, command: Sequence[str]) -> list[str]:
    """Return what runs a command where a layer's files stand before Debian's."""
    script = [
        f"mount -t overlay overlay -o lowerdir={layer}:/usr /usr",
        family.version,
        f"exec {shlex.join(command)}",
    ]
    return ["unshare", "--mount", "sh", "-e", "-c", "\n".join(script)]


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
