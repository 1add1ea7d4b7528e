"""Shows in labs what a rule of the audit claims: the rows of the matrix `receipts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dbcheck.audit.rule import Rule
from dbcheck.audit.rules import find_rule
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.judge.results import ReceiptResult
from dbcheck.model.audited import RuleStatus
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.matrix_cycles import RowResults, run_in_labs
from dbcheck.runner.matrix_rows import Row, read_matrix

PRESET = "receipts"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The rows that show what a rule claims."""

    rule: Rule
    rows: tuple[Row, ...]


def find_receipt(name: str, seed: int) -> Receipt:
    """Return the receipt of the rule *name*; raise UsageError if it has none."""
    rule = find_rule(name)
    if rule is None:
        raise UsageError(
            f"unknown rule {name!r}",
            id=ErrorId.RULE_UNKNOWN,
            hint="docs/rules.md has the rules; dbcheck audit prints their names.",
        )
    rows = tuple(row for row in _read_rows(seed) if row.rule == name)
    if not rows:
        why = rule.no_receipt or "it claims no loss of commits"
        raise UsageError(
            f"{name} is not shown in a lab: {why}",
            id=ErrorId.RULE_NOT_SHOWN_IN_LAB,
            hint=f"Its source is: {rule.source}.",
        )
    return Receipt(rule, rows)


def list_rules_with_receipt() -> tuple[str, ...]:
    """Return the names of the rules that have a receipt."""
    return tuple(dict.fromkeys(row.rule for row in _read_rows(1)))


@cache
def _read_rows(seed: int) -> Sequence[Row]:
    return read_matrix(PRESET, (), target=False, seed=seed).rows


def cut_labs(
    found: Receipt, seed: int, view: PlainProgress, runs: Path
) -> list[ReceiptResult]:
    """Cut a lab of each row; return the result of each."""
    measured = [RowResults(row) for row in found.rows]
    run_in_labs(measured, seed, view, runs)
    return [make_receipt_result(found.rule, one) for one in measured]


def make_receipt_result(rule: Rule, one: RowResults) -> ReceiptResult:
    """Return the result of one row."""
    named = any(
        flag.rule == rule.id and flag.status is RuleStatus.UNSAFE
        for outcome in one.outcomes
        for flag in outcome.result.audit or ()
    )
    lossy = [outcome for outcome in one.outcomes if outcome.result.lost_in_cut]
    return ReceiptResult(
        rule=rule.id,
        row=one.row.name,
        named=named,
        cuts=sum(not outcome.result.uncut for outcome in one.outcomes),
        lost=lossy[0].judgement.reasons[0] if lossy else "",
        error=one.error,
        error_id=one.error_id,
    )
