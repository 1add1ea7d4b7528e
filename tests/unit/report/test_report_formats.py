"""The formats of dbcheck report: each says what the result says, and obeys no text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cmarkgfm
import jsonschema
import msgspec
import pytest
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from dbcheck.base.error_ids import ErrorId
from dbcheck.judge.results import CampaignsResult, MatrixResult
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.formats import FORMATS, format_json, format_report
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.markdown import format_markdown
from dbcheck.report.matrix import draw_matrix
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.subject import RunSubject, Step, Verdicts
from dbcheck.report.words import run as words
from tests.kit.poisoned_reports import CAMPAIGN, poisoned_campaign
from tests.kit.reports import CLUSTER, printed
from tests.kit.subjects import MARKUP, detail, poisoned_subjects, subject_of

KINDS = ("run", "campaign", "matrix", "explore")
SCHEMA_NAMES = {"explore": "lab-explore"}
SCHEMAS = Path(__file__).parents[3] / "docs" / "schema"
EXPECTED = {Verdict.PASS: (0, 0), Verdict.FAIL: (1, 0), Verdict.INCONCLUSIVE: (0, 1)}


class Tags(HTMLParser):
    """Counts the tags of a page, and gathers its text and its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags = Counter[str]()
        self.names = Counter[str]()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.names.update(name for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def matrix_of(*lines: Line) -> MatrixResult:
    return make_matrix_result(lines, 1, "about it", "what others saw")


def line(name: str, verdict: Verdict, expect: Verdict | None = None) -> Line:
    load = {"rate": 100.0, "latency_ms": {"p99": 2.0}}
    result = subject_of(verdict, reasons=["why"], load=load).result
    return Line(name, "", expect, None, [result], "")


def campaigns_of(**changed: Any) -> CampaignsResult:
    whole = poisoned_campaign("")
    whole = replace(whole, error="", cycles=whole.cycles[:1])
    return CampaignsResult("/c", (replace(whole, **changed),))


def as_text(subject: Verdicts) -> str:
    """Return what a terminal shows."""
    if isinstance(subject, CampaignsResult):
        return printed(draw_campaigns(subject))
    assert isinstance(subject, MatrixResult)
    return printed(draw_matrix(subject))


def metrics_of(subject: Verdicts) -> dict[tuple[str, str], float]:
    """Return (name, verdict or quantile) -> value."""
    found = {}
    for family in text_string_to_metric_families(format_metrics(subject)):
        assert family.documentation
        for sample in family.samples:
            more = sample.labels.get("verdict", sample.labels.get("quantile", ""))
            found[sample.name, more] = sample.value
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_text_makes_no_tag_of_a_page(kind: str) -> None:
    harmless, evil = (
        Tags(as_html(poisoned_subjects(text)[kind])) for text in ("x", MARKUP)
    )
    assert evil.tags == harmless.tags
    assert evil.names == harmless.names
    assert "alert(1)" in evil.text
    assert "\x1b" not in evil.text
    assert r"\x1b[2J" in evil.text
    assert "49 |" not in evil.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_names_nothing_that_a_browser_would_load_or_run(kind: str) -> None:
    page = as_html(poisoned_subjects("x")[kind])
    assert len(page.encode()) < 1_500_000
    assert not re.search(r"(?:src|href|action)=[\"'](?!data:)", page)
    assert not re.search(r"@import|url\(", page)
    assert "default-src 'none'" in page
    assert "<script" not in page


LINKS = (
    *("eve@evil.example", "www.evil.example/x", "WWW.evil.example", "evil.example"),
    *("http://evil.example", "https://evil.example", "ftp://evil.example"),
    *("mailto:eve@evil.example", "xmpp:eve@evil.example/x", "(www.evil.example)"),
    *("@eve", "@eve/team", "#123", "eve/x#123", "GH-123", "PROJ-1", "!123", "%123"),
    *("0fe1cdab", "2611230", "eve/x@0fe1cdab", ":tada:", "x|eve@evil.example|x"),
    *("`@eve", "``x@eve.example`", "\\@eve", "x@y.example\\", "<eve@evil.example>"),
    *("![x](http://evil.example)", "[x](http://evil.example)", "**@eve**"),
    *("1. x", "1) x", "+ x", "- x", "---", "===", "    x", "    @eve"),
)
TRACKED = re.compile(r"[@#!%]\w|\b[0-9a-f]{7,}\b|\b[A-Za-z]+-\d|:\w+:|evil\.example")


def rendered(subject: Verdicts) -> tuple[Tags, str]:
    """Return the page that GitHub's renderer makes, and its text outside of code."""
    page = cmarkgfm.github_flavored_markdown_to_html(format_markdown(subject))
    bare = re.sub(r"(?s)<(pre|code)>.*?</\1>", "", page)
    return Tags(page), Tags(bare).text


@cache
def harmless_tags(kind: str) -> Mapping[str, int]:
    """Return the tags of a page with harmless texts, but those of code."""
    tags = rendered(poisoned_subjects("x")[kind])[0].tags
    del tags["code"]
    return tags


@pytest.mark.parametrize("text", [MARKUP, *LINKS])
@pytest.mark.parametrize("kind", KINDS)
def test_foreign_text_is_no_markdown(kind: str, text: str) -> None:
    """It is shown as it is, and makes no link, picture, mention or reference."""
    evil, bare = rendered(poisoned_subjects(text)[kind])
    del evil.tags["code"]
    assert evil.tags == harmless_tags(kind)
    assert evil.tags["table"] > 0
    assert {"a", "img", "script"} & set(evil.tags) == set()
    assert " ".join(harmless_text(text)) in " ".join(evil.text.split())
    if text is not MARKUP:
        assert not TRACKED.search(bare), bare


def harmless_text(text: str) -> list[str]:
    """Return the words of *text* before what no report shows as it is."""
    return text.partition("\x00")[0].split()


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_text_is_no_xml_and_no_metric(kind: str) -> None:
    subject = poisoned_subjects(MARKUP)[kind]
    suites = list(JUnitXml.fromstring(format_junit(subject).encode()))
    assert len(suites) == 1
    named = [case.name for case in suites[0]]
    assert named
    assert "alert(1)" in named[0]
    assert metrics_of(subject)


@pytest.mark.parametrize("verdict", Verdict)
def test_a_run_is_one_case_and_inconclusive_is_an_error(verdict: Verdict) -> None:
    subject = subject_of(verdict, reasons=["the reason"])
    whole = JUnitXml.fromstring(format_junit(subject).encode())
    assert (whole.failures, whole.errors) == EXPECTED[verdict]
    assert (whole.tests, whole.skipped) == (1, 0)
    (case,) = next(iter(whole))
    assert case.system_out is not None
    said = words.headline(subject.result)
    assert "the reason" in said
    assert f"{verdict.value}: {said}" in case.system_out
    assert words.scope(subject.result) in case.system_out
    results = [each.message for each in case.result]
    assert results == ([] if verdict is Verdict.PASS else [said])


def test_a_run_takes_as_long_as_its_load() -> None:
    subject = subject_of(
        Verdict.PASS, load={"began_us": 1_000, "last_ack_us": 2_501_000}
    )
    (case,) = next(iter(JUnitXml.fromstring(format_junit(subject).encode())))
    assert case.time == 2.5


@pytest.mark.parametrize("verdict", Verdict)
def test_a_campaign_is_a_case_for_each_target(verdict: Verdict) -> None:
    both = campaigns_of(verdict=verdict).targets * 2
    whole = JUnitXml.fromstring(format_junit(CampaignsResult("/c", both)).encode())
    assert (whole.failures, whole.errors) == tuple(2 * n for n in EXPECTED[verdict])
    assert whole.tests == 2


def test_a_campaign_that_ended_early_is_an_error_unless_it_lost() -> None:
    for verdict, counts in ((Verdict.INCONCLUSIVE, (0, 1)), (Verdict.FAIL, (1, 0))):
        subject = campaigns_of(verdict=verdict, error="no route")
        whole = JUnitXml.fromstring(format_junit(subject).encode())
        assert (whole.failures, whole.errors) == counts


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        (line("a", Verdict.PASS), (0, 0)),
        (line("a", Verdict.FAIL), (0, 0)),  # a comparison; nothing was expected
        (line("a", Verdict.FAIL, Verdict.FAIL), (0, 0)),
        (line("a", Verdict.PASS, Verdict.FAIL), (1, 0)),
        (line("a", Verdict.INCONCLUSIVE), (0, 1)),
        (replace(line("a", Verdict.PASS), error="it broke"), (0, 1)),
        (Line("a", "", None, None, [], "it did not start"), (0, 1)),
    ],
)
def test_a_row_of_a_matrix_passes_if_it_came_out_as_expected(
    row: Line, counts: tuple[int, int]
) -> None:
    whole = JUnitXml.fromstring(format_junit(matrix_of(row)).encode())
    assert (whole.failures, whole.errors) == counts
    assert whole.tests == 1


