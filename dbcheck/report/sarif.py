"""An audit as SARIF 2.1.0 (OASIS), which code scanning and dashboards read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dbcheck.audit.result import AuditResult, AuditsResult, FindingResult
from dbcheck.audit.rule import Rule
from dbcheck.audit.rules import list_all_rules
from dbcheck.model.audited import RuleStatus
from dbcheck.report.words.run import with_id

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def make_sarif(result: AuditsResult, file: str) -> dict[str, Any]:
    """Return the findings on all servers as one SARIF log.

    file: the inventory that describes them, or what stands for the command line; each
    result must name a file to be shown by GitHub's code scanning.
    """
    rules = list_all_rules()
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    driver = {
        "name": "dbcheck",
        "version": result.dbcheck,
        "rules": [_make_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [_make_invocation(result)],
        "results": [
            one
            for target in result.targets
            for one in _make_results(target, numbers, file)
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _make_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": f"{rule.subject.value}: {rule.fact}"},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"Fix: {rule.fix}\nSource: {rule.source}"},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _make_invocation(result: AuditsResult) -> dict[str, Any]:
    failed = [
        f"{_name_target(target)} was not audited:"
        f" {with_id(target.error, target.error_id)}"
        if target.error
        else f"the host of {_name_target(target)} could not be read:"
        f" {with_id(target.host_error, target.host_error_id)}"
        for target in result.targets
        if target.error or target.host_error
    ]
    notes = [{"level": "error", "message": {"text": text}} for text in failed]
    return {"executionSuccessful": not failed, "toolExecutionNotifications": notes}


def _make_results(
    target: AuditResult, numbers: dict[str, int], file: str
) -> Iterator[dict[str, Any]]:
    for each in target.findings:
        unsafe = each.status is RuleStatus.UNSAFE
        logical = f"{_name_target(target)}/{each.subject}"
        yield {
            "ruleId": each.rule,
            "ruleIndex": numbers[each.rule],
            # What is not known is open, and may have no level (SARIF 3.27.9, 3.27.10).
            "kind": "fail" if unsafe else "open",
            "level": each.severity.value if unsafe else "none",
            "message": {"text": _format_text(target, each)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": file},
                        "region": {"startLine": 1},
                    },
                    "logicalLocations": [
                        {"fullyQualifiedName": logical, "kind": "resource"}
                    ],
                }
            ],
            "partialFingerprints": {
                "dbcheck/1": f"{_name_target(target)}/{each.rule}/{each.subject}"
            },
        }


def _format_text(target: AuditResult, each: FindingResult) -> str:
    where = f"{_name_target(target)}, {each.subject}: {each.fact}"
    if each.status is RuleStatus.UNSAFE:
        return f"{where} = {each.value}. {each.why} Fix: {each.fix}"
    remedy = f" {each.remedy}." if each.remedy else ""
    return f"{where} is not known: {each.unread}.{remedy}"


def _name_target(target: AuditResult) -> str:
    return target.name or target.target
