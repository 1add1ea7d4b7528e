"""What dbcheck needs is needed in the versions that the tests ran with."""

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


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonical(name): version for name, version in pins}


@pytest.mark.parametrize("requirement", needed())
def test_no_older_version_is_allowed_than_was_tested(requirement: str) -> None:
    """`make constraints` writes both files."""
    found = REQUIREMENT.fullmatch(requirement)
    assert found, "it has no lower bound"
    name, version = found.groups()
    assert pinned()[canonical(name)] == version


def test_set_up_installs_the_tested_versions() -> None:
    assert "-c constraints.txt" in (ROOT / ".ci/setup").read_text()


def test_a_wheel_holds_every_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "dbcheck").rglob("__init__.py")
    }
    assert there == {name for name in listed if not name.startswith("dbcheck.data")}