@pytest.mark.parametrize("draw", [format_junit, as_html, format_markdown, as_text])
def test_an_error_is_shown_with_its_id(draw: Callable[[Verdicts], str]) -> None:
    """Scripts compare the id alone, and find it where people read as well."""
    ended, broke, refused = (
        ErrorId.SERVER_NOT_BACK,
        ErrorId.WITNESS_LOST,
        ErrorId.PRIVILEGE_MISSING,
    )
    campaign = campaigns_of(verdict=Verdict.INCONCLUSIVE, error="e", error_id=ended)
    (target,) = campaign.targets
    cycle = replace(
        target.cycles[0], number=1, verdict=CycleVerdict.ERROR, error_id=broke
    )
    target = replace(target, cycles=(cycle,))
    shown = draw(CampaignsResult("/c", (target,))).replace("\\", "")
    assert ended in shown and broke in shown
    row = replace(line("a", Verdict.PASS), error="it broke", error_id=refused)
    assert refused in draw(matrix_of(row)).replace("\\", "")


@pytest.mark.parametrize("verdict", Verdict)
def test_one_verdict_is_set_among_the_metrics(verdict: Verdict) -> None:
    statistics = CAMPAIGN["statistics"] | {
        "cuts": 1,
        "losses": int(verdict is Verdict.FAIL),
    }
    subject = subject_of(
        verdict,
        run="20260102-030405-a1b2c3",
        confirmed=12,
        losses={"corrupt": 2},
        earlier_losses={"missing-hole": 1},
        statistics=statistics,
        load={"rate": 250.5, "latency_ms": {"p50": 1.5, "p999": 20.0}},
    )
    found = metrics_of(subject)
    for one in Verdict:
        assert found["dbcheck_verdict", one.value] == (one is verdict)
    assert found["dbcheck_lost_rows", ""] == 3
    assert found["dbcheck_confirmed_commits", ""] == 12
    assert found["dbcheck_commits_per_second", ""] == 250.5
    assert found["dbcheck_commit_latency_seconds", "0.5"] == 0.0015
    assert found["dbcheck_commit_latency_seconds", "0.999"] == 0.02
    assert found["dbcheck_checked_timestamp_seconds", ""] == 1767323045
    bound = statistics["loss_ppm_max"] / 1e6
    assert found["dbcheck_loss_ratio_upper_bound", ""] == bound


