"""The first box of each report: verdict, loss, next step, and what was checked."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from junitparser import JUnitXml

from dbcheck.judge.result import Checked, CheckedDrive, RunResult, describe_checked
from dbcheck.judge.results import CampaignsResult, CycleResult
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import CycleVerdict, Tally, Verdict, describe_proof
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.formats import format_report
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.subject import RunSubject
from dbcheck.report.words.campaign import lines, summarize_campaign, summarize_campaigns
from dbcheck.report.words.matrix import summarize_matrix
from dbcheck.report.words.run import sentence
from dbcheck.report.words.summary import describe_about, summarize_run
from tests.kit.nodes import having
from tests.kit.pods import POD, with_data
from tests.kit.poisoned_reports import poisoned_campaign
from tests.kit.reports import printed, run_result
from tests.kit.samples import MANIFEST
from tests.kit.subjects import detail

CHECKED = Checked(
    begun="2026-11-29T05:26:07+01:00",
    host="db1",
    drives=(CheckedDrive("nvme0n1", "PM9A3", "S64GNE0R", "GDC5902Q"),),
    user="dba",
)
FORMATS = ("text", "html", "md", "junit")
AGAIN = re.compile(r"(?i)\b(?:repeat it|cut again|rerun|run (?:it|them) again)\b")


def result_of(verdict: str, **changed: Any) -> RunResult:
    lost = {"missing-tail": 3} if verdict == "FAIL" else {}
    counts = {"confirmed": 10, "kept": 7, "recovered": 0, "unconfirmed": 0}
    values = {"verdict": verdict, "losses": lost, **counts, **changed}
    return replace(run_result(values), checked=CHECKED)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_report_names_the_pod_and_what_it_lies_on(kind: str) -> None:
    """Of a server that is in no pod there is no such line."""
    checked = describe_checked(having(MANIFEST, pod=POD))
    text = format_report(
        RunSubject(replace(result_of("PASS"), checked=checked)), kind
    ).replace("`", "")
    for word in ("prod/orders-1 on node-a", "data-orders-1 (pvc-0a, disk.csi."):
        assert word in text
    unread = describe_checked(having(MANIFEST, pod=with_data(volume=None)))
    assert "data-orders-1 (its volume could not be read)" in unread.pod
    about = dict(summarize_run(result_of("PASS")).about)
    assert "pod" not in about


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("verdict", Verdict)
def test_a_report_names_the_host_the_drive_the_moment_and_the_user(
    verdict: Verdict, kind: str
) -> None:
    text = format_report(RunSubject(result_of(verdict.value)), kind)
    for word in ("db1", "PM9A3", "S64GNE0R", "GDC5902Q", "2026-11-29 04:26 UTC", "dba"):
        assert word in text.replace("`", "").replace("\\", ""), word


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"settings_at_fault": ["fsync = off"]},
        {"layers_at_fault": ["dm-0 is 'write through'"]},
        {"uncut": True},
        {"lab": LabSpec("mysql").to_values()},
        {"diagnosis": [{"cause": "lost cache", "losses": 3, "reason": "why"}]},
    ],
)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_loss_is_a_proof_and_asks_for_no_second_cut(
    changed: dict[str, Any], kind: str
) -> None:
    result = result_of("FAIL", **changed)
    assert summarize_run(result).action
    assert not AGAIN.search(format_report(RunSubject(result), kind))


@pytest.mark.parametrize("verdict", ["PASS", "FAIL"])
@pytest.mark.parametrize("kind", FORMATS)
def test_the_bound_is_said_once(verdict: str, kind: str) -> None:
    text = format_report(RunSubject(result_of(verdict), detail()), kind)
    if kind == "junit" and verdict == "FAIL":
        (case,) = next(iter(JUnitXml.fromstring(text.encode())))
        text = case.result[0].text  # which the output repeats
    assert len(re.findall("up to 95%|at least 5%", text)) == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_a_verdict_that_rests_on_the_witness_alone_says_so_before_its_proof(
    kind: str,
) -> None:
    alone = {"witness_alone": True, "witness_alone_why": "the key is gone"}
    result = result_of("PASS", **alone)
    text = " ".join(format_report(RunSubject(result), kind).split())
    order = ["rests on the witness alone: the key is gone", "One pass proves", "Next:"]
    assert sorted(order, key=text.index) == order


def test_a_control_has_no_bound_and_no_cut_that_counts() -> None:
    assert summarize_run(result_of("PASS", control=True)).tiles == ()


@pytest.mark.parametrize(
    ("changed", "depth", "said"),
    [
        ({"cut_class": "process"}, "PROCESS", "a killed process tests neither"),
        ({"cut_class": "reset"}, "OS", "pull the real plug"),
        ({}, "PROCESS", "Find out what this switch cuts"),
        ({"lab": LabSpec("mysql").to_values()}, "OS", "dbcheck lab run"),
        ({}, "DRIVE", "dbcheck campaign"),
    ],
)
def test_a_pass_says_which_cut_comes_next(
    changed: dict[str, Any], depth: str, said: str
) -> None:
    result = result_of("PASS", depth={"depth": depth}, **changed)
    assert said in summarize_run(result).action


def test_a_long_reason_stands_below_the_headline() -> None:
    long = summarize_run(result_of("FAIL", reasons=[f"it is gone: {'x ' * 150}"]))
    assert (long.headline, long.detail[:7]) == ("It is gone.", "Why: x ")
    unclear = summarize_run(result_of("INCONCLUSIVE", reasons=["fsync is off"]))
    assert unclear.headline == "This cut does not count."
    assert unclear.detail == "Why: fsync is off."


LONG = (
    "all 1,234 acknowledged commits survived this power-off by the BMC (the page cache"
    " was lost, but the drive's cache was not seen to be lost); assumed, not seen: host"
    " went down, settings; but the audit before it found 1 error: fsync = off"
)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_pass_says_below_the_headline_what_it_assumes(kind: str) -> None:
    shown = summarize_run(result_of("PASS", reasons=[LONG]))
    assert shown.headline.endswith("not seen to be lost).")
    assert shown.detail.startswith("Assumed, not seen: host went down, settings;")
    assert shown.detail.endswith("but the audit before it found 1 error: fsync = off.")
    text = format_report(RunSubject(result_of("PASS", reasons=[LONG])), kind)
    assert "Why: " not in text and "fsync" in text
    whole = summarize_run(result_of("PASS", reasons=["all kept; assumed: settings"]))
    assert (whole.headline, whole.detail) == ("All kept; assumed: settings.", "")


@pytest.mark.parametrize(
    ("changed", "depth", "said"),
    [
        ({"cut_class": "process"}, "PROCESS", "nothing about the operating system or"),
        ({"cut_class": "AC"}, "PROCESS", "nothing about the operating system or the"),
        ({"cut_class": "failover"}, "OS", "nothing about a power cut, an operating"),
        ({"cut_class": "reset"}, "OS", "the drives kept their power"),
        ({"cut_class": "unknown"}, "OS", "lost their power is not known"),
        ({"cut_class": "AC"}, "OS", ""),
        ({"cut_class": "BMC off"}, "DRIVE", ""),
    ],
)
def test_a_pass_says_what_no_number_of_such_cuts_tests(
    changed: dict[str, Any], depth: str, said: str
) -> None:
    depth_of = {"depth": {"depth": depth}}
    shown = summarize_run(result_of("PASS", **changed, **depth_of)).proof
    bound = describe_proof(0, 1)
    assert shown.startswith(bound)
    assert said.lower() in shown.lower()
    assert bool(said) is (shown != bound)
    failed = summarize_run(result_of("FAIL", **changed, **depth_of))
    assert failed.proof == "One loss is a proof."


def test_nobody_is_asked_to_pull_the_plug_of_a_managed_service() -> None:
    assert "plug" not in summarize_run(result_of("PASS", cut_class="failover")).action


def test_a_page_folds_what_is_not_wrong() -> None:
    opened = {
        verdict: set(
            re.findall(
                r'<details class="part" open>\s*<summary><h2>([^<]*)',
                as_html(RunSubject(result_of(verdict), detail())),
            )
        )
        for verdict in ("PASS", "FAIL")
    }
    assert opened["PASS"] == set()
    assert "The load up to the cut" in opened["FAIL"]
    absent = {"item": "host went down", "status": "absent", "reason": "why"}
    page = as_html(
        RunSubject(
            result_of("INCONCLUSIVE", evidence=[{**absent, "required": True}]), detail()
        )
    )
    assert '<details class="part" open>\n<summary><h2>Evidence' in page


def test_the_cause_stands_between_the_box_and_the_charts() -> None:
    result = result_of("FAIL", settings_at_fault=["fsync = off: set it to on"])
    page = as_html(RunSubject(result, detail()))
    order = ['class="banner FAIL"', "fsync = off", 'class="tiles"', "<figure>"]
    assert sorted(order, key=page.index) == order


def test_a_server_that_was_not_asked_says_how_to_know_its_drives() -> None:
    about = dict(summarize_run(replace(result_of("PASS"), checked=Checked())).about)
    assert "drive" not in about
    unasked = replace(CHECKED, host="", drives=())
    about = dict(summarize_run(replace(result_of("PASS"), checked=unasked)).about)
    assert about["host"] == "db1 (PostgreSQL 15)"  # of the URL
    assert "--target-host" in about["drive"]


def test_moments_of_one_day_name_the_day_once() -> None:
    about = dict(describe_about(CHECKED, "", until="2026-11-29T06:00:00+00:00"))
    assert about["when"] == "2026-11-29 04:26 to 06:00 UTC"
    about = dict(describe_about(CHECKED, "", until="2026-11-30T06:00:00+00:00"))
    assert about["when"] == "2026-11-29 04:26 UTC to 2026-11-30 06:00 UTC"
    about = dict(describe_about(CHECKED, "", until=CHECKED.begun))
    assert about["when"] == "2026-11-29 04:26 UTC"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the server is gone", "The server is gone."),
        ("synchronous_commit = off", "synchronous_commit = off."),
        ("db1 lost rows.", "db1 lost rows."),
        ("", "."),
    ],
)
def test_a_sentence_keeps_the_name_of_a_setting_or_a_server(
    text: str, shown: str
) -> None:
    assert sentence(text) == shown


def campaign_of(losses: int, cuts: int, verdict: Verdict, **changed: Any) -> Any:
    whole = replace(poisoned_campaign(""), error="", name="db1", checked=CHECKED)
    statistics = Tally(losses, cuts, 0, {"OS": cuts}).statistics
    values = {"statistics": statistics, "verdict": verdict, "cycles": (), **changed}
    return replace(whole, **values)


def test_a_campaign_that_lost_names_the_report_that_shows_the_cause() -> None:
    (cycle, *_) = poisoned_campaign("").cycles
    lost = replace(cycle, run="r2", verdict=CycleVerdict.FAIL, settings_at_fault=())
    kept = replace(cycle, run="r1", verdict=CycleVerdict.PASS)
    failed = campaign_of(1, 2, Verdict.FAIL, cycles=(kept, lost), folder="c d")
    action = summarize_campaign(failed).action
    assert "Find the cause with dbcheck report 'c d/runs/r2', remove it" in action
    unknown = campaign_of(1, 2, Verdict.FAIL)
    assert "Find the cause below, remove it" in summarize_campaign(unknown).action


@pytest.mark.parametrize("kind", ["html", "md"])
def test_what_is_missing_in_the_evidence_comes_first(kind: str) -> None:
    one = {"item": "server's log", "status": "present", "reason": "why"}
    other = {"item": "same server", "status": "absent", "reason": "how"}
    items = [{**item, "required": True} for item in (one, other)]
    text = format_report(RunSubject(result_of("PASS", evidence=items)), kind)
    text = text[text.rindex("Evidence") :].replace("&#39;", "'")
    assert text.index("same server") < text.index("server's log")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("lab", [{}, LabSpec("mysql").to_values()])
def test_what_was_tested_does_not_read_as_not_proven(
    lab: dict[str, Any], kind: str
) -> None:
    text = format_report(RunSubject(result_of("PASS", lab=lab)), kind)
    only = "nly a power loss of the lab" if lab else "nly one cut was made"
    assert only in text


@pytest.mark.parametrize(
    ("losses", "cuts", "verdict", "said"),
    [
        (0, 59, Verdict.PASS, "All 59 cuts of db1 kept every acknowledged commit."),
        (1, 4, Verdict.FAIL, "1 of 4 cuts of db1 lost acknowledged data"),
        (0, 2, Verdict.INCONCLUSIVE, "2 cuts of 3 planned of db1 kept every"),
        (0, 0, Verdict.INCONCLUSIVE, "No cut of db1 counts yet."),
    ],
)
def test_the_headline_of_a_campaign_says_what_was_lost_of_what(
    losses: int, cuts: int, verdict: Verdict, said: str
) -> None:
    result = campaign_of(losses, cuts, verdict)
    summary = summarize_campaign(result)
    assert summary.headline.startswith(said)
    whole = CampaignsResult("/c", (result,))
    for text in (as_html(whole), format_junit(whole), printed(draw_campaigns(whole))):
        assert summary.headline in text
    again = AGAIN.search(summary.action) or "--resume" in summary.action
    assert not (again and verdict is Verdict.FAIL)


def cycles_of(*kinds: str, **changed: Any) -> tuple[CycleResult, ...]:
    """Return cycles that lost nothing, with cuts of those classes."""
    (cycle, *_) = poisoned_campaign("").cycles
    values: dict[str, Any] = {"verdict": CycleVerdict.PASS, "uncut": False}
    values |= {"despite": (), "depth": "", **changed}
    return tuple(
        replace(cycle, number=number, cut_class=kind, **values)
        for number, kind in enumerate(kinds, 1)
    )


@pytest.mark.parametrize(
    ("kinds", "proof", "action"),
    [
        (["process"] * 3, "What was cut: process; only the", "Cut the power itself"),
        (["failover"], "nothing about a power cut", "Keep this report"),
        (["reset", "reset"], "the drives kept their power", "pull the real plug"),
        (["AC", "process"], "only the server's memory", "Keep this report"),
        (["lab drive"], "", "Check the real server"),
        (["AC"], "", "Keep this report"),
    ],
)
def test_a_campaign_says_what_no_number_of_such_cuts_tests(
    kinds: list[str], proof: str, action: str
) -> None:
    cycles = cycles_of(*kinds)
    result = campaign_of(0, len(kinds), Verdict.PASS, cycles=cycles, finished=True)
    shown = summarize_campaign(result)
    assert proof in shown.proof
    assert bool(proof) is ("What was cut" in shown.proof)
    assert action in shown.action
    both = summarize_campaigns(CampaignsResult("/c", (result, result)))
    assert proof in both.proof
    assert action in both.action
    failed = campaign_of(1, len(kinds), Verdict.FAIL, cycles=result.cycles)
    assert summarize_campaign(failed).proof == "One loss is a proof."


def test_a_campaign_says_in_its_box_what_the_audit_found() -> None:
    alarm, assumed = "error pg-fsync: off", "assumed, not seen: no account asked"
    for found, count in (((alarm, assumed), 1), ((assumed,), 0), ((alarm, "b"), 2)):
        cycles = cycles_of("AC", despite=found)
        shown = campaign_of(0, 1, Verdict.PASS, cycles=cycles, finished=True)
        box = summarize_campaign(shown)
        assert (f"{count} finding" in box.warning) is bool(count)
        assert box.action.startswith("Fix what the audit" if count else "Keep")
        several = CampaignsResult("/c", (shown, shown))
        assert summarize_campaigns(several).warning == box.warning
        assert summarize_campaigns(several).action.startswith(box.action[:16])
        assert box.warning in " ".join(printed(draw_campaigns(several)).split())
    shown = campaign_of(0, 1, Verdict.PASS, cycles=cycles_of("AC", despite=(assumed,)))
    assert f"a cut lost nothing, but {assumed}" in lines(shown)


def test_a_control_that_lost_is_no_cut_that_lost_nothing() -> None:
    (control,) = cycles_of("AC", despite=("error pg-fsync: off",))
    shown = campaign_of(0, 1, Verdict.PASS, cycles=(replace(control, number=0),))
    assert summarize_campaign(shown).warning == ""
    assert not any("a cut lost nothing" in line for line in lines(shown))


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ((1, 0), "lost acknowledged data: 1 row is gone or damaged."),
        ((2, 1), "lost acknowledged data: 2 + 1 earlier rows are gone or damaged."),
        ((0, 0), "did harm, though no acknowledged row is gone or damaged."),
    ],
)
def test_the_headline_of_a_campaign_counts_rows(
    lost: tuple[int, int], said: str
) -> None:
    own, earlier = lost
    values = {"verdict": CycleVerdict.FAIL, "lost": own, "earlier_lost": earlier}
    result = campaign_of(1, 1, Verdict.FAIL, cycles=cycles_of("AC", **values))
    assert summarize_campaign(result).headline == f"1 of 1 cut of db1 {said}"


def test_a_folder_with_a_blank_is_quoted_in_the_next_step() -> None:
    result = campaign_of(
        0, 1, Verdict.INCONCLUSIVE, folder="a b", finished=False, error=""
    )
    assert summarize_campaign(result).action.endswith("--resume 'a b'")


def test_several_servers_have_a_box_before_those_of_each() -> None:
    kept, lost = campaign_of(0, 9, Verdict.PASS), campaign_of(1, 4, Verdict.FAIL)
    subject = CampaignsResult("/c", (kept, replace(lost, name="db2")))
    summary = summarize_campaigns(subject)
    assert summary.verdict is Verdict.FAIL
    assert summary.headline == "1 of 2 servers lost data: db2."
    page = as_html(subject)
    assert page.index(summary.headline) < page.index("All 9 cuts of db1")


def test_a_cut_that_is_not_judged_may_have_lost_data_on_one_of_several() -> None:
    kept = campaign_of(0, 9, Verdict.PASS)
    open_ = campaign_of(0, 9, Verdict.INCONCLUSIVE, name="db2", unjudged=("r1",))
    summary = summarize_campaigns(CampaignsResult("/c", (kept, open_)))
    assert "1 of 2 servers are not judged, and may have lost data" in summary.headline
    assert "No server lost" not in summary.headline


@pytest.mark.parametrize("unjudged", [(), ("r1",)])
def test_no_bound_is_shown_beside_a_cut_that_is_not_judged(
    unjudged: tuple[str, ...],
) -> None:
    summary = summarize_campaign(campaign_of(1, 4, Verdict.FAIL, unjudged=unjudged))
    names = [tile.name for tile in summary.tiles]
    assert ("bound" in names) is (not unjudged)
    assert "lossy cuts" in names


def test_a_matrix_begins_with_what_lost_and_shows_losses_before_rates() -> None:
    rows = [
        Line("safe", "", None, None, [result_of("PASS")], ""),
        Line("fast", "", None, None, [result_of("FAIL")], ""),
        Line("none", "", None, None, [], "it did not start"),
    ]
    result = make_matrix_result(rows, 1, "about it")
    headline = summarize_matrix(result).headline
    kept = make_matrix_result(rows[:1], 1, "about it")
    colours = [summarize_matrix(make_matrix_result(rows[:2])).verdict]
    colours += [summarize_matrix(one).verdict for one in (kept, result)]
    assert colours == [None, Verdict.PASS, Verdict.FAIL]
    assert headline == (
        "1 of 3 configurations lost acknowledged data: fast. Not decided: none."
    )
    page = as_html(result)
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert heads[:4] == ["configuration", "verdict", "lost", "lossy cuts"]
    assert page.index(headline) < page.index("<table")


def row_of(name: str, verdict: str, expect: Verdict | None = None) -> Line:
    return Line(name, "", expect, None, [result_of(verdict)], "")


@pytest.mark.parametrize(
    ("rows", "said", "not_said"),
    [
        ([row_of("a", "FAIL", Verdict.PASS)], "why a lost data", "again"),
        ([row_of("a", "PASS", Verdict.FAIL)], "run these configurations again", "why"),
        ([row_of("a", "INCONCLUSIVE")], "run these configurations again", "Use none"),
        ([row_of("a", "FAIL", Verdict.FAIL)], "Use none of these", "again"),
        ([row_of("a", "PASS"), row_of("b", "FAIL")], "Choose from", "again"),
    ],
)
def test_the_next_step_of_a_matrix_follows_from_its_rows(
    rows: list[Line], said: str, not_said: str
) -> None:
    action = summarize_matrix(make_matrix_result(rows)).action
    assert said in action
    assert not_said not in action


def test_a_matrix_counts_the_cuts_of_each_row_and_those_that_passed() -> None:
    twice = Line("a", "", None, None, [result_of("PASS")] * 2, "")
    rows = [twice, row_of("b", "FAIL"), Line("c", "", None, None, [], "no server")]
    shown = summarize_matrix(make_matrix_result(rows))
    assert shown.proof == describe_proof(0, 2)
    assert {tile.name: tile.value for tile in shown.tiles}["cuts of each"] == "0"


def test_the_case_of_a_cluster_has_a_name_of_its_own() -> None:
    lab = LabSpec("mysql").to_values()
    alone = case_of(result_of("PASS", lab=lab))[1].name
    cluster = {**lab, "cluster": {"topology": "semi-sync"}}
    name = case_of(result_of("PASS", lab=cluster))[1].name
    assert name == alone.replace(", insert", ", semi-sync, insert")


def case_of(result: RunResult) -> Any:
    suite = next(iter(JUnitXml.fromstring(format_junit(RunSubject(result)).encode())))
    (case,) = suite
    return suite, case


def test_the_case_of_a_lab_has_the_same_name_in_each_run() -> None:
    spec = LabSpec("postgresql", drive=DriveSpec("lying"), settings={"fsync": "on"})
    names = set()
    for port in (17702, 61068):
        target = f"postgresql+psycopg2://dbcheck@127.0.0.1:{port}/postgres"
        for verdict in ("PASS", "FAIL"):
            result = result_of(verdict, lab=spec.to_values(), target=target)
            names.add(case_of(result)[1].name)
    assert names == {"lab postgresql, xfs, lying drive, insert, fsync=on"}
    other = replace(spec, drive=DriveSpec())
    assert case_of(result_of("PASS", lab=other.to_values()))[1].name not in names
    killed = LabSpec("mariadb", cut="process").to_values()
    assert "killed" in case_of(result_of("PASS", lab=killed))[1].name


@pytest.mark.parametrize("verdict", ["FAIL", "INCONCLUSIVE"])
def test_a_failure_has_a_body_with_the_cause_and_the_next_step(verdict: str) -> None:
    result = result_of(verdict, settings_at_fault=["fsync = off"])
    _, case = case_of(result)
    (failure,) = case.result
    for part in ("fsync = off", "Next: ", "S64GNE0R"):
        assert part in failure.text


def test_a_suite_is_as_the_schema_of_junit_has_it() -> None:
    suite, _ = case_of(result_of("FAIL"))
    assert (suite.timestamp, suite.hostname) == ("2026-11-29T04:26:07", "db1")
    text = format_junit(RunSubject(result_of("FAIL")))
    order = ["<testsuite ", "<properties>", "<testcase ", "<failure ", "<system-out>"]
    assert sorted(order, key=text.index) == order
