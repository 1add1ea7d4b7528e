"""What the documents cite is there: files of tests, and tests in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

from dbcheck.base.setting import list_settings
from dbcheck.model.cut import SwitchKind
from dbcheck.report.formats import FORMATS
from dbcheck.rows.workload import Workload
from tests.kit.documents import DOCUMENTS, ROOT
from tests.kit.syntax import nodes_in

METHOD = ROOT / "docs" / "method.md"
# `unit/test_x.py` or `tests/unit/test_x.py`, perhaps with ::test_name; or `trials/`.
_CITED = re.compile(
    r"`(?:tests/)?((?:unit|property|real|planted|trials|fuzz)/[\w/]*(?:\.py)?)"
    r"(?:::(\w+))?`"
)
_COMMAND = re.compile(r"python -m pytest \"?tests/([\w/]+\.py)(?:::(\w+))?")
_THIS_PAGE = "this page"


def cited(text: str) -> Iterator[tuple[str, str]]:
    """Yield each path below tests/ that *text* cites, and the test in it or ""."""
    yield from _CITED.findall(text)
    yield from _COMMAND.findall(text)


@cache
def functions_of(path: Path) -> Set[str]:
    nodes = nodes_in(path.read_text("utf-8"))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def require_there(path: str, name: str) -> None:
    """Fail if a test that is cited is not there."""
    assert (ROOT / "tests" / path).exists(), path
    if name:
        assert name in functions_of(ROOT / "tests" / path), f"{path} has no {name}"


def traps() -> list[tuple[str, str]]:
    """Return the number of each trap, and by what its answer is shown."""
    section = METHOD.read_text("utf-8").split("\n## The traps\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if re.match(r"\| \d", line)]
    cells = [row.strip("|").split("|") for row in rows]
    return [(cell[0].strip(), cell[-1].strip()) for cell in cells]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_is_cited_is_there(document: Path) -> None:
    for path, name in cited(document.read_text("utf-8")):
        require_there(path, name)


def test_every_trap_is_shown_by_tests_or_argued_on_its_page() -> None:
    numbers = [int(number) for number, _ in traps()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 23
    for number, shown in traps():
        assert shown == _THIS_PAGE or "planted" in shown or list(cited(shown)), number


def test_every_kind_of_switch_is_explained() -> None:
    text = (ROOT / "docs" / "power.md").read_text()
    assert [kind for kind in SwitchKind if f"| `{kind.value}`" not in text] == []


@pytest.mark.parametrize("path", ["docs/lab.md", "workloads/insert.toml"])
def test_every_setting_of_the_load_is_named(path: str) -> None:
    text = (ROOT / path).read_text()
    assert [key for key in list_settings(Workload) if key not in text] == []


def test_every_format_of_a_report_is_explained() -> None:
    text = (ROOT / "docs" / "reports.md").read_text()
    assert [name for name in FORMATS if f"\n| `{name}` |" not in text] == []


def test_a_wrong_citation_is_found() -> None:
    text = "`unit/test_a.py::test_b`, `tests/trials/`, `trials.py`"
    text += ", `python -m pytest tests/real/test_c.py::test_d`"
    assert list(cited(text)) == [
        ("unit/test_a.py", "test_b"),
        ("trials/", ""),
        ("real/test_c.py", "test_d"),
    ]
    require_there("unit/project/test_documents.py", "test_a_wrong_citation_is_found")
    with pytest.raises(AssertionError, match="has no test_b"):
        require_there("unit/project/test_documents.py", "test_b")
    with pytest.raises(AssertionError, match="unit/test_a.py"):
        require_there("unit/test_a.py", "")
