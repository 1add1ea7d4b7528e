"""A stored run of a copy: judged, drawn, bundled and not counted as a cut."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.points import Point, PointKind
from dbcheck.campaign.beside import list_runs_beside
from dbcheck.campaign.chosen import open_chosen
from dbcheck.campaign.history import read_history
from dbcheck.cli.report import read_result
from dbcheck.cycle.judging import judge_run
from dbcheck.evidence.staging import ATTESTATION_FILE
from dbcheck.evidence.verify import verify
from dbcheck.judge.item import ItemId
from dbcheck.judge.result import RunDetail, RunResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.formats import format_report
from dbcheck.report.matrix import draw_copies
from dbcheck.report.subject import RunSubject
from dbcheck.report.words.run import tally
from dbcheck.rows.copied import CopyRecord, VolumesRecord
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, contents, stored_copy
from tests.kit.copied_run import COPY_HOST, stored_copied_run
from tests.kit.refusals import refused
from tests.kit.reports import printed


def shown(run: RunFolder) -> tuple[RunSubject, RunResult, RunDetail]:
    subject = read_result(run.path)
    assert isinstance(subject, RunSubject)
    assert subject.detail is not None
    return subject, subject.result, subject.detail


def test_it_is_judged_by_its_own_law_and_shows_no_cut(tmp_path: Path) -> None:
    subject, result, detail = shown(stored_copied_run(tmp_path))
    assert result.verdict is Verdict.PASS
    assert result.copy is not None
    assert (result.copy.due, result.copy.due_kept) == (result.confirmed, result.kept)
    assert result.copy.after_kept == 0 < (result.copy.after or 0)
    assert (result.statistics, result.outage, result.seen) == (None, None, None)
    assert (result.uncut, result.counts) == (False, True)
    assert detail.keys is None  # its newest commits came after the copy
    page = format_report(subject, "html")
    assert "The load</h2>" in page
    assert "The copy was begun" in page
    assert "seconds before the last ack" in page
    assert "acked and kept" not in page
    assert "What was seen of this copy" in page
    assert "at the end of the load" in page


def test_it_says_how_to_copy_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "is_own", lambda _run: True)
    subject, _, _ = shown(stored_copied_run(tmp_path))
    again, repeat = subject.steps
    assert again.command.endswith("--offline")
    assert repeat.command.startswith("dbcheck snapshot NAME --seed ")
    assert "--power" not in repeat.command


def test_its_losses_have_their_age_and_the_shape_of_what_must_be_there(
    tmp_path: Path,
) -> None:
    run = stored_copied_run(tmp_path, lost=3)
    result = judge_run(run, FrameLogReader()).result
    assert result.verdict is Verdict.FAIL
    assert result.copy is not None
    assert result.copy.due is not None
    assert (result.copy.due_kept, result.kept) == (result.copy.due - 3,) * 2
    ages = [span.first_acked_before_cut_s for span in result.ranges]
    assert all(age is not None and age > 0 for age in ages)
    with (run.path / "losses.csv").open() as file:
        listed = list(csv.DictReader(file))
    assert len(listed) == 3
    assert all(float(each["acked_before_cut_s"]) > 0 for each in listed)
    assert result.shape is not None
    assert result.shape.by_age == ()
    counted = sum(share.acked for share in result.shape.by_size)
    assert counted == result.copy.due
    assert result.diagnosis == ()


def test_several_copies_are_one_table_and_no_cut(tmp_path: Path) -> None:
    results = [
        judge_run(
            stored_copied_run(tmp_path / str(lost), lost=lost), FrameLogReader()
        ).result
        for lost in (0, 3)
    ]
    text = printed(draw_copies(results), 80)
    run = results[0].run
    lines = [line.split() for line in text.splitlines() if line.startswith(run)]
    assert [line[3] for line in lines] == ["0", "3"]
    assert [line[-1] for line in lines] == ["PASS", "FAIL"]
    assert "1 of 2 copies came back with every commit" in text
    flat = " ".join(text.split())
    assert "1 of them failed" in flat
    assert "No power was cut" in flat
    assert tally(*results).cuts == 0


def test_a_restore_to_a_point_is_judged_and_drawn_as_one(tmp_path: Path) -> None:
    point = Point(PointKind.RESTORE_POINT, "dbcheck_20261201-144113-ff52f7")
    subject, result, _ = shown(stored_copied_run(tmp_path, point=point))
    assert result.verdict is Verdict.PASS, result.reasons
    assert result.copy is not None
    assert (result.copy.point_kind, result.copy.point) == (point.kind, point.value)
    assert result.copy.taken_s is None
    page = format_report(subject, "html")
    assert "The point was read" in page
    assert f"restore-point {point.value}" in page
    assert "The copy was begun" not in page
    text = printed(draw_copies([result]), 100)
    assert "from after it" in text
    assert "1 of 1 restores to a point came back with every commit" in text
    assert "points were read under load" in " ".join(text.split())


def test_a_restore_past_its_point_is_no_evidence(tmp_path: Path) -> None:
    point = Point(PointKind.LSN, "0/3000148")
    run = stored_copied_run(tmp_path, whole=True, point=point)
    result = judge_run(run, FrameLogReader()).result
    assert result.verdict is Verdict.INCONCLUSIVE
    wrong = [one.item for one in result.evidence if one.status.value == "contradicted"]
    assert wrong == [ItemId.POINT_STOP]


def test_the_server_itself_in_its_place_is_no_evidence(tmp_path: Path) -> None:
    result = judge_run(stored_copied_run(tmp_path, whole=True), FrameLogReader()).result
    assert result.verdict is Verdict.INCONCLUSIVE
    wrong = [one.item for one in result.evidence if one.status.value == "contradicted"]
    assert wrong == [ItemId.COPY_APART]


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("lost", [0, 2])
@pytest.mark.parametrize("point", [None, Point(PointKind.GTID, "0-1-270")])
def test_a_bundle_of_it_is_judged_again_as_it_was(
    point: Point | None, lost: int, redact: bool, tmp_path: Path
) -> None:
    run = stored_copied_run(tmp_path, lost=lost, point=point)
    verdict = judge_run(run, FrameLogReader()).verdict
    file = tmp_path / "b.tar"
    bundle_of(run.path, file, redact=redact)
    found = verify(file, FrameLogReader())
    assert (found.differences, found.same, found.judged_again) == ((), True, 1)
    assert found.verdict is verdict
    attested = json.loads(dict(contents(file))[ATTESTATION_FILE])["predicate"]
    (tested,) = attested["failedTests" if lost else "passedTests"]
    what = "copy" if point is None else "archive"
    assert tested.startswith(f"{what} of postgresql")
    texts = b"".join(content for _, content in contents(file))
    assert (COPY_HOST.encode() in texts) is not redact


def test_a_redacted_bundle_does_not_name_the_host_of_restored_volumes(
    tmp_path: Path,
) -> None:
    """No record names it but in why the volumes were not read, in the words of ssh."""
    run = stored_copied_run(tmp_path)
    failure = (
        "host ssh://root@backup7: ssh: connect to host backup7 port 22: Connection"
        " refused"
    )
    copy = replace(run.copy() or CopyRecord(), volumes=VolumesRecord("00", 150, 250))
    assert copy.volumes is not None
    run.write_copy(replace(copy, volumes=replace(copy.volumes, failure=failure)))
    bundle_of(run.path, tmp_path / "b.tar", redact=True)
    texts = b"".join(content for _, content in contents(tmp_path / "b.tar"))
    assert b"backup7" not in texts
    assert b"connect to host host-" in texts


def test_the_checks_of_a_folder_have_it_as_a_check_without_a_cut(
    tmp_path: Path,
) -> None:
    run = stored_copied_run(tmp_path / "runs")
    judge_run(run, FrameLogReader())
    (server,) = read_history(tmp_path / "runs").servers
    (check,) = server.checks
    assert (check.kind, check.verdict, check.statistics) == (
        "snapshot",
        Verdict.PASS,
        None,
    )


def test_it_is_not_counted_with_cuts_nor_named_beside_them(tmp_path: Path) -> None:
    copied = stored_copied_run(tmp_path / "runs")
    moved = copied.path.rename(copied.path.with_name("copy"))
    cut = RunFolder.open(stored_copy("postgresql-pass", tmp_path / "runs"))
    with refused(
        ErrorId.RUNS_NOT_OF_ONE_SERVER, UsageError, naming="read a restored copy"
    ):
        open_chosen([cut.path, moved])
    assert list_runs_beside([cut]) == ()
