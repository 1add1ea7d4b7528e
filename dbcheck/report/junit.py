"""A report as JUnit XML, for CI: one test case for each target.

FAIL is a failure.  INCONCLUSIVE is an error and never a skip: CI systems show skipped
tests as passed, and a check that showed nothing must not look like one that passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    MatrixResult,
    RowResult,
)
from dbcheck.model.verdict import Verdict
from dbcheck.report.subject import RunSubject, Verdicts, quote_all_texts
from dbcheck.report.words import campaign as of_campaign
from dbcheck.report.words import matrix as of_matrix
from dbcheck.report.words import run as of_run


def format_junit(subject: Verdicts) -> str:
    """Return the report as the text of an XML file."""
    subject = quote_all_texts(subject)
    if isinstance(subject, RunSubject):
        suite = _make_run_suite(subject)
    elif isinstance(subject, CampaignsResult):
        suite = _make_campaigns_suite(subject)
    else:
        suite = _make_matrix_suite(subject)
    whole = JUnitXml("dbcheck")
    whole.add_testsuite(suite)
    whole.update_statistics()  # type: ignore[no-untyped-call]
    text: bytes = whole.tostring()  # type: ignore[no-untyped-call]
    return text.decode() + "\n"


def _make_run_suite(subject: RunSubject) -> TestSuite:
    result = subject.result
    lines = [
        *of_run.caveats(result),
        *(f"{name}: {value}" for name, value in of_run.facts(result)),
        *(f"{one.cause.value}: {one.reason}" for one in result.diagnosis),
        of_run.scope(result),
    ]
    kind = "dbcheck.control" if result.control else "dbcheck.run"
    case = _make_case(
        kind, result.target, result.verdict, of_run.headline(result), lines
    )
    if (load := result.load) is not None and load.last_ack_us is not None:
        case.time = (load.last_ack_us - load.began_us) / 1e6  # the load's seconds
    named = {"run": result.run, "server": result.server, "workload": result.workload}
    return _make_suite("run", [case], {**named, "seed": str(result.seed)})


def _make_campaigns_suite(subject: CampaignsResult) -> TestSuite:
    return _make_suite("campaign", map(_make_campaign_case, subject.targets), {})


def _make_campaign_case(result: CampaignResult) -> TestCase:
    first, *rest = of_campaign.lines(result)
    case = _make_case("dbcheck.campaign", result.name, result.verdict, first, rest)
    if result.error and result.verdict is not Verdict.FAIL:
        text = of_run.with_id(result.error, result.error_id)
        case.result = [Error(text, "ended early")]
    return case


def _make_matrix_suite(result: MatrixResult) -> TestSuite:
    cases = [_make_row_case(row, result) for row in result.rows]
    return _make_suite("matrix", cases, {"seed": str(result.seed)})


def _make_row_case(row: RowResult, result: MatrixResult) -> TestCase:
    """Return the case of a configuration: it passes if it came out as expected."""
    names = (*of_matrix.columns(result), "verdict")
    shown = row.shown_verdict
    verdict = shown.value if shown else "none"
    values = (*of_matrix.cells(row, result), verdict)
    lines = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
    case = TestCase(row.name, "dbcheck.matrix")
    if without_cut := of_matrix.losses_without_cut(row.cycles):
        lines.append(f"FAIL: {without_cut}")
    case.system_out = "\n".join([*lines, row.statistics.sentence])
    if row.as_expected:
        return case
    expected = row.expect.value if row.expect else "PASS or FAIL"
    message = f"expected {expected}, got {verdict}"
    if row.error:
        message = of_run.with_id(row.error, row.error_id)
    known = row.verdict in (Verdict.PASS, Verdict.FAIL) and not row.error
    case.result = [(Failure if known else Error)(message, verdict)]
    return case


def _make_case(
    kind: str, name: str, verdict: Verdict, why: str, lines: Iterable[str]
) -> TestCase:
    case = TestCase(name, kind)
    case.system_out = "\n".join([f"{verdict.value}: {why}", *lines])
    if verdict is Verdict.FAIL:
        case.result = [Failure(why, verdict.value)]
    elif verdict is Verdict.INCONCLUSIVE:
        case.result = [Error(why, verdict.value)]
    return case


def _make_suite(
    kind: str, cases: Iterable[TestCase], properties: Mapping[str, str]
) -> TestSuite:
    suite = TestSuite(f"dbcheck {kind}")
    suite.add_testcases(list(cases))
    for name, value in properties.items():
        suite.add_property(name, value)
    return suite
