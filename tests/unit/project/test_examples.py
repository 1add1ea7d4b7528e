"""The examples of reports in docs: whole, of the stated verdicts, of no machine."""

from __future__ import annotations

import json
import re
import socket
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from dbcheck.model.verdict import Verdict
from tools.docs.examples import (
    DEMO,
    DOCS,
    EXAMPLES,
    FOLDER,
    HOST,
    Example,
    files_of,
    text,
)

FILES = (*sorted(FOLDER.iterdir()), DEMO)
PAGES = {each.name: (FOLDER / f"{each.name}.html").read_text() for each in EXAMPLES}
VERDICTS = {verdict.value for verdict in Verdict}
MOST_BYTES = 1_500_000
# Folders of one machine or of one user; /srv and /var/tmp are where the labs lay.
PRIVATE = re.compile(r"(?<!/var)/(?:tmp|work|root|home|Users)/")


class Words(HTMLParser):
    """The text of a page, without its style, and what its tags refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elsewhere: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        for name, value in attrs:
            local = not value or value.startswith(("#", "data:"))
            if name in ("src", "href", "action", "srcset", "poster") and not local:
                self.elsewhere.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self._inside != "style":
            self.words += data.split()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_names_no_machine_and_is_small(file: Path) -> None:
    content = file.read_text()
    assert len(content.encode()) < MOST_BYTES
    assert not PRIVATE.findall(content)
    name = socket.gethostname()
    if name not in (HOST, "localhost"):
        assert not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", content)


def test_a_path_of_a_machine_is_found() -> None:
    for folder in ("tmp", "root", "home", "Users"):
        for where in ("/{}/x", "in /{}/x", "file:///{}/me/x"):
            assert PRIVATE.search(where.format(folder))
    assert not PRIVATE.search("/var/tmp/dbcheck-lab-1a2b3c4d/witness")


def test_the_folder_holds_the_examples_and_what_says_how_they_were_made() -> None:
    there = {file.name for file in FOLDER.iterdir()}
    named = {name for each in EXAMPLES for name in files_of(each)}
    assert there == named | {"README.md"}
    written = (FOLDER / "README.md").read_text()
    assert written == text(), "run python -m tools.docs.examples, or correct it"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_a_page_is_one_file_with_the_verdict(example: Example) -> None:
    page = Words(PAGES[example.name])
    assert page.elsewhere == []
    assert not re.search(r"@import|url\((?!data:)", PAGES[example.name])
    shown = next(word for word in page.words if word in VERDICTS)
    assert example.verdict is None or shown == example.verdict.value


def test_what_a_page_would_load_is_found() -> None:
    assert Words('<p><img src="https://x/y.png"><a href="#b">').elsewhere == [
        "img src=https://x/y.png"
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_a_page_has_what_the_readme_points_at(example: Example) -> None:
    shown = " ".join(Words(PAGES[example.name]).words)
    assert [each for each in example.shows if each not in shown] == []


def test_a_loss_is_one_failure_in_junit() -> None:
    whole = JUnitXml.fromstring((FOLDER / "fail.xml").read_bytes())
    assert (whole.tests, whole.failures, whole.errors) == (1, 1, 0)


def test_the_metrics_have_the_verdict_and_the_losses() -> None:
    samples = [
        sample
        for family in text_string_to_metric_families((FOLDER / "fail.prom").read_text())
        for sample in family.samples
    ]
    verdicts = {
        each.labels["verdict"]: each.value
        for each in samples
        if each.name == "dbcheck_verdict"
    }
    assert verdicts == {each.value: each is Verdict.FAIL for each in Verdict}
    (lost,) = (each.value for each in samples if each.name == "dbcheck_lost_rows")
    assert lost > 100


def test_the_json_is_what_its_schema_says() -> None:
    values = json.loads((FOLDER / "fail.json").read_text())
    jsonschema.validate(values, json.loads((DOCS / "schema/run.json").read_text()))
    assert values["verdict"] == Verdict.FAIL.value
    assert sum(values["losses"].values()) > 100


def test_the_picture_shows_the_demo_and_loads_nothing() -> None:
    picture = DEMO.read_text()
    tree = ElementTree.fromstring(picture)
    shown = " ".join("".join(tree.itertext()).split())
    assert shown.count("PASS") >= 2
    assert shown.count("FAIL") >= 4
    assert "make demo" in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert not re.search(r"@import|@font-face|url\((?!#)", picture)
    assert [each for each in tree.iter() if "href" in " ".join(each.keys())] == []
