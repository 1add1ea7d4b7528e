"""What dbcheck needs is there in the versions that the tests ran with."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

import dbcheck

ROOT = Path(dbcheck.__file__).resolve().parent.parent
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)(?:,<[\w.]+)?")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lists = [setup["options"]["install_requires"]]
    lists += setup["options.extras_require"].values()
    return [line for text in lists for line in text.split()]


FILES = sorted((ROOT / "constraints").glob("*.txt"))
OWN = [file for file in FILES if file.stem != "switches"]
PIN = re.compile(
    r"([\w.-]+)==([\w.]+)(?: ;[^\\]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)"
)


def pinned() -> dict[str, str]:
    pins = [pin for file in OWN for pin in PIN.finditer(file.read_text())]
    found = {canonical(pin[1]): pin[2] for pin in pins}
    assert all(found[canonical(pin[1])] == pin[2] for pin in pins), "two versions"
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_each_package_has_a_version_and_hashes(file: Path) -> None:
    """pip demands them of what else a package needs, once one line has a hash."""
    text = PIN.sub("", file.read_text())
    kept = [line for line in text.splitlines() if line and not line.startswith("#")]
    first = [] if file.stem in ("dbcheck", "switches") else ["-r dbcheck.txt"]
    assert kept == ["--require-hashes", "--only-binary :all:", *first]


@pytest.mark.parametrize("requirement", needed())
def test_the_version_that_was_tested_is_allowed(requirement: str) -> None:
    """`.ci/oldest` tries the lower bounds, `make constraints` the newest versions."""
    found = REQUIREMENT.fullmatch(requirement)
    assert found, "it has no lower bound"
    name, least = found.groups()
    assert numbers(least) <= numbers(pinned()[canonical(name)])


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_nothing_is_installed_but_that() -> None:
    """By set-up, the Makefile, the image, and README's and the documents' commands."""
    places = (
        *(".ci/setup", "Makefile", "container/Dockerfile"),
        *("README.md", "docs/running.md", "docs/guides/container.md"),
    )
    text = "".join((ROOT / place).read_text() for place in places)
    asked = re.findall(r"pip install\b(?:[^\n`]*\\\n)*[^\n`]*", text)
    for command in filter(lambda one: one != "pip install", asked):
        pinned_only = re.search(r"-r (?:/src/)?constraints/|\$\{files\[@\]\}", command)
        assert pinned_only or "--no-deps --no-build-isolation" in command, command


def test_what_builds_dbcheck_has_a_version() -> None:
    assert "setuptools" in pinned()


def test_a_wheel_holds_every_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "dbcheck").rglob("__init__.py")
    }
    assert there == {name for name in listed if not name.startswith("dbcheck.data")}
