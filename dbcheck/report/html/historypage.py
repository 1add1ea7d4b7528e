"""The page of a folder of checks: each server's newest first, and its trend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dbcheck.base.text import parse_utc
from dbcheck.judge.checks import CheckResult, HistoryResult, ServerHistory
from dbcheck.model.verdict import Verdict, format_count
from dbcheck.report.html.runcharts import Figure
from dbcheck.report.html.svg import Axis, Plot, linear
from dbcheck.report.words import history as words

_HEIGHT = 180
_CHECKS_MAX = 200  # in the table and the chart of a server: a page must stay small
_TICKS_MAX = 6
_MONTHS_S = 300 * 86_400  # from so long on a tick has a month and a year
_CLASS_OF_VERDICT = {Verdict.PASS: "good", Verdict.FAIL: "bad"}
_LEGEND = {
    "good": ("good", "PASS"),
    "bad": ("cross bad", "FAIL"),
    "open": ("cross open", "INCONCLUSIVE or not judged"),
}


def make_history_values(result: HistoryResult) -> dict[str, Any]:
    """Return the values of templates/history.html."""
    return {
        "title": "Checks over time",
        "about": ("Checks over time, the newest first", result.folder),
        "summary": words.summarize_history(result),
        "columns": (*words.COLUMNS, "verdict"),
        "servers": list(map(_make_server_values, result.servers)),
        "judged": [verdict.value for verdict in Verdict],
        "notes": list(words.notes(result)),
    }


def _make_server_values(server: ServerHistory) -> dict[str, Any]:
    left_out = len(server.checks) - _CHECKS_MAX
    older = format_count(max(0, left_out), "older check")
    return {
        "name": words.name_server(server.target),
        "verdict": words.format_verdict(server.newest),
        "wrong": server.newest.verdict is not Verdict.PASS,
        "lines": list(words.lines(server)),
        "tiles": list(words.list_tiles(server)),
        "figure": _make_rate_figure(server.checks[:_CHECKS_MAX]),
        "rows": list(words.list_rows(server))[:_CHECKS_MAX],
        "left_out": f"{older} not shown." if left_out > 0 else "",
    }


def _make_rate_figure(checks: Sequence[CheckResult]) -> Figure | None:
    """Return the chart of the rate over time; None with fewer than two rates."""
    found = [
        (began.timestamp(), check.commits_per_s, check)
        for check in checks
        if check.commits_per_s is not None
        and (began := parse_utc(check.began)) is not None
    ]
    found.sort(key=lambda one: one[0])
    if len(found) < 2 or found[0][0] == found[-1][0]:
        return None
    rates = [rate for _, rate, _ in found]
    about = (
        f"{format_count(len(found), 'check')}: {rates[0]:,.0f} commits per second in"
        f" the oldest, {rates[-1]:,.0f} in the newest."
    )
    x = _make_date_axis([moment for moment, _, _ in found])
    plot = Plot("Rate", about, x, linear(max(rates), "commits/s"), _HEIGHT)
    plot.line([(moment, rate) for moment, rate, _ in found], "first")
    kinds = []
    for moment, rate, check in found:
        kind = _CLASS_OF_VERDICT.get(check.verdict, "open") if check.verdict else "open"
        kinds.append(kind)
        text = f"{check.began[:10]}: {words.format_verdict(check)}"
        plot.mark(moment, rate, kind, f"{text}, {rate:,.0f} commits/s")
    legend = dict(one for kind, one in _LEGEND.items() if kind in kinds)
    return Figure("Rate of commits", plot.drawn(), legend, about)


def _make_date_axis(moments: Sequence[float]) -> Axis:
    """Return an axis from the oldest to the newest moment, some of which are named."""
    first, last = moments[0], moments[-1]
    shape = "%b %d" if last - first < _MONTHS_S else "%b %Y"

    def format_moment(moment: float) -> str:
        return datetime.fromtimestamp(moment, UTC).strftime(shape)

    ticks = {format_moment(moment): moment for moment in reversed(moments)}
    named = sorted(ticks.values())[:: -(-len(ticks) // _TICKS_MAX)]
    end = last + (last - first) / 25  # room for the name of the newest
    return Axis(first, end, tuple(named), "date of the check", format_moment)
