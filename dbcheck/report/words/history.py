"""Sentences on the checks of servers over time."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.judge.checks import CheckResult, HistoryResult, ServerHistory
from dbcheck.model.verdict import format_count, format_percent_up
from dbcheck.report.words.run import number

COLUMNS = ("began", "kind", "cuts", "lossy", "bound", "acks/s", "audit")
_SHOWN_MAX = 8


def format_verdict(check: CheckResult) -> str:
    """Return the verdict of a check as a word."""
    return "not judged" if check.verdict is None else check.verdict.value


def cells(check: CheckResult) -> Iterator[str]:
    """Yield a check as text, in the order of COLUMNS."""
    found, rate = check.statistics, check.commits_per_s
    yield check.began[:10]
    yield check.kind
    yield number(found.cuts) if found else "-"
    yield number(found.losses) if found else "-"
    yield format_percent_up(found.loss_ppm_max) if found and found.cuts else "-"
    yield "-" if rate is None else f"{rate:,.0f}"
    yield "-" if check.findings is None else number(len(check.findings))


def lines(server: ServerHistory) -> Iterator[str]:
    """Yield what the newest check showed, and what changed since the one before it."""
    newest = server.newest
    yield f"{format_verdict(newest)}: {newest.reason}"
    yield f"server: {newest.server}"
    if newest.drives:
        yield f"drives: {'; '.join(newest.drives)}"
    if server.rate_ratio is not None:
        percent = (server.rate_ratio - 1) * 100
        yield f"commits per second since the check before: {percent:+.0f}%"
    for text in server.new_findings[:_SHOWN_MAX]:
        yield f"new finding of the audit: {text}"
    for text in server.gone_findings[:_SHOWN_MAX]:
        yield f"finding of the audit that is gone: {text}"
    for one in server.changes[:_SHOWN_MAX]:
        before, now = one.before or "not known", one.now or "not known"
        yield f"changed since the check before: {one.name} was {before} and is {now}"
    if (more := len(server.changes) - _SHOWN_MAX) > 0:
        yield f"{format_count(more, 'more change')} since the check before"
    yield f"newest: {newest.folder}"


def notes(result: HistoryResult) -> Iterator[str]:
    """Yield how the verdicts were obtained, and what could not be read."""
    yield "verdicts as they were stored: dbcheck report FOLDER judges a run again"
    for folder, why in result.unread.items():
        yield f"not read: {folder}: {why}"


def list_rows(server: ServerHistory) -> Iterator[tuple[str, ...]]:
    """Yield the checks of a server as rows of text, the verdict last."""
    for check in server.checks:
        yield (*cells(check), format_verdict(check))
