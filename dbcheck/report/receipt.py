"""What labs showed of a rule of the audit, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.audit.rule import Rule
from dbcheck.judge.results import ReceiptResult
from dbcheck.report.style import BAD, GOOD, MINOR
from dbcheck.report.words.run import with_id


def receipt_report(rule: Rule, results: Sequence[ReceiptResult]) -> RenderableType:
    """Return the claim, and one row for each configuration."""
    table = Table(title="In the lab", title_justify="left", title_style="bold")
    table.add_column("configuration", overflow="fold")
    table.add_column("named by the audit")
    table.add_column("cuts", justify="right")
    table.add_column("what a cut lost", overflow="fold")
    for each in results:
        named = Text("yes", GOOD) if each.named else Text("no", BAD)
        lost = each.lost or with_id(each.error, each.error_id) or "-"
        table.add_row(each.row, named, str(each.cuts), lost)
    title = Text.assemble((rule.id, "bold"), f"  {rule.severity.value}")
    source = Text(f"Source: {rule.source}", MINOR)
    return Group("", title, Text(rule.why), source, "", table, "")
