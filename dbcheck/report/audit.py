"""The reports on an audit, and on what labs showed of a rule, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.audit.result import AuditResult, FindingResult, SubjectResult
from dbcheck.audit.rule import Rule, SubjectKind
from dbcheck.judge.results import ReceiptResult
from dbcheck.model.audited import RuleStatus, Severity
from dbcheck.report.terminal import (
    BAD,
    DOUBTFUL,
    GOOD,
    MINOR,
    NOTED,
    WRONG,
    style_badge,
)
from dbcheck.report.words.run import with_id

_STYLES = {
    Severity.ERROR: style_badge(BAD),
    Severity.WARNING: style_badge(DOUBTFUL),
    Severity.NOTE: style_badge(NOTED),
}
_UNKNOWN = "not known"
_LIMIT = (
    "An audit reads what server, kernel and drive say of themselves. A drive, a"
    " controller or a hypervisor that answers flushes before they are done passes it."
    " Only a power cut finds that: dbcheck run."
)
_SHOWN_FACTS = {  # of a subject, in the storage section
    SubjectKind.FILESYSTEM: ("filesystem", "mount options"),
    SubjectKind.LAYER: ("kind", "kernel's write cache", "cache mode"),
    SubjectKind.DRIVE: (
        "model",
        "firmware",
        "write cache",
        "kernel's write cache",
        "FUA",
        "atomic write unit",
        "health",
    ),
    SubjectKind.CONTROLLER: ("write-back cache", "cache of its drives", "battery"),
    SubjectKind.HOST: ("kernel", "virtual machine", "container", "cloud"),
    SubjectKind.POD: ("volume", "node", "nodes of the pods", "kept on different nodes"),
    SubjectKind.CLAIM: (
        "storage class",
        "driver",
        "kept by",
        "copies",
        "access mode",
        "reclaim policy",
    ),
}
_OF_KUBERNETES = (SubjectKind.POD, SubjectKind.CLAIM)  # shown without the host, too


def draw_audit(result: AuditResult) -> RenderableType:
    """Return the whole report on one server."""
    title = Text.assemble((result.name or result.target, "bold"), f"  {result.server}")
    if result.error:
        why = with_id(result.error, result.error_id)
        return Group("", title, Text(f"  not audited: {why}", WRONG), "")
    if result.name:
        title.append(f"  {result.target}")
    style = WRONG if result.host_error else ""
    parts: list[RenderableType] = [
        "",
        title,
        Text(f"  {summarize_findings(result)}", style),
    ]
    if result.host_error:
        why = with_id(result.host_error, result.host_error_id)
        parts.append(Text(f"  its host could not be read: {why}"))
    parts.append("")
    unsafe = [f for f in result.findings if f.status is RuleStatus.UNSAFE]
    unknown = [f for f in result.findings if f.status is RuleStatus.UNKNOWN]
    if unsafe:
        parts += [_draw_findings(unsafe), ""]
    if unknown:
        parts += [_draw_unknown(unknown, result.host_error), ""]
    looked_at = result.subjects if result.host else _select_kubernetes(result)
    if looked_at:
        parts += [Text("What was looked at", "bold"), _draw_stack(looked_at), ""]
    parts += [Text(_LIMIT, "italic"), ""]
    return Group(*parts)


def draw_audits(results: Sequence[AuditResult]) -> RenderableType:
    """Return one report for each server, and a table of all where there are several."""
    parts = [draw_audit(result) for result in results]
    if len(results) > 1:
        parts.append(_draw_overview(results))
    return Group(*parts)


def summarize_findings(result: AuditResult) -> str:
    """Return the number of findings of each kind, in words."""
    counts = [
        f"{number} {severity.value}{'s' if number != 1 else ''}"
        for severity in Severity
        if (number := result.count(severity))
    ]
    counts = counts or ["no unsafe setting found"]
    if result.unknown:
        counts.append(f"{result.unknown} {_UNKNOWN}")
    shown = f"{', '.join(counts)}; {result.safe} safe"
    if result.host:
        return shown
    audited = "the server alone was"
    if _select_kubernetes(result):
        audited = "the server and its pods were"
    if result.host_error:
        return f"{audited} audited, not its host: {shown}"
    return f"{audited} audited, as no host of it was named: {shown}"


def _select_kubernetes(result: AuditResult) -> Sequence[SubjectResult]:
    """Return the pods and claims, none if not even the pods could be read."""
    found = [each for each in result.subjects if each.kind in _OF_KUBERNETES]
    is_read = any(
        fact.value is not None for each in found for fact in each.facts.values()
    )
    return found if is_read else []


def _draw_findings(findings: Sequence[FindingResult]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 1, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in findings:
        mark = Text(f" {each.severity.value} ", _STYLES[each.severity])
        sign = " =" if each.subject_kind is SubjectKind.SERVER else ":"
        body = Group(
            Text.assemble(
                (f"{each.fact}{sign} {each.value or '(empty)'}", "bold"),
                f"  {each.subject}",
            ),
            Text(each.why),
            Text.assemble(("Fix: ", "bold"), each.fix),
            Text(f"{each.rule}; read by {each.read_by}", MINOR),
        )
        table.add_row(mark, body)
    return table


def _draw_unknown(findings: Sequence[FindingResult], host_error: str) -> RenderableType:
    """Return the facts that are not known, below each reason those that it explains."""
    reasons: dict[str, list[FindingResult]] = {}
    for each in findings:
        is_of_host = host_error and each.unread == host_error
        why = "its host could not be read" if is_of_host else each.unread
        reasons.setdefault("; ".join(filter(None, (why, each.remedy))), []).append(each)
    parts: list[RenderableType] = [Text("Not known, so not counted as safe", "bold")]
    for reason, explained in reasons.items():
        table = Table.grid(padding=(0, 2))
        for each in explained:
            table.add_row(f"    {each.fact}", Text(each.subject, MINOR))
        parts += [Padding(Text(reason), (0, 0, 0, 2)), table]
    return Group(*parts)


def _draw_stack(subjects: Sequence[SubjectResult]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for subject in subjects:
        if subject.kind in _SHOWN_FACTS:
            facts = ", ".join(_format_facts(subject))
            table.add_row(
                Text(f"  {subject.kind.value}", MINOR),
                Text(subject.name, overflow="fold"),
                Text(facts, MINOR, overflow="fold"),
            )
    return table


def _format_facts(subject: SubjectResult) -> Iterator[str]:
    for name in _SHOWN_FACTS[subject.kind]:
        fact = subject.facts.get(name)
        if fact is not None:
            shown = "not known" if fact.value is None else fact.value
            yield shown if name in ("filesystem", "kind") else f"{name}: {shown}"


def _draw_overview(results: Sequence[AuditResult]) -> RenderableType:
    """Return the counts of each target, and below them the first finding of each.

    The id of a rule needs half of a terminal's width, and is copied as a whole.
    """
    table = Table(title="All targets", title_justify="left", title_style="bold")
    table.add_column("target", overflow="fold")
    for severity in Severity:
        table.add_column(f"{severity.value}s", justify="right")
    table.add_column(_UNKNOWN, justify="right")
    table.add_column("safe", justify="right")
    first = Table.grid(padding=(0, 2))
    first.add_column(overflow="fold")
    first.add_column(no_wrap=True)
    for result in results:
        worst = next(
            (f.rule for f in result.findings if f.status is RuleStatus.UNSAFE), "-"
        )
        numbers = [str(result.count(severity)) for severity in Severity]
        numbers += [str(result.unknown), str(result.safe)]
        if result.error:
            numbers, worst = ["-"] * len(numbers), "not audited"
        elif result.host_error:
            worst = f"host not read; {worst}" if worst != "-" else "host not read"
        name = result.name or result.target
        table.add_row(name, *numbers)
        first.add_row(f"  {name}", worst)
    title = Text("The worst of each", "bold")
    return Padding(Group(table, title, first), (0, 0, 1, 0))


def draw_receipt(rule: Rule, results: Sequence[ReceiptResult]) -> RenderableType:
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
