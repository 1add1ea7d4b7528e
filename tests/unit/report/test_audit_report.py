"""The report on an audit says what was not read, and gives each reason once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.audit.result import AuditResult, FindingResult
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.rules import RULES
from dbcheck.model.audited import RuleStatus, Severity
from dbcheck.report.audit import draw_audit, draw_audits, summarize_findings
from dbcheck.report.console import make_console

REASON = "the account may not read the drive; log in as root"


def unknown(fact: str) -> FindingResult:
    return FindingResult(
        rule="rule",
        severity=Severity.WARNING,
        status=RuleStatus.UNKNOWN,
        subject_kind=SubjectKind.DRIVE,
        subject="sda",
        fact=fact,
        value=None,
        safe=(),
        unsafe=(),
        why="",
        fix="",
        source="",
        read_by="",
        unread=REASON,
        remedy="",
    )


FINDINGS = (unknown("write cache"), unknown("flushes"))
RESULT = AuditResult("db1", "postgresql://db1/x", "PostgreSQL 15", "", FINDINGS, 29, ())


def drawn(result: AuditResult) -> str:
    console = make_console(width=80)
    with console.capture() as capture:
        console.print(draw_audit(result))
    return capture.get()


@pytest.mark.parametrize(
    ("host", "host_error", "is_whole"),
    [("db1", "", True), ("", "", False), ("", "no route to host", False)],
)
def test_the_headline_says_whether_the_host_was_read(
    host: str, host_error: str, is_whole: bool
) -> None:
    found = summarize_findings(replace(RESULT, host=host, host_error=host_error))
    assert found.startswith("the server alone") is not is_whole


def test_a_reason_stands_once_above_the_facts_that_it_explains() -> None:
    text = drawn(replace(RESULT, host="db1"))
    assert text.count(REASON) == 1
    assert text.index(REASON) < text.index("write cache") < text.index("flushes")


def test_the_reason_for_an_unread_host_stands_at_the_top_alone() -> None:
    text = drawn(replace(RESULT, host_error=REASON))
    assert text.count(REASON) == 1
    assert text.index(REASON) < text.index("Not known")


def test_a_fact_without_a_reason_is_no_host_that_could_not_be_read() -> None:
    finding = replace(FINDINGS[0], unread="", remedy="log in as root")
    text = drawn(replace(RESULT, host="db1", findings=(finding,)))
    assert "log in as root" in text
    assert "its host could not be read" not in text


def test_the_worst_rule_of_several_targets_is_not_broken_at_80_columns() -> None:
    ids = [rule.id for rules in RULES.values() for rule in rules]
    rule = max(ids, key=len)
    finding = replace(unknown("flushes"), rule=rule, status=RuleStatus.UNSAFE)
    result = replace(RESULT, name="db1.example.net", findings=(finding,))
    console = make_console(width=80)
    with console.capture() as capture:
        console.print(draw_audits([result, result]))
    table = capture.get().partition("All targets")[2]
    assert table.count(f"db1.example.net  {rule}") == 2
