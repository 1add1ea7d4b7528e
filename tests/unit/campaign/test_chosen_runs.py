"""Several runs that somebody names: what they show together, and when they do not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign import chosen
from dbcheck.judge.results import CampaignResult
from dbcheck.model.cut import CutClass
from dbcheck.model.records import CutAsked, NodeBefore
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.report.words import campaign as words
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.chosen_runs import manifest_of, run_of
from tests.kit.refusals import refused
from tests.kit.stored_run import RUN

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def count(*paths: Path) -> CampaignResult:
    """Count runs, as dbcheck report does."""
    runs = chosen.open_chosen(paths)
    judged = [chosen.judge_chosen(run, FrameLogReader()) for run in runs]
    beside = chosen.list_runs_beside(runs)
    return chosen.make_chosen_result(judged, beside, str(paths[0].parent))


def test_cuts_are_counted_with_their_bound_in_the_order_of_time(tmp_path: Path) -> None:
    made = [run_of(tmp_path, number) for number in (1, 2, 3)]
    result = count(made[2], made[0], made[1])
    assert (result.verdict, result.statistics.cuts) == (PASS, 3)
    assert "no loss in 3 cuts" in result.statistics.sentence
    assert "at most 64% of cuts lose" in result.statistics.sentence
    assert result.chosen is not None
    assert result.chosen.folders == tuple(map(str, made))
    assert [(one.number, one.run) for one in result.cycles] == [
        (number, path.name) for number, path in enumerate(made, 1)
    ]
    first, *_ = words.lines(result)
    assert first.startswith("counted are the 3 runs that were named")
    box = words.summarize_campaign(result)
    assert box.headline.startswith("All 3 cuts of ") and "64%" in box.tiles[1].value


def test_a_loss_decides_and_what_shows_nothing_does_not_count(tmp_path: Path) -> None:
    passed, idle = run_of(tmp_path, 1), run_of(tmp_path, 2, restarted=False)
    result = count(passed, idle)
    assert (result.verdict, result.statistics.cuts) == (PASS, 1)
    assert result.statistics.inconclusive == 1
    lost = run_of(tmp_path, 3, lost=2)
    result = count(passed, idle, lost)
    assert (result.verdict, result.statistics.losses) == (FAIL, 1)
    assert result.statistics.cuts == 2
    assert count(idle, run_of(tmp_path / "other", 4, restarted=False)).verdict is (
        INCONCLUSIVE
    )


def test_a_control_is_no_cut(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    changed = replace(manifest_of(2), control=True)
    (made[1] / "manifest.json").write_bytes(stored.to_bytes(changed))
    result = count(*made)
    assert result.statistics.cuts == 1
    assert [one.number for one in result.cycles] == [1, 0]


def test_a_loss_that_was_left_out_is_named_first_and_keeps_it_from_a_pass(
    tmp_path: Path,
) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    lost = run_of(tmp_path, 3, lost=1)
    result = count(*made)
    assert (result.verdict, result.statistics.losses) == (INCONCLUSIVE, 0)
    assert result.chosen is not None
    (beside,) = result.chosen.beside
    assert (beside.run, beside.verdict, beside.contradicts) == (lost.name, FAIL, True)
    first, *_ = words.lines(result)
    assert first.startswith(f"FAIL in run {lost.name} ")
    # Named, it makes it a FAIL; elsewhere, it is none of this.
    assert count(*made, lost).verdict is FAIL
    lost.rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    assert count(*made).verdict is PASS


def test_what_lies_beside_without_contradicting_is_named(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    run_of(tmp_path, 3)
    run_of(tmp_path, 4, restarted=False)
    facts = replace(manifest_of(5).writer.facts, settings={"fsync": "off"})
    node = replace(manifest_of(5).writer, facts=facts)
    other_settings = run_of(tmp_path, 5, node, lost=1)
    facts = replace(facts, identity={"system_identifier": "2"})
    run_of(tmp_path, 6, replace(node, facts=facts), lost=1)  # another server
    RunFolder.create(tmp_path, manifest_of(7))  # it ended before its load
    result = count(*made)
    assert result.verdict is PASS
    assert result.chosen is not None
    beside = {one.run[7:8]: one for one in result.chosen.beside}
    assert {name: one.verdict for name, one in beside.items()} == {
        "3": PASS,
        "4": INCONCLUSIVE,
        "5": FAIL,
    }
    assert result.chosen.beside[0].run == other_settings.name
    assert "fsync" in beside["5"].differs
    text = "\n".join(words.lines(result))
    assert all(one.run in text for one in result.chosen.beside)


def test_a_cut_without_a_verdict_may_be_a_loss(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    run = RunFolder.create(tmp_path, manifest_of(3))
    run.write_cut_asked(CutAsked(1))
    assert count(*made).verdict is INCONCLUSIVE
    with refused(ErrorId.NO_FINAL_VERDICT, UsageError, naming=run.path.name):
        count(*made, run.path)


def test_a_run_counts_once(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    copied = Path(shutil.copytree(made[0], tmp_path / "copied"))
    for again in (made[0], tmp_path / "." / made[0].name, copied):
        with refused(ErrorId.NAME_GIVEN_TWICE, UsageError):
            count(*made, again)


def with_settings(node: NodeBefore) -> NodeBefore:
    facts = replace(node.facts, settings={**node.facts.settings, "fsync": "off"})
    return replace(node, facts=facts)


def with_identity(node: NodeBefore) -> NodeBefore:
    return replace(node, facts=replace(node.facts, identity={"system_identifier": "2"}))


def with_drive(node: NodeBefore) -> NodeBefore:
    host = node.host
    assert host is not None
    first, *others = host.facts.volumes
    drives = tuple(replace(drive, serial="another") for drive in first.drives)
    volumes = (replace(first, drives=drives), *others)
    facts = replace(host.facts, volumes=volumes)
    return replace(node, host=replace(host, facts=facts))


def without_host(node: NodeBefore) -> NodeBefore:
    return replace(node, host=None)


def with_class(node: NodeBefore) -> NodeBefore:
    return replace(node, cut_class=CutClass.RESET)


def unnamed_elsewhere(node: NodeBefore) -> NodeBefore:
    facts = replace(node.facts, identity={})
    return replace(node, facts=facts, target="postgresql://u@other/d")


@pytest.mark.parametrize(
    ("changed", "naming"),
    [
        (with_settings, "fsync is on in the first and off in the other"),
        (with_identity, "system_identifier was 1 and is 2"),
        (with_drive, "serial numbers of the drives"),
        (without_host, "not known"),
        (with_class, "class of the cut"),
        (unnamed_elsewhere, "postgresql://u@other/d"),
    ],
)
def test_runs_that_are_not_of_one_server_are_refused_by_what_differs(
    changed: Callable[[NodeBefore], NodeBefore], naming: str, tmp_path: Path
) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2, changed(manifest_of(2).writer))]
    with refused(ErrorId.RUNS_NOT_OF_ONE_SERVER, UsageError, naming=naming):
        count(*made)


def test_only_runs_of_their_own_are_counted(tmp_path: Path) -> None:
    made = run_of(tmp_path, 1)
    (tmp_path / "none").mkdir()
    with refused(ErrorId.NOT_A_RESULT_FOLDER, UsageError, naming="none"):
        count(made, tmp_path / "none")
    campaign = tmp_path / "campaign"
    cycle = run_of(campaign / "runs", 2)
    (campaign / "campaign.json").touch()
    with refused(ErrorId.NOT_A_RESULT_FOLDER, UsageError, naming=cycle.name):
        count(made, cycle)
    assert RUN not in cycle.name


def test_a_run_that_lost_its_rows_cannot_be_judged_anew(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    RunFolder.open(made[0]).drop_survivors()
    with refused(ErrorId.STORED_ROWS_MISSING, UsageError, naming=made[0].name):
        count(*made)


def test_the_verdict_of_each_is_that_of_today(tmp_path: Path) -> None:
    """What a verdict.json says is not believed."""
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2, lost=1)]
    shutil.copyfile(made[0] / "verdict.json", made[1] / "verdict.json")
    result = count(*made)
    assert [one.verdict for one in result.cycles] == [
        CycleVerdict.PASS,
        CycleVerdict.FAIL,
    ]
