"""A report as JUnit XML, for CI: one test case for each target.

FAIL is a failure.  INCONCLUSIVE is an error and never a skip: CI systems show skipped
tests as passed, and a check that showed nothing must not look like one that passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from dbcheck.base.text import parse_utc
from dbcheck.judge.result import Checked, RunResult
from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    MatrixResult,
    RowResult,
)
from dbcheck.model.cut import LabCut
from dbcheck.model.explored import ExploreResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.subject import RunSubject, Verdicts, quote_all_texts
from dbcheck.report.words import campaign as of_campaign
from dbcheck.report.words import cluster as of_cluster
from dbcheck.report.words import explored as of_explored
from dbcheck.report.words import matrix as of_matrix
from dbcheck.report.words import promises as of_promises
from dbcheck.report.words import restores as of_restores
from dbcheck.report.words import run as of_run
from dbcheck.report.words.explored import describe_lab_server, summarize_exploration
from dbcheck.report.words.summary import Summary, summarize_run


def format_junit(subject: Verdicts) -> str:
    """Return the report as the text of an XML file."""
    subject = quote_all_texts(subject)
    if isinstance(subject, RunSubject):
        suite = _make_run_suite(subject)
    elif isinstance(subject, CampaignsResult):
        suite = _make_campaigns_suite(subject)
    elif isinstance(subject, ExploreResult):
        suite = _make_exploration_suite(subject)
    else:
        suite = _make_matrix_suite(subject)
    whole = JUnitXml("dbcheck")
    whole.add_testsuite(suite)
    whole.update_statistics()  # type: ignore[no-untyped-call]
    text: bytes = whole.tostring()  # type: ignore[no-untyped-call]
    return text.decode() + "\n"


def _make_run_suite(subject: RunSubject) -> TestSuite:
    result = subject.result
    summary = summarize_run(result)
    body = [
        *_list_summary_lines(summary),
        *of_run.caveats(result),
        *of_cluster.list_sentences(result),
        *(f"{one.cause.value}: {one.reason}" for one in result.diagnosis),
        *(line for section in of_run.sections(result) for line in section.lines),
    ]
    more = [
        *(f"{name}: {value}" for name, value in of_run.facts(result)),
        of_run.scope(result),
    ]
    kind = f"dbcheck.{result.kind}"
    why = of_run.headline(result)
    case = _make_case(kind, _name_run(result), result.verdict, why, body, more)
    if (load := result.load) is not None and load.last_ack_us is not None:
        case.time = (load.last_ack_us - load.began_us) / 1e6  # the load's seconds
    named = {"run": result.run, "server": result.server, "workload": result.workload}
    named |= {"target": result.target, "seed": str(result.seed)}
    if (outage := result.outage) is not None and outage.seconds is not None:
        named["time_to_recover_s"] = str(outage.seconds)
    if copy := result.copy:
        lost_s = copy.reached_s[1] if copy.reached_s else None
        taken = (
            ("copy_s", copy.taken_s),
            ("restore_s", copy.restore_s),
            ("lost_s", lost_s),
        )
        named |= {name: str(value) for name, value in taken if value is not None}
    return _make_suite("run", [case], named, result.checked)


def _name_run(result: RunResult) -> str:
    """Return the name of a run's case, by which CI follows it from run to run.

    A lab's URL has a port that is drawn anew for each lab, so its case is named by what
    is tested in it.
    """
    return _name_lab(result.lab, result.workload) if result.lab else result.target


def _name_lab(lab: Mapping[str, Any], *tested: str) -> str:
    """Return the name of what is *tested* in a lab; its spec may be forged."""
    settings = lab.get("settings")
    pairs = settings.items() if isinstance(settings, Mapping) else ()
    server = describe_lab_server(lab)
    if lab.get("cut") == LabCut.PROCESS.value:
        server = f"{lab.get('engine', '')}, server process killed"
    cluster = lab.get("cluster")
    kind = cluster.get("topology") if isinstance(cluster, Mapping) else None
    parts = [
        f"lab {server}",
        *([str(kind or "cluster")] if cluster else []),
        *tested,
        *(f"{name}={value}" for name, value in sorted(pairs, key=str)),
    ]
    return ", ".join(parts)


def _make_exploration_suite(result: ExploreResult) -> TestSuite:
    summary = summarize_exploration(result)
    body = [
        *filter(None, [summary.detail]),
        *_list_summary_lines(summary),
        *of_explored.coverage_sentences(result),
    ]
    name = _name_lab(result.lab)
    case = _make_case(
        *("dbcheck.explore", name, result.verdict, summary.headline, body)
    )
    named = {"folder": result.folder, "seed": str(result.seed)}
    return _make_suite("explore", [case], named, Checked())


def _list_summary_lines(summary: Summary) -> Iterator[str]:
    """Yield how much the result proves, what to do next, and what was checked."""
    yield from filter(None, (summary.warning, summary.proof))
    yield f"Next: {summary.action}"
    yield from (f"{name}: {value}" for name, value in summary.about)
    for tile in summary.tiles:
        yield f"{tile.name}: {' '.join(filter(None, (tile.value, tile.note)))}"


def _make_campaigns_suite(subject: CampaignsResult) -> TestSuite:
    newest = max(
        (result.checked for result in subject.targets),
        key=lambda checked: checked.begun,
        default=Checked(),
    )
    cases = map(_make_campaign_case, subject.targets)
    kinds = {_name_kind(result) for result in subject.targets}
    kind = kinds.pop() if len(kinds) == 1 else "campaign"
    return _make_suite(kind, cases, {"folder": subject.folder}, newest)


def _name_kind(result: CampaignResult) -> str:
    return "runs" if result.chosen else "campaign"


def _make_campaign_case(result: CampaignResult) -> TestCase:
    summary = of_campaign.summarize_campaign(result)
    body = [
        *_list_summary_lines(summary),
        *of_promises.list_lines(result),
        *of_campaign.lines(result),
    ]
    kind = f"dbcheck.{_name_kind(result)}"
    case = _make_case(kind, result.name, result.verdict, summary.headline, body)
    if result.error and result.verdict is not Verdict.FAIL:
        text = of_run.with_id(result.error, result.error_id)
        case.result = [_explain(Error(text, "ended early"), body)]
    return case


def _make_matrix_suite(result: MatrixResult) -> TestSuite:
    cases = [_make_row_case(row, result) for row in result.rows]
    first = of_matrix.find_first_check(result)
    return _make_suite("matrix", cases, {"seed": str(result.seed)}, first)


def _make_row_case(row: RowResult, result: MatrixResult) -> TestCase:
    """Return the case of a configuration: it passes if it came out as expected."""
    names = (*of_matrix.columns(result), "verdict")
    shown = row.shown_verdict
    verdict = shown.value if shown else "none"
    values = (*of_matrix.cells(row, result), verdict)
    lines = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
    case = TestCase(row.name, "dbcheck.matrix")
    if row.restore:
        lines.append(of_restores.describe_copies(row.cycles))
    else:
        if without_cut := of_matrix.losses_without_cut(row.cycles):
            lines.append(f"FAIL: {without_cut}")
        lines.append(row.statistics.sentence)
    if row.as_expected:
        case.system_out = "\n".join(lines)
        return case
    expected = row.expect.value if row.expect else "PASS or FAIL"
    message = f"expected {expected}, got {verdict}"
    if row.error:
        message = of_run.with_id(row.error, row.error_id)
    known = row.verdict in (Verdict.PASS, Verdict.FAIL) and not row.error
    case.result = [_explain((Failure if known else Error)(message, verdict), lines)]
    case.system_out = "\n".join(lines)
    return case


def _make_case(
    kind: str,
    name: str,
    verdict: Verdict,
    why: str,
    body: Sequence[str],
    more: Sequence[str] = (),
) -> TestCase:
    """Return a case; body: lines for a failure too, more: for its output alone.

    The failure comes before the output, as in the schema of Ant's JUnit task.
    """
    case = TestCase(name, kind)
    if verdict is Verdict.FAIL:
        case.result = [_explain(Failure(why, verdict.value), body)]
    elif verdict is Verdict.INCONCLUSIVE:
        case.result = [_explain(Error(why, verdict.value), body)]
    case.system_out = "\n".join([f"{verdict.value}: {why}", *body, *more])
    return case


def _explain(result: Failure | Error, lines: Sequence[str]) -> Failure | Error:
    """Return a failure or an error with *lines* as its body."""
    result.text = "\n".join([result.message or "", *lines])
    return result


def _make_suite(
    kind: str,
    cases: Iterable[TestCase],
    properties: Mapping[str, str],
    checked: Checked,
) -> TestSuite:
    """Return a suite; its properties come first, as Ant's and Jenkins's schemas ask."""
    suite = TestSuite(f"dbcheck {kind}")
    if moment := _format_moment(checked.begun):
        suite.timestamp = moment
    if checked.host:
        suite.hostname = checked.host
    drives = [
        " ".join(filter(None, (one.name, one.model, one.serial, one.firmware)))
        for one in checked.drives
    ]
    known = {"drives": "; ".join(drives), "pod": checked.pod, "user": checked.user}
    for name, value in {**properties, **known}.items():
        if value:
            suite.add_property(name, value)
    suite.add_testcases(list(cases))
    return suite


def _format_moment(text: str) -> str:
    """Return a moment in UTC without its zone, as the schema has it; "" if unknown."""
    moment = parse_utc(text)
    return f"{moment:%Y-%m-%dT%H:%M:%S}" if moment else ""
