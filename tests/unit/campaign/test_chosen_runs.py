"""Several runs that somebody names: what they show together, and when they do not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign import chosen
from dbcheck.campaign.beside import list_runs_beside
from dbcheck.judge.checks import RunBeside
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import CutClass, PowerScope, SwitchKind
from dbcheck.model.pods import Pod
from dbcheck.model.records import CutAsked, NodeBefore
from dbcheck.model.verdict import (
    PPM,
    ControlFacts,
    ControlOutcome,
    CycleVerdict,
    Verdict,
)
from dbcheck.report.html.page import as_html
from dbcheck.report.junit import format_junit
from dbcheck.report.prometheus import format_metrics
from dbcheck.report.words import campaign as words
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.chosen_runs import manifest_of, run_of
from tests.kit.pods import POD, with_volume
from tests.kit.refusals import refused
from tests.kit.stored_run import RUN

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def count(*paths: Path) -> CampaignResult:
    """Count runs, as dbcheck report does."""
    runs = chosen.open_chosen(paths)
    judged = [chosen.judge_chosen(run, FrameLogReader()) for run in runs]
    beside = list_runs_beside(runs)
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
    assert (result.verdict, result.statistics.cuts) == (INCONCLUSIVE, 1)
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
    # Nor do the named ones bound anything without it.
    box = words.summarize_campaign(result)
    assert box.proof.startswith("No bound holds")
    assert "bound" not in {tile.name for tile in box.tiles}
    metrics = format_metrics(CampaignsResult(".", (result,)))
    (bound,) = [line for line in metrics.splitlines() if "upper_bound{" in line]
    assert "dbcheck_cuts{" in metrics and bound.endswith(" 1.0")
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


@pytest.mark.parametrize(
    ("pod", "naming"),
    [
        (with_volume(name="pvc-9"), "volume of the claim data-orders-1 is pvc-0a"),
        (replace(POD, node="node-b"), "node of Kubernetes is node-a"),
    ],
)
def test_runs_in_pods_are_of_one_node_and_one_volume(
    pod: Pod, naming: str, tmp_path: Path
) -> None:
    nodes = [
        replace(manifest_of(number).writer, pod=each)
        for number, each in ((1, POD), (2, pod))
    ]
    made = [run_of(tmp_path, number, node) for number, node in enumerate(nodes, 1)]
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


def beside_of(result: CampaignResult) -> dict[str, RunBeside]:
    """Return the runs that were not named, by the digit in their names."""
    assert result.chosen is not None
    return {one.run[7:8]: one for one in result.chosen.beside}


def test_no_bound_is_shown_while_a_loss_is_left_out(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    run_of(tmp_path, 3, lost=1)
    result = count(*made)
    assert result.statistics.loss_ppm_max == PPM
    box = words.summarize_campaign(result)
    assert "bound" not in [tile.name for tile in box.tiles]
    subject = CampaignsResult(str(tmp_path), (result,))
    for text in (box.proof, *words.lines(result), as_html(subject)):
        assert "78%" not in text  # the bound of two cuts that lost nothing
    assert 'loss_ratio_upper_bound{configuration="",kind="runs"' in (
        metrics := format_metrics(subject)
    )
    assert "0.77" not in metrics
    assert 'classname="dbcheck.runs"' in format_junit(subject)


@pytest.mark.parametrize("changed", ["database", "user", "version", "timeline"])
def test_a_loss_is_of_this_server_however_it_was_reached(
    changed: str, tmp_path: Path
) -> None:
    writer = manifest_of(3).writer
    identity = {**writer.facts.identity, "database": "d", "timeline": "1"}
    named = replace(writer, facts=replace(writer.facts, identity=identity))
    made = [run_of(tmp_path, number, named) for number in (1, 2)]
    if changed == "user":
        node = replace(writer, target="postgresql://another@dbhost7/e")
        node = replace(node, facts=replace(writer.facts, identity={}))
    elif changed == "version":
        identity |= {"server_version_num": "10000"}
        facts = replace(writer.facts, version="1.0", identity=identity)
        node = replace(writer, facts=facts)
    else:
        facts = replace(writer.facts, identity={**identity, changed: "another"})
        node = replace(writer, facts=facts)
    run_of(tmp_path, 3, node, lost=1)
    result = count(*made)
    assert beside_of(result)["3"].verdict is FAIL
    if changed == "version":  # another configuration: it is told in the first box
        assert "server" in words.summarize_campaign(result).warning
    else:
        assert result.verdict is INCONCLUSIVE


def advice_of(result: CampaignResult) -> tuple[str, str]:
    """Return the advice of the first box, and of the sentences below it."""
    said = [line for line in words.lines(result) if line.startswith("No PASS")]
    return words.summarize_campaign(result).action, "\n".join(said)


def test_only_a_run_that_can_be_counted_is_asked_for(tmp_path: Path) -> None:
    """Another database, a cycle, a copy and a damaged run are refused if named."""
    writer = manifest_of(1).writer
    identity = {**writer.facts.identity, "database": "d"}
    node = replace(writer, facts=replace(writer.facts, identity=identity))
    made = [run_of(tmp_path / "runs", number, node) for number in (1, 2)]
    lost = run_of(tmp_path / "runs", 3, node, lost=1)
    for said in advice_of(count(*made)):
        assert "as well" in said and "cannot be counted" not in said
    refusals = {
        "database": ErrorId.RUNS_NOT_OF_ONE_SERVER,
        "cycle": ErrorId.NOT_A_RESULT_FOLDER,
        "copy": ErrorId.NAME_GIVEN_TWICE,
        "damaged": ErrorId.RECORD_DAMAGED,
    }
    for change, refusal in refusals.items():
        shutil.rmtree(lost)
        lost = tmp_path / "runs" / "none"
        if change == "database":
            facts = replace(node.facts, identity={**identity, "database": "e"})
            lost = run_of(tmp_path / "runs", 3, replace(node, facts=facts), lost=1)
        elif change == "cycle":
            lost = run_of(tmp_path / "runs" / "a" / "runs", 3, node, lost=1)
            (lost.parent.parent / "campaign.json").touch()
        elif change == "copy":
            failed = run_of(tmp_path / "failed", 1, node, lost=1)
            lost = Path(shutil.copytree(failed, tmp_path / "runs" / "kept"))
        else:
            lost = run_of(tmp_path / "runs", 3, node, lost=1)
            (lost / "manifest.json").write_bytes(b"{}")
        result = count(*made)
        assert result.verdict is INCONCLUSIVE
        for said in advice_of(result):
            assert "as well" not in said, change
            assert "cannot be counted" in said, change
        with refused(refusal):
            count(*made, lost)


def test_a_loss_under_another_name_is_of_this_server_too(tmp_path: Path) -> None:
    facts = replace(manifest_of(1).writer.facts, identity={"database": "d"})
    node = replace(manifest_of(1).writer, facts=facts)
    made = [run_of(tmp_path, 1, node), run_of(tmp_path, 2, node)]
    other = replace(facts, identity={"database": "e"})
    target = "postgresql://another@dbhost7/e"
    run_of(tmp_path, 3, replace(node, facts=other, target=target), lost=1)
    assert count(*made).verdict is INCONCLUSIVE


def test_the_verdict_of_another_run_is_not_believed(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    lost = run_of(tmp_path, 3, lost=1)
    shutil.copyfile(made[0] / "verdict.json", lost / "verdict.json")
    result = count(*made)
    assert result.verdict is INCONCLUSIVE
    assert "another run" in beside_of(result)["3"].reason


def test_a_run_whose_manifest_is_damaged_may_be_a_loss(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    lost = run_of(tmp_path, 3, lost=1)
    (lost / "manifest.json").write_bytes(b"{}")
    (tmp_path / "idle").mkdir()
    (tmp_path / "idle" / "manifest.json").write_bytes(b"{}")  # nothing was cut
    result = count(*made)
    assert result.verdict is INCONCLUSIVE
    assert list(beside_of(result)) == ["3"]
    assert "manifest cannot be read" in beside_of(result)["3"].reason


def test_a_copy_of_a_named_run_that_failed_is_told(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2, lost=1)]
    shutil.copytree(made[1], tmp_path / "kept")
    again = run_of(tmp_path / "again", 2)
    shutil.rmtree(made[1])
    shutil.copytree(again, made[1])
    result = count(*made)
    assert result.verdict is INCONCLUSIVE
    assert "a copy of this run" in beside_of(result)["2"].reason


def test_a_link_does_not_hide_what_lies_beside_it(tmp_path: Path) -> None:
    made = []
    for number in (1, 2):
        path = run_of(tmp_path / str(number), number)
        (tmp_path / "runs").mkdir(exist_ok=True)
        made.append(tmp_path / "runs" / path.name)
        made[-1].symlink_to(path)
    run_of(tmp_path / "runs", 3, lost=1)
    assert count(*made).verdict is INCONCLUSIVE


def test_a_control_that_is_not_judged_may_have_failed(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    control = replace(manifest_of(3), control=True)
    RunFolder.create(tmp_path, control).write_cut_asked(CutAsked(1))
    assert count(*made).verdict is INCONCLUSIVE


def test_a_loss_set_up_otherwise_is_in_the_first_box(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    assert not words.summarize_campaign(count(*made)).warning
    lost = run_of(tmp_path, 3, with_settings(manifest_of(3).writer), lost=1)
    result = count(*made)
    assert result.verdict is PASS
    warning = words.summarize_campaign(result).warning
    assert lost.name in warning
    assert "fsync" in warning


def test_cuts_that_do_not_count_are_not_said_to_have_kept_anything(
    tmp_path: Path,
) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    idle = run_of(tmp_path, 3, restarted=False)
    box = words.summarize_campaign(count(*made, idle))
    assert box.headline.startswith("All 2 cuts of ")
    assert " that count kept " in box.headline
    assert (box.tiles[0].value, box.tiles[0].note) == (
        "2",
        "that count; 1 inconclusive",
    )
    box = words.summarize_campaign(count(made[0], idle))
    assert box.headline.startswith("The one cut of ")
    assert " that counts kept " in box.headline


@pytest.mark.parametrize(
    "folder", ["runs/a/runs", "campaigns/a/runs", "campaigns/a/db1/runs"]
)
def test_a_cycle_of_a_campaign_that_lost_is_told(folder: str, tmp_path: Path) -> None:
    made = [run_of(tmp_path / "runs", 1), run_of(tmp_path / "runs", 2)]
    run_of(tmp_path / folder, 3, lost=1)
    run_of(tmp_path / folder, 4)
    result = count(*made)
    assert result.verdict is INCONCLUSIVE
    assert list(beside_of(result)) == ["3", "4"]


def test_the_chart_says_when_the_runs_began(tmp_path: Path) -> None:
    result = count(run_of(tmp_path, 1), run_of(tmp_path, 2))
    page = as_html(CampaignsResult(str(tmp_path), (result,)))
    assert "The first began 2026-01-01" in page


def test_what_is_not_known_of_a_loss_does_not_excuse_it(tmp_path: Path) -> None:
    """Its host was not asked, so nothing shows that it was set up otherwise."""
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    lost = run_of(tmp_path, 3, lost=1)
    manifest = RunFolder.open(lost).manifest()
    nodes = {name: without_host(node) for name, node in manifest.nodes.items()}
    changed = replace(manifest, nodes=nodes)
    (lost / "manifest.json").write_bytes(stored.to_bytes(changed))
    result = count(*made)
    assert beside_of(result)["3"].differs == ()
    assert result.verdict is INCONCLUSIVE


def change(path: Path, **values: Any) -> None:
    """Change the manifest of a run; what is no field of its own is one of its nodes."""
    manifest = RunFolder.open(path).manifest()
    names = ("workload", "control", "controls")
    own = {name: values.pop(name) for name in names if name in values}
    nodes = {name: replace(node, **values) for name, node in manifest.nodes.items()}
    changed = replace(manifest, nodes=nodes, **own)
    (path / "manifest.json").write_bytes(stored.to_bytes(changed))


TESTED_OTHERWISE = pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sessions", {"workload": manifest_of(1).workload.with_sessions(1)}),
        ("class of the cut", {"cut_class": CutClass.RESET}),
        ("power", {"power": SwitchKind.FENCE}),
        ("what loses its power", {"scope": PowerScope.DRIVE}),
    ],
)


@TESTED_OTHERWISE
def test_no_other_load_or_cut_excuses_a_loss(
    name: str, values: dict[str, Any], tmp_path: Path
) -> None:
    """Whoever signs off the server must not read PASS beside what it lost."""
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    lost = run_of(tmp_path, 3, lost=1)
    change(lost, **values)
    result = count(*made)
    beside = beside_of(result)["3"]
    assert (beside.differs, beside.tested_otherwise) == ((), (name,))
    assert (result.verdict, result.statistics.losses) == (INCONCLUSIVE, 0)
    assert result.statistics.loss_ppm_max == PPM
    box = words.summarize_campaign(result)
    assert box.headline.startswith(f"The server {result.name} lost data in run")
    assert lost.name in box.headline and name in box.headline
    assert box.proof.startswith("No bound holds")
    first, *_ = words.lines(result)
    assert first.startswith(f"FAIL in run {lost.name} ") and name in first
    for said in advice_of(result):
        assert "cannot be counted" in said
    with refused(ErrorId.RUNS_NOT_OF_ONE_SERVER, UsageError, naming=name):
        count(*made, lost)
    # A server that was configured otherwise as well may have been mended since.
    change(lost, facts=with_settings(manifest_of(3).writer).facts)
    result = count(*made)
    assert result.verdict is PASS
    assert "fsync" in words.summarize_campaign(result).warning


@TESTED_OTHERWISE
def test_what_lost_nothing_under_another_load_or_cut_is_only_named(
    name: str, values: dict[str, Any], tmp_path: Path
) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    change(run_of(tmp_path, 3), **values)
    result = count(*made)
    assert (result.verdict, result.statistics.cuts) == (PASS, 2)
    assert f"PASS, another load or cut ({name})" in "\n".join(words.lines(result))


def test_a_cut_under_another_load_that_is_not_judged_may_have_lost(
    tmp_path: Path,
) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2)]
    run = RunFolder.create(tmp_path, manifest_of(3))
    run.write_cut_asked(CutAsked(1))
    change(run.path, workload=manifest_of(1).workload.with_sessions(1))
    result = count(*made)
    assert result.verdict is INCONCLUSIVE
    headline = words.summarize_campaign(result).headline
    assert "is not judged, and may have lost data" in headline
    assert run.path.name in headline


def as_control(run: chosen.ChosenRun, outcome: ControlOutcome) -> chosen.ChosenRun:
    """Return a run as the control that came to *outcome*."""
    facts = ControlFacts(run.manifest.run_id, outcome, "why it is so")
    verdicts = {ControlOutcome.LOST: CycleVerdict.PASS}
    verdict = verdicts.get(outcome, CycleVerdict.INCONCLUSIVE)
    return replace(
        run,
        manifest=replace(run.manifest, control=True),
        cycle=replace(run.cycle, control=facts, verdict=verdict),
    )


LOST, BLIND, UNFAIR = ControlOutcome.LOST, ControlOutcome.BLIND, ControlOutcome.UNFAIR


@pytest.mark.parametrize(
    ("controls", "verdict"),
    [
        ({1: LOST}, PASS),
        ({1: BLIND}, INCONCLUSIVE),
        ({3: BLIND}, INCONCLUSIVE),
        ({1: UNFAIR}, INCONCLUSIVE),
        ({1: BLIND, 2: LOST}, PASS),
        ({1: LOST, 4: BLIND}, INCONCLUSIVE),
    ],
)
def test_nothing_passes_before_a_control_that_was_run_has_lost_rows(
    controls: dict[int, ControlOutcome], verdict: Verdict, tmp_path: Path
) -> None:
    """As in one run and in a campaign; of several controls the newest decides."""
    runs = chosen.open_chosen([run_of(tmp_path, number) for number in range(1, 5)])
    judged = [chosen.judge_chosen(run, FrameLogReader()) for run in runs]
    made = [
        as_control(run, controls[number]) if number in controls else run
        for number, run in enumerate(judged, 1)
    ]
    result = chosen.make_chosen_result(made, (), "")
    assert (result.verdict, result.statistics.losses) == (verdict, 0)
    assert result.statistics.cuts == 4 - len(controls)
    box, lines = words.summarize_campaign(result), list(words.lines(result))
    if verdict is PASS:
        assert "kept every acknowledged commit" in box.headline
        return
    assert box.headline.startswith(f"The newest control of {result.name} does not show")
    assert box.proof.startswith("No bound holds") and "--control" in box.action
    assert result.statistics.loss_ppm_max == PPM
    assert "bound" not in {tile.name for tile in box.tiles}
    number = max(controls)
    assert lines[0].startswith("No PASS before a control has lost rows")
    assert lines[0].endswith(f"run {runs[number - 1].path.name}: why it is so")


def test_a_control_that_lost_nothing_counts_without_being_named(tmp_path: Path) -> None:
    """The run after it knows what it showed, and does not count itself."""
    made = [run_of(tmp_path, number) for number in (1, 2, 3)]
    facts = ControlFacts("20260102-000000-c", BLIND, "the control lost nothing")
    change(made[1], controls=(facts,))
    result = count(*made)
    assert (result.verdict, result.statistics.cuts) == (INCONCLUSIVE, 2)
    assert result.statistics.inconclusive == 1
    change(made[2], controls=(replace(facts, outcome=LOST),))
    assert count(*made).verdict is PASS


def test_a_loss_is_one_whatever_the_control_showed(tmp_path: Path) -> None:
    made = [run_of(tmp_path, 1), run_of(tmp_path, 2), run_of(tmp_path, 3, lost=1)]
    change(made[0], control=True)
    result = count(*made)
    assert (result.verdict, result.statistics.losses) == (FAIL, 1)
    assert result.chosen is not None and result.chosen.blind
    assert "lost acknowledged data" in words.summarize_campaign(result).headline
    assert not any(line.startswith("No PASS") for line in words.lines(result))


def test_a_cluster_is_not_counted_by_who_verifies_a_bundle(tmp_path: Path) -> None:
    runs = chosen.open_chosen([run_of(tmp_path, 1), run_of(tmp_path, 2)])
    judged = [chosen.judge_chosen(run, FrameLogReader()) for run in runs]
    first, second = judged
    nodes = dict.fromkeys(("db1", "db2"), second.manifest.writer)
    cluster = replace(
        second.manifest,
        nodes=nodes,
        writer_name="db1",
        site=SiteKind.STREAMING,
        promise=Promise.ALL,
    )
    with refused(ErrorId.RUNS_NOT_OF_ONE_SERVER, UsageError, naming="cluster"):
        chosen.make_chosen_result([first, replace(second, manifest=cluster)], (), "")
