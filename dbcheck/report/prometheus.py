"""A report as metrics, for the textfile collector of Prometheus's node exporter.

A file in its folder, written whole, is read at each scrape
(https://github.com/prometheus/node_exporter#textfile-collector).  Alert on
dbcheck_verdict{verdict="PASS",kind!="control"} == 0, which an INCONCLUSIVE check raises
too, and on dbcheck_checked_timestamp_seconds for a check that is too old.  A control
that passed has lost rows, as it must, and says nothing about the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from dbcheck.base.text import parse_utc
from dbcheck.judge.result import RunResult
from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    MatrixResult,
    RowResult,
)
from dbcheck.model.explored import ExploreResult
from dbcheck.model.outage import OutageResult, OutageTotal
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import PPM, Statistics, Verdict
from dbcheck.report.subject import RunSubject, Verdicts, quote_all_texts

_LABELS = ("kind", "target", "configuration")
_HELP = {
    "dbcheck_verdict": "1 for the verdict that was reached, 0 for the others.",
    "dbcheck_checked_timestamp_seconds": "When the newest cycle began or ended.",
    "dbcheck_confirmed_commits": "Commits that the witness holds; of a copy, those of"
    " them that it must have.",
    "dbcheck_lost_rows": "Rows that were acknowledged and are missing or wrong.",
    "dbcheck_commits_per_second": "Acknowledged commits per second of load.",
    "dbcheck_commit_latency_seconds": "Time from a commit to its acknowledgement.",
    "dbcheck_copy_seconds": "How long the program took that takes the copy.",
    "dbcheck_restore_seconds": "How long the program took that restores it.",
    "dbcheck_lost_seconds": "How long before the loss of the server the oldest commit"
    " was acknowledged that a restore lacks.",
    "dbcheck_cuts": "Power cuts that count.",
    "dbcheck_lossy_cuts": "Power cuts that lost something.",
    "dbcheck_inconclusive_cycles": "Cycles that do not count.",
    "dbcheck_time_to_recover_seconds": "From the last commit before the cut to the next"
    " one that lasted; of several cuts, the median.",
    "dbcheck_time_to_recover_p95_seconds": "The same, of 95 in 100 cuts at most.",
    "dbcheck_time_to_recover_max_seconds": "The same, of every cut at most.",
    "dbcheck_time_to_recover_exceeded_cuts": "Cuts after which no commit lasted as long"
    " as dbcheck tried.",
    "dbcheck_answered_and_lost_commits": "Commits that were answered after the cut and "
    "did not last.",
    "dbcheck_loss_ratio_upper_bound": "At most this share of cuts loses, at 95% "
    "confidence.",
}


@dataclass(frozen=True, slots=True)
class _Measured:
    """One subject of the metrics; a figure that is not known is left out."""

    kind: str
    target: str
    configuration: str
    verdict: Verdict | None
    statistics: Statistics | None
    figures: Mapping[str, float | None]
    latency_s: Mapping[str, float] = field(default_factory=dict)


def format_metrics(subject: Verdicts) -> str:
    """Return the report in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    gauges: dict[str, Gauge] = {}

    def write(name: str, labels: Mapping[str, str], value: float) -> None:
        if name not in gauges:
            gauges[name] = Gauge(name, _HELP[name], [*labels], registry=registry)
        gauges[name].labels(**labels).set(value)

    for one in _measure_subject(quote_all_texts(subject)):
        labels = dict(
            zip(_LABELS, (one.kind, one.target, one.configuration), strict=True)
        )
        for verdict in Verdict:
            named = {**labels, "verdict": verdict.value}
            write("dbcheck_verdict", named, float(verdict is one.verdict))
        for name, value in {**_list_counts(one), **one.figures}.items():
            if value is not None:
                write(f"dbcheck_{name}", labels, value)
        for quantile, seconds in one.latency_s.items():
            named = {**labels, "quantile": quantile}
            write("dbcheck_commit_latency_seconds", named, seconds)
    return generate_latest(registry).decode()


def _measure_subject(subject: Verdicts) -> Iterator[_Measured]:
    if isinstance(subject, RunSubject):
        yield _measure_run(subject.result)
    elif isinstance(subject, CampaignsResult):
        for each in subject.targets:
            yield _measure_campaign(each)
            yield from _measure_promises(each)
    elif isinstance(subject, ExploreResult):
        yield _Measured("explore", "", "", subject.verdict, None, {})
    else:
        yield from _measure_rows(subject)


