"""The overview of the code is short and true; each decision has a page of its own."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from tests.kit.documents import ROOT

OVERVIEW = ROOT / "ARCHITECTURE.md"
DECISIONS = ROOT / "docs" / "decisions"
INDEX = DECISIONS / "index.md"
PAGES = sorted(set(DECISIONS.glob("*.md")) - {INDEX})
OVERVIEW_LINES_MAX = 130  # two pages
PAGE_LINES_MAX = 60  # one page
_IN_PICTURE = re.compile(r"│ ([a-z_]+(?: \| [a-z_]+)*) +│$", re.M)
_IN_TABLE = re.compile(r"^\| `(\w+)` \|", re.M)
_LISTED = re.compile(r"^- \[([\w-]+)\]\(\1\.md\): \S", re.M)


def layers_of_contract() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["importlinter:contract:layers"]["layers"].split("\n")[1:]


def test_the_picture_of_packages_is_the_import_contract() -> None:
    drawn = _IN_PICTURE.findall(OVERVIEW.read_text("utf-8"))
    assert drawn == layers_of_contract()


def test_each_package_has_one_line() -> None:
    packages = {path.parent.name for path in (ROOT / "dbcheck").glob("*/__init__.py")}
    described = _IN_TABLE.findall(OVERVIEW.read_text("utf-8"))
    assert sorted(described) == sorted(packages)
    assert described == re.findall(r"\w+", " ".join(layers_of_contract()))


def test_the_overview_has_two_pages() -> None:
    assert len(OVERVIEW.read_text("utf-8").splitlines()) <= OVERVIEW_LINES_MAX


def test_the_index_lists_each_decision_once() -> None:
    listed = _LISTED.findall(INDEX.read_text("utf-8"))
    assert sorted(listed) == [page.stem for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_one_page_with_its_reasons_cost_and_place(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.splitlines()) <= PAGE_LINES_MAX
    headings = re.findall(r"^#+ .*", text, re.M)
    assert headings[0].startswith("# ")
    assert headings[1:] == ["## Why", "## What it costs", "## Where"]
