"""Reports on runs that real servers and real cuts made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cli.report import read_result
from dbcheck.judge.result import RunResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.formats import format_json, format_report
from dbcheck.report.subject import RunSubject
from dbcheck.rows.keymap import Fate
from dbcheck.runs.folder import RunFolder
from tests.kit.refusals import refused
from tests.kit.samples import PLAN
from tests.runs import make

ROOT = Path(make.__file__).parent
RUNS = sorted(path.parent for path in ROOT.glob("*/manifest.json"))
NAMES = [path.name for path in RUNS]
PREFLIGHT = 4  # commits before the load, which no timeline shows
IN_CHARTS = ("Commits per second", "Latency")


@pytest.fixture(params=RUNS, ids=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "run"))


def of(folder: Path) -> RunSubject:
    subject = read_result(folder)
    assert isinstance(subject, RunSubject)
    return subject


def lost_of(result: RunResult) -> int:
    return sum((result.losses or {}).values())


def test_every_format_of_a_report_shows_the_verdict(folder: Path) -> None:
    subject = of(folder)
    result = subject.result
    for kind in ("html", "md", "text", "junit"):
        text = format_report(subject, kind)
        assert result.verdict.value in text
        assert kind in ("md", "text") or result.run in text
    page = format_report(subject, "html")
    assert all(title in page for title in IN_CHARTS)
    whole = JUnitXml.fromstring(format_report(subject, "junit").encode())
    assert (whole.tests, whole.skipped) == (1, 0)
    assert whole.failures == (result.verdict is Verdict.FAIL)
    assert whole.errors == (result.verdict is Verdict.INCONCLUSIVE)
    metrics = format_report(subject, "prometheus")
    verdicts = {
        sample.labels["verdict"]: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "dbcheck_verdict"
    }
    assert {name for name, value in verdicts.items() if value} == {result.verdict.value}
    assert json.loads(format_json(subject))["verdict"] == result.verdict.value


def test_the_timeline_and_the_map_show_every_ack_and_every_loss(folder: Path) -> None:
    subject = of(folder)
    result, detail = subject.result, subject.detail
    assert detail is not None
    assert detail.missing == ""
    assert detail.timeline is not None
    moments = detail.timeline.moments
    if result.confirmed is None:  # nothing was compared: no claim of what was kept
        assert not detail.compared
        assert detail.keys is None
        assert "acked and kept" not in format_report(subject, "html")
        return
    assert sum(one.acked for one in moments) == result.confirmed - PREFLIGHT
    assert sum(one.lost for one in moments) == lost_of(result)
    assert detail.keys is not None
    lanes = detail.keys.lanes
    assert sum(lane.acked for lane in lanes) == result.confirmed
    assert sum(lane.lost for lane in lanes) == lost_of(result)
    letters = "".join(lane.fates for lane in lanes)
    lossy = {Fate.LOST.value, Fate.PARTLY_LOST.value} & set(letters)
    assert bool(lossy) is bool(lost_of(result))
    assert (detail.timeline.oldest_lost_s is not None) is bool(lost_of(result))


def test_a_damaged_log_leaves_the_charts_out_and_says_so(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "postgresql-pass", tmp_path / "run")
    log = folder / "acks.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    subject = of(folder)
    assert subject.result.verdict is Verdict.INCONCLUSIVE
    assert subject.note.startswith("No charts: ")
    page = format_report(subject, "html")
    assert not any(f"<h3>{title}" in page for title in IN_CHARTS)
    assert "No charts: " in page


@pytest.mark.parametrize("content", ["", "at_s\n1\n", "\x00", "at_s,seconds\n1,nan\n"])
def test_a_damaged_count_of_the_drives_is_left_out(
    tmp_path: Path, content: str
) -> None:
    folder = shutil.copytree(ROOT / "postgresql-pass", tmp_path / "run")
    (folder / "drives.csv").write_text(content)
    subject = of(folder)
    assert subject.detail is not None
    assert subject.detail.drives == ()
    assert bool(subject.note) is bool(content.count("1"))
    assert subject.result.verdict is Verdict.PASS


def test_a_cycle_whose_rows_were_dropped_is_shown_as_it_was_judged(
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(ROOT / "mysql-pass", tmp_path / "run")
    judged = of(folder)
    RunFolder.open(folder).drop_survivors()
    shown = of(folder)
    assert shown.result == judged.result
    assert shown.detail is None
    assert "not judged again" in shown.note
    assert "not judged again" in format_report(shown, "html")


def test_a_verdict_that_was_changed_is_refused_where_no_rows_are(
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(ROOT / "mysql-pass", tmp_path / "run")
    of(folder)
    RunFolder.open(folder).drop_survivors()
    path = folder / "verdict.json"
    path.write_text(path.read_text().replace('"PASS"', '"FAIL"', 1))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming="damaged or was changed"
    ):
        read_result(folder)


def test_a_folder_of_campaigns_is_shown_whole(tmp_path: Path) -> None:
    for name in ("db1", "db2"):
        CampaignFolder.create(tmp_path / "c" / name, PLAN)
    page = format_report(read_result(tmp_path / "c"), "html")
    assert page.count('class="banner INCONCLUSIVE"') == 3  # of both, and of each
