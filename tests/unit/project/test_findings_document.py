"""docs/findings.md lists each finding once more in its table, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from tools.findings import RECORDINGS, SCRIPTS

TEXT = (Path(__file__).parents[3] / "docs" / "findings.md").read_text("utf-8")
PARTS = ("Tested and affected", "Lost", "Severity", "Way around")


def anchor(heading: str) -> str:
    """Return what GitHub calls a heading in a link."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def findings() -> dict[str, str]:
    """Return the sections that are numbered, by their anchors."""
    sections = re.split(r"^## ", TEXT, flags=re.M)[1:]
    pairs = (section.split("\n", 1) for section in sections)
    return {anchor(name): body for name, body in pairs if name[0].isdecimal()}


def test_the_table_has_a_row_for_each_finding() -> None:
    rows = re.findall(r"^\| \[.*?\]\(#(.*?)\) \|(.*)\|$", TEXT, re.M)
    assert [link for link, _ in rows] == list(findings())
    assert {row.count("|") for _, row in rows} == {3}


def test_each_finding_says_what_is_lost_and_how_to_see_it() -> None:
    for name, body in findings().items():
        assert re.findall(r"^- \*\*([\w ]+):\*\* \S", body, re.M) == [*PARTS], name
        assert "**Evidence.**" in body, name
        assert "**Cause.**" in body, name
        assert re.search(
            r"^    (\.venv/bin/dbcheck lab|(sudo )?python3 docs/findings/)", body, re.M
        ), name


def test_the_severity_of_a_section_is_that_of_its_row() -> None:
    rows = dict(re.findall(r"^\| \[.*?\]\(#(.*?)\) \|(.*)\|$", TEXT, re.M))
    for name, body in findings().items():
        (severity,) = re.findall(r"^- \*\*Severity:\*\* (\w+)\.$", body, re.M)
        assert rows[name].split("|")[1].strip() == severity, name


def test_each_script_and_its_report_are_shown() -> None:
    for name in SCRIPTS:
        assert f"python3 docs/findings/{name}.py" in TEXT
        assert f"(findings/{name}.md)" in TEXT
    for recording in RECORDINGS.values():
        assert f"docs/findings/recordings/{recording.name}" in TEXT
        assert f"(findings/{recording.stem}.md)" in TEXT