def _measure_run(result: RunResult) -> _Measured:
    lost = result.rows_lost
    figures: dict[str, float | None] = {
        "checked_timestamp_seconds": _parse_start_s(result.run),
        "confirmed_commits": result.confirmed,
        "lost_rows": None if lost is None else sum(lost),
        "commits_per_second": result.load.rate if result.load else None,
        **_list_times_of_run(result.outage),
    }
    if result.copy:
        figures["copy_seconds"] = result.copy.taken_s
        figures["restore_seconds"] = result.copy.restore_s
        reached_s = result.copy.reached_s
        figures["lost_seconds"] = None if reached_s is None else reached_s[1]
    return _Measured(
        *(
            result.kind,
            result.target,
            result.workload,
            result.verdict,
            result.statistics,
        ),
        figures,
        _list_latencies_s(result.load),
    )


def _measure_campaign(result: CampaignResult) -> _Measured:
    cycles = [cycle for cycle in result.cycles if cycle.number]
    ended = [moment for c in cycles if (moment := _parse_moment_s(c.ended)) is not None]
    lost = result.rows_lost
    figures = {
        "checked_timestamp_seconds": max(ended, default=None),
        "confirmed_commits": result.confirmed,
        "lost_rows": None if lost is None else sum(lost),
        "commits_per_second": result.commits_per_s,
        **_list_times_of_cuts(result.outage),
    }
    if result.promises:  # each has a bound of its own
        figures["loss_ratio_upper_bound"] = None
    kind = "runs" if result.chosen else "campaign"
    named = (kind, result.name, "", result.verdict, result.statistics)
    return _Measured(*named, figures)


def _measure_promises(result: CampaignResult) -> Iterator[_Measured]:
    """Yield what the cuts of each promise show, named as its configuration."""
    for name, found in result.promises.items():
        figures = {
            "confirmed_commits": found.confirmed,
            "lost_rows": found.lost,
            "commits_per_second": found.commits_per_s,
            **_list_times_of_cuts(found.outage),
        }
        named = ("campaign", result.name, name, found.verdict, found.statistics)
        yield _Measured(*named, figures)


def _list_times_of_run(outage: OutageResult | None) -> dict[str, float | None]:
    if outage is None:
        return {}
    return {
        "time_to_recover_seconds": outage.seconds,
        "answered_and_lost_commits": sum(outage.not_lasting.values()),
    }


def _list_times_of_cuts(outage: OutageTotal | None) -> dict[str, float | None]:
    if outage is None:
        return {}
    return {
        "time_to_recover_seconds": outage.median_s,
        "time_to_recover_p95_seconds": outage.p95_s,
        "time_to_recover_max_seconds": outage.max_s,
        "time_to_recover_exceeded_cuts": outage.longer,
        "answered_and_lost_commits": outage.not_lasting,
    }


def _measure_rows(result: MatrixResult) -> Iterator[_Measured]:
    for row in result.rows:
        started = [_parse_start_s(cycle.run) for cycle in row.cycles]
        known = [moment for moment in started if moment is not None]
        figures = {
            "checked_timestamp_seconds": max(known, default=None),
            "confirmed_commits": sum(cycle.confirmed or 0 for cycle in row.cycles),
            "lost_rows": row.lost if row.cycles else None,
            "commits_per_second": row.commits_per_s,
        }
        latency = {} if row.p99_ms is None else {"0.99": row.p99_ms / 1e3}
        verdict = row.shown_verdict
        cuts = None if row.restore else row.statistics
        named = ("matrix", _find_target(row), row.name, verdict, cuts)
        yield _Measured(*named, figures, latency)


def _find_target(row: RowResult) -> str:
    """Return the target of a row's cycles, "" if each was a lab of its own."""
    targets = {cycle.target for cycle in row.cycles if not cycle.lab}
    return targets.pop() if len(targets) == 1 else ""


def _list_counts(one: _Measured) -> dict[str, float | None]:
    if (statistics := one.statistics) is None:
        return {}
    # A bound of cuts alone would pass over a loss without one.
    without_cut = one.verdict is Verdict.FAIL and not statistics.losses
    shows_bound = statistics.cuts and not without_cut
    bound = statistics.loss_ppm_max / PPM
    return {
        "cuts": statistics.cuts,
        "lossy_cuts": statistics.losses,
        "inconclusive_cycles": statistics.inconclusive,
        "loss_ratio_upper_bound": bound if shows_bound else None,
    }


def _list_latencies_s(load: LoadRecord | None) -> dict[str, float]:
    """Return quantile -> seconds."""
    found = load.latency_ms if load else {}
    return {
        str(int(name[1:]) / 10 ** len(name[1:])): ms / 1e3
        for name, ms in found.items()
        if name.startswith("p") and name[1:].isdecimal()
    }


def _parse_start_s(run: str) -> float | None:
    """Return the start of a run, by its id; None if it is no id of a run."""
    try:
        moment = datetime.strptime(run[:15], "%Y%m%d-%H%M%S")
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC).timestamp()


def _parse_moment_s(text: str) -> float | None:
    moment = parse_utc(text)
    return moment.timestamp() if moment else None