def test_what_is_not_known_is_no_metric() -> None:
    subject = subject_of(Verdict.INCONCLUSIVE, losses=None, load=None)
    names = {name for name, _ in metrics_of(subject)}
    assert names == {"dbcheck_verdict"}


def test_metrics_of_several_targets_stay_apart() -> None:
    one = campaigns_of(verdict=Verdict.PASS).targets[0]
    other = replace(one, name="db2", verdict=Verdict.FAIL)
    text = format_metrics(CampaignsResult("/c", (replace(one, name="db1"), other)))
    by_target = {
        (sample.labels["target"], sample.labels["verdict"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "dbcheck_verdict"
    }
    assert by_target["db1", "PASS"] == by_target["db2", "FAIL"] == 1
    assert sum(by_target.values()) == 2


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_writes_what_has_verdicts(kind: str, name: str) -> None:
    assert format_report(poisoned_subjects("x")[kind], name).strip()


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_what_the_schema_says(kind: str) -> None:
    subject = poisoned_subjects("x")[kind]
    values = json.loads(format_json(subject))
    schema = SCHEMAS / f"{SCHEMA_NAMES.get(kind, kind)}.json"
    jsonschema.validate(values, json.loads(schema.read_text()))
    result = subject.result if isinstance(subject, RunSubject) else subject
    assert msgspec.convert(values, type(result), str_keys=True) == result


@pytest.mark.parametrize("verdict", Verdict)
def test_every_format_has_the_verdict_its_reason_and_its_bound(
    verdict: Verdict,
) -> None:
    subject = subject_of(verdict, reasons=["the reason"], lab={"cut": "drive"})
    proof = words.proof(subject.result)
    for written in (
        Tags(as_html(subject)).text,
        re.sub(r"\\(.)", r"\1", format_markdown(subject)),
        format_junit(subject),
    ):
        assert verdict.value in written
        assert "the reason" in written
        assert proof in written
        assert "not a real drive" in written


def test_a_page_draws_what_the_run_holds() -> None:
    subject = RunSubject(
        subject_of(Verdict.PASS).result,
        detail(),
        "a note",
        (Step("Judge it again", "dbcheck reconcile runs/1 --offline"),),
    )
    page = Tags(as_html(subject))
    for text in (
        *("Commits per second", "Latency", "What became of the last commits"),
        *("Storage below the server", "Configuration before and after"),
        *("synchronous_commit", "unsafe shutdowns before: 7"),
        *("a note", "Judge it again", "seed, epoch"),
    ):
        assert text in page.text, text
    markdown = format_markdown(subject)
    assert "    dbcheck reconcile runs/1 --offline" in markdown


def test_a_setting_that_changed_stands_out() -> None:
    found = detail()
    facts = found.after.facts
    assert facts is not None
    changed = {**facts.settings, "fsync": "off"}
    nodes = {
        name: replace(node, facts=replace(facts, settings=changed))
        for name, node in found.after.nodes.items()
    }
    after = replace(found.after, nodes=nodes)
    result = subject_of(Verdict.PASS).result
    same, other = (
        as_html(RunSubject(result, one)).count('class="changed"')
        for one in (found, replace(found, after=after))
    )
    assert (same, other) == (0, 1)
    # The node that took over is another server, which may be set otherwise.
    of_cluster = subject_of(Verdict.PASS, cluster=CLUSTER).result
    page = as_html(RunSubject(of_cluster, replace(found, after=after)))
    assert 'class="changed"' not in page
    assert "n1, before" in page
    assert "n2, after" in page


def test_the_cycles_of_a_campaign_are_drawn_by_their_verdict() -> None:
    one = poisoned_campaign("").cycles[0]
    cycles = tuple(
        replace(one, number=n, verdict=verdict)
        for n, verdict in enumerate(CycleVerdict, 1)
    )
    page = as_html(campaigns_of(cycles=cycles))
    assert page.count('class="good"') == 2  # the mark and its legend
    assert page.count('class="cross bad"') == 2
    assert page.count('class="cross open"') == 3
