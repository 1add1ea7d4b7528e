"""Sentences on the checks of servers over time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dbcheck.judge.checks import CheckResult, HistoryResult, ServerHistory
from dbcheck.model.verdict import (
    Verdict,
    compute_loss_ppm_max,
    describe_bound,
    format_count,
)
from dbcheck.report.words.run import number, sentence
from dbcheck.report.words.summary import Summary, Tile, format_moment

COLUMNS = ("began (UTC)", "kind", "cuts", "lost", "bound", "acks/s", "audit")
_SHOWN_MAX = 8


_ACTIONS = {
    Verdict.FAIL: "Do not rely on the servers that lost data. Their reports name the"
    " cause and the fix.",
    Verdict.INCONCLUSIVE: "Judge the checks that have no verdict: dbcheck reconcile"
    " FOLDER. Repeat those that do not count.",
    Verdict.PASS: "Check again after a change of a drive, firmware, kernel or setting.",
}


def summarize_history(result: HistoryResult) -> Summary:
    """Return the first box: how the newest check of each server ended."""
    servers = result.servers
    by_verdict: dict[Verdict | None, list[str]] = {}
    for server in servers:
        by_verdict.setdefault(server.newest.verdict, []).append(server.target)
    lossy = by_verdict.get(Verdict.FAIL, [])
    passed = by_verdict.get(Verdict.PASS, [])
    undecided = [
        server.target
        for server in servers
        if server.newest.verdict in (None, Verdict.INCONCLUSIVE)
    ]
    count = format_count(len(servers), "server")
    verdict = Verdict.PASS
    text = f"the newest check of {count} lost nothing"
    if lossy:
        verdict = Verdict.FAIL
        text = f"{len(lossy)} of {count} lost data in the newest check"
        text += f": {_list_names(lossy)}"
    elif undecided:
        verdict = Verdict.INCONCLUSIVE
        text = f"the newest check of {len(undecided)} of {count} shows nothing"
        text += f": {_list_names(undecided)}"
    return Summary(
        badge=verdict.value,
        verdict=verdict,
        headline=sentence(text),
        warning=" ".join(_list_warnings(result)),
        proof="",
        action=_ACTIONS[verdict],
        about=(),
        tiles=(
            Tile("servers", number(len(servers))),
            Tile("passed", number(len(passed)), "in the newest check"),
            Tile("lost data", number(len(lossy)), "in the newest check"),
            Tile("undecided", number(len(undecided)), "in the newest check"),
        ),
    )


def _list_warnings(result: HistoryResult) -> Iterator[str]:
    """Yield which losses the newest checks do not show, or may not."""
    failed = [one.target for one in result.servers if _find_earlier_failure(one)]
    if failed:
        yield (
            f"An earlier check lost data, and no later one shows that the cause is"
            f" gone: {_list_names(failed)}."
        )
    if result.unread:
        folders = format_count(len(result.unread), "folder")
        yield f"{folders} could not be read, and may hold a loss; see below."


def _list_names(targets: list[str]) -> str:
    more = len(targets) - _SHOWN_MAX
    shown = ", ".join(map(name_server, targets[:_SHOWN_MAX]))
    return shown + (f" and {more} more" if more > 0 else "")


def name_server(target: str) -> str:
    """Return a server's URL without what a reader needs not: the driver, the account.

    It is *target* itself if that is no URL.
    """
    found = re.fullmatch(r"(\w+)(?:\+\w+)?://(?:[^/@]*@)?(.+)", target)
    return f"{found[1]}://{found[2]}" if found else target


def list_tiles(server: ServerHistory) -> Iterator[Tile]:
    """Yield the figures of a server's newest check, with what changed since."""
    newest = server.newest
    yield Tile("checks", number(len(server.checks)), f"newest: {newest.began[:10]}")
    if (found := newest.statistics) and found.cuts:
        yield Tile("cuts", number(found.cuts), "in the newest check")
        if _has_bound(newest):
            yield Tile("bound", *describe_bound(found.losses, found.cuts))
    if newest.commits_per_s is not None:
        yield Tile("acks/s", f"{newest.commits_per_s:,.0f}", _describe_trend(server))
    if newest.findings is not None:
        note = f"{len(server.new_findings)} new" if server.new_findings else ""
        yield Tile("audit findings", number(len(newest.findings)), note)


def _describe_trend(server: ServerHistory) -> str:
    if server.rate_ratio is None:
        return ""
    return f"{(server.rate_ratio - 1) * 100:+.0f}% since the check before"


def format_verdict(check: CheckResult) -> str:
    """Return the verdict of a check as a word."""
    return "not judged" if check.verdict is None else check.verdict.value


def cells(check: CheckResult) -> Iterator[str]:
    """Yield a check as text, in the order of COLUMNS."""
    found, rate = check.statistics, check.commits_per_s
    yield format_moment(check.began).removesuffix(" UTC")
    yield check.kind
    yield number(found.cuts) if found else "-"
    yield number(found.losses) if found else "-"
    has_bound = found is not None and _has_bound(check)
    yield describe_bound(found.losses, found.cuts)[0] if found and has_bound else "-"
    yield "-" if rate is None else f"{rate:,.0f}"
    yield "-" if check.findings is None else number(len(check.findings))


def _has_bound(check: CheckResult) -> bool:
    """Return True if a bound holds for the cuts of a check.

    None holds that passes over a loss without a cut, nor while a cut is not judged: the
    check then has another upper bound than its cuts give.
    """
    found = check.statistics
    if found is None or not found.cuts:
        return False
    if check.verdict is Verdict.FAIL and not found.losses:
        return False
    return found.loss_ppm_max == compute_loss_ppm_max(found.losses, found.cuts)


def lines(server: ServerHistory) -> Iterator[str]:
    """Yield what the newest check showed, and what changed since the one before it."""
    newest = server.newest
    yield f"{format_verdict(newest)}: {newest.reason}"
    if failed := _find_earlier_failure(server):
        yield (
            f"FAIL on {failed.began[:10]}, and no later check shows that the cause"
            f" is gone: {failed.folder}"
        )
    yield f"server: {newest.server}"
    if newest.drives:
        yield f"drives: {'; '.join(newest.drives)}"
    if trend := _describe_trend(server):
        yield f"commits per second: {trend}"
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


def _find_earlier_failure(server: ServerHistory) -> CheckResult | None:
    """Return the newest FAIL, None if the newest check failed or none did."""
    if server.newest.verdict is Verdict.FAIL:
        return None
    failed = (one for one in server.checks if one.verdict is Verdict.FAIL)
    return next(failed, None)


def notes(result: HistoryResult) -> Iterator[str]:
    """Yield how the verdicts were obtained, and what could not be read."""
    yield "verdicts as they were stored: dbcheck report FOLDER judges a run again"
    for folder, why in result.unread.items():
        yield f"not read: {folder}: {why}"


def list_rows(server: ServerHistory) -> Iterator[tuple[str, ...]]:
    """Yield the checks of a server as rows of text, the verdict last."""
    for check in server.checks:
        yield (*cells(check), format_verdict(check))
