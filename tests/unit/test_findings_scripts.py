"""A vendor can run each script of docs/findings with Python 3.9 and a server alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.findings import SCRIPTS, loads

_BEGIN = "# --- shared: these lines are the same in each script that has them ---\n"
_END = "# --- end of the shared lines ---\n"
_MOST_LINES = 350


def imported(path: Path) -> set[str]:
    """Return the modules that a script imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_needs_the_standard_library_alone(name: str) -> None:
    assert imported(SCRIPTS[name]) <= sys.stdlib_module_names
    assert len(SCRIPTS[name].read_text("utf-8").splitlines()) < _MOST_LINES


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_a_report_beside_it_which_names_it(name: str) -> None:
    report = SCRIPTS[name].with_suffix(".md")
    assert f"python3 {name}.py" in report.read_text("utf-8")


def test_the_shared_lines_are_the_same_in_all_that_have_them() -> None:
    texts = [path.read_text("utf-8") for path in SCRIPTS.values()]
    shared = [t.partition(_BEGIN)[2].partition(_END)[0] for t in texts if _BEGIN in t]
    assert len(shared) == 6
    assert len(set(shared)) == 1
    assert shared[0]


def test_the_loads_are_counted() -> None:
    assert loads("version\nload 1\nload 2\npage 5\n") == 2
    assert loads("version\n") == 1
