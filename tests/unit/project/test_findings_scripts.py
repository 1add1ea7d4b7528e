"""A vendor can run each script of docs/findings with Python 3.9 and a server alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tools.findings import FOLDER, RECORDINGS, REPLAY, SCRIPTS, loads

_SHARED = {"innodb", "server"}  # which some of them need beside them
_MOST_LINES = 150


def imported(path: Path) -> set[str]:
    """Return the modules that a script imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("path", [*SCRIPTS.values(), REPLAY], ids=lambda p: p.stem)
def test_a_script_needs_the_standard_library_alone(path: Path) -> None:
    assert imported(path) - _SHARED <= sys.stdlib_module_names
    assert len(path.read_text("utf-8").splitlines()) < _MOST_LINES


@pytest.mark.parametrize("name", sorted(_SHARED))
def test_what_they_share_needs_the_standard_library_alone(name: str) -> None:
    assert imported(FOLDER / f"{name}.py") - _SHARED <= sys.stdlib_module_names


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_a_report_beside_it_which_names_it(name: str) -> None:
    report = SCRIPTS[name].with_suffix(".md").read_text("utf-8")
    assert f"python3 {name}.py" in report
    needs = imported(SCRIPTS[name]) & _SHARED
    needs |= imported(FOLDER / "innodb.py") & _SHARED if "innodb" in needs else set()
    assert needs == {each for each in _SHARED if f"`{each}.py`" in report}


def test_each_recording_has_a_report() -> None:
    for recording in RECORDINGS.values():
        report = (FOLDER / f"{recording.stem}.md").read_text("utf-8")
        assert f"python3 replay.py recordings/{recording.name}" in report
        assert "`server.py`" in report


def test_the_loads_are_counted() -> None:
    assert loads("version\nload 1\nload 2\npage 5\n") == 2
    assert loads("version\n") == 1
