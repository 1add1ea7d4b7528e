"""What a campaign on a cluster must not count, pass over, or overwrite.

Each has its honest neighbour, which is counted, or goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, RunFormatError, TargetChanged, UsageError
from dbcheck.campaign import campaign
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.campaign.own_runs import require_own_run
from dbcheck.campaign.recording import make_cycle
from dbcheck.campaign.totals import describe_progress, make_result
from dbcheck.config.target import KubernetesSettings
from dbcheck.cycle import rebuild
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.preflight.earlier_cycles import Known, KnownNode
from dbcheck.inventory.entry import Entry
from dbcheck.judge.results import CampaignsResult
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import CutClass
from dbcheck.model.moments import Activity, PlannedCut
from dbcheck.model.records import CutAsked, Manifest
from dbcheck.model.verdict import PPM, CycleVerdict, Verdict
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.words.campaign import summarize_campaign, summarize_campaigns
from dbcheck.runner import campaign_run
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.pods import POD, showing
from tests.kit.refusals import refused
from tests.kit.renamed_nodes import RECORDED
from tests.kit.reports import printed
from tests.kit.samples import FACTS, MANIFEST, PLAN

PASS, FAIL, OPEN = CycleVerdict.PASS, CycleVerdict.FAIL, CycleVerdict.INCONCLUSIVE
GONE = "writer-gone"


def plan_of(cuts: int = 2, **changed: Any) -> CampaignPlan:
    values = {"cuts": cuts, "promises": (GONE,), "control": False, **changed}
    return replace(PLAN, **values)


def cycle_of(number: int, verdict: CycleVerdict = PASS, **changed: Any) -> Cycle:
    values = {"promise": GONE, "lost": 0, "earlier_lost": 0, **changed}
    about = ("steady", 1.0, verdict, "its old writer was up again", "")
    return Cycle(number, f"run-{number}", *about, **values)


def folder_of(path: Path, plan: CampaignPlan, *cycles: Cycle) -> CampaignFolder:
    folder = CampaignFolder.create(path / "c", plan)
    folder.add(*cycles)
    return folder


MISSING = {"lost": 3}
OF_EARLIER = {"earlier_lost": 3}


@pytest.mark.parametrize(
    ("found", "is_pass"),
    [(MISSING, False), (OF_EARLIER, False), ({}, True), ({"lost": None}, True)],
)
@pytest.mark.parametrize("promises", [(GONE,), ("all", GONE)])
def test_no_cut_makes_up_for_one_that_may_have_lost(
    tmp_path: Path, found: dict[str, Any], is_pass: bool, promises: tuple[str, ...]
) -> None:
    """As many cuts count as were planned; one between them lacked rows."""
    plan = plan_of(len(promises) + 1, promises=promises)
    made = [cycle_of(n, promise=name) for n, name in enumerate(promises, 3)]
    cycles = [cycle_of(1, promise=promises[0]), cycle_of(2, OPEN, **found), *made]
    shown = make_result(folder_of(tmp_path, plan, *cycles))
    assert (shown.verdict is Verdict.PASS) is is_pass
    assert (shown.verdict is Verdict.INCONCLUSIVE) is not is_pass
    text = printed(draw_campaigns(CampaignsResult("/c", (shown,))))
    headline = summarize_campaign(shown).headline
    if is_pass:
        assert "kept every acknowledged commit" in headline
        return
    assert shown.statistics.loss_ppm_max == PPM
    assert "No bound holds" in text
    assert headline == "Rows are missing after a cut of db1 that does not count."
    assert "rows were missing" in describe_progress(plan, cycles)
    if len(promises) > 1:  # of another promise the cuts show what they showed
        verdicts = {name: one.verdict for name, one in shown.promises.items()}
        assert verdicts == {"all": Verdict.PASS, GONE: Verdict.INCONCLUSIVE}
    both = CampaignsResult("/c", (shown, replace(shown, cycles=())))
    assert "1 of 2 servers: db1" in summarize_campaigns(both).headline


def test_rows_that_a_control_is_to_lose_are_no_doubt(tmp_path: Path) -> None:
    control = replace(cycle_of(0, OPEN, **MISSING), run="control")
    plan = plan_of(1)
    assert make_result(folder_of(tmp_path, plan, control, cycle_of(1))).verdict is (
        Verdict.PASS
    )


@pytest.mark.parametrize(
    ("found", "keeps_going", "goes_on"),
    [
        (MISSING, False, False),
        (OF_EARLIER, False, False),
        (MISSING, True, True),
        ({}, False, True),
    ],
)
def test_a_cut_that_may_have_lost_ends_a_campaign_and_leaves_its_nodes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: dict[str, Any],
    keeps_going: bool,
    goes_on: bool,
) -> None:
    """Also when it is resumed; with --keep-going the old writer was read before."""
    plan = plan_of(keep_going=keeps_going)
    folder = folder_of(tmp_path, plan, cycle_of(1, OPEN, **found))
    folder.write_known(Known(run="run-1"))
    did: list[str] = []
    rig: Any = SimpleNamespace(
        site=SimpleNamespace(promise=Promise.WRITER_GONE, attended=False)
    )
    monkeypatch.setattr(campaign, "replace", lambda rig, **_: rig)
    monkeypatch.setattr(RunFolder, "open", lambda path: path)

    def rebuilt(rig: Any, _: Any, **more: Any) -> Any:
        did.append("rebuilt")
        return rig

    def run_next(_: Any, folder: CampaignFolder, *__: Any, **more: Any) -> None:
        did.append("cut")
        folder.add(cycle_of(len(folder.cycles()) + 1))

    monkeypatch.setattr(campaign, "rebuild_cluster", rebuilt)
    monkeypatch.setattr(campaign, "require_old_writer_read", lambda *_: None)
    monkeypatch.setattr(campaign, "_run_next_cycle", run_next)
    listener = RecordingListener()
    rig.listener = SimpleNamespace(phase=listener.phase, progress=lambda _: None)
    for _ in range(2):
        with (
            nullcontext()
            if goes_on
            else refused(ErrorId.LOSS_NOT_EXPLAINED, naming=("cycle 1", "up again"))
        ):
            campaign.run_campaign(rig, folder)
    assert ("cut" in did) is ("rebuilt" in did) is goes_on


def copied(folder: CampaignFolder) -> None:
    file = folder.path / "cycles" / "0001.json"
    shutil.copy(file, file.with_name("0003.json"))


def renumbered(folder: CampaignFolder) -> None:
    folder.add(replace(cycle_of(1), number=3))


def of_other_promise(folder: CampaignFolder) -> None:
    folder.add(cycle_of(3, promise="all"))


def third(folder: CampaignFolder) -> None:
    folder.add(cycle_of(3))


@pytest.mark.parametrize(
    ("merge", "why"),
    [
        (copied, "1 is there twice"),
        (renumbered, "run-1 is there twice"),
        (of_other_promise, "it tests all, and the campaign does not"),
        (third, ""),
    ],
)
def test_a_cut_is_counted_once_and_for_its_promise(
    tmp_path: Path, merge: Callable[[CampaignFolder], None], why: str
) -> None:
    """By the report of a folder, and by whoever continues it."""
    folder = folder_of(tmp_path, plan_of(3), cycle_of(1), cycle_of(2))
    merge(folder)
    if not why:
        assert make_result(folder).verdict is Verdict.PASS
        return
    with refused(ErrorId.RUN_NOT_OF_CAMPAIGN, RunFormatError, naming=why):
        make_result(folder)
    with refused(ErrorId.RUN_NOT_OF_CAMPAIGN, RunFormatError, naming=why):
        campaign.run_campaign(rig_of(RecordingListener()), folder)


NODES = {
    name: replace(MANIFEST.writer, target=f"postgresql+psycopg2://u@{name}/d")
    for name in ("node1", "node2")
}
OF_PAIR = replace(
    MANIFEST,
    seed=PLAN.seed + 2,
    site=SiteKind.STREAMING,
    promise=Promise.WRITER_GONE,
    writer_name="node1",
    nodes=NODES,
    moment=PlannedCut(2, Activity.STEADY, 1.0, 0.0),
)
OTHER_DATA = replace(FACTS, identity={"system_identifier": "2"})


def on_other_data(manifest: Manifest) -> Manifest:
    node1 = replace(manifest.writer, facts=OTHER_DATA)
    return replace(manifest, nodes={**manifest.nodes, "node1": node1})


def begin(tmp_path: Path, manifest: Manifest) -> tuple[CampaignFolder, RunFolder]:
    """Return a campaign that knows its first node, and a run that lies in it."""
    folder = folder_of(tmp_path, plan_of(), cycle_of(1))
    known = KnownNode({"system_identifier": "1"})
    folder.write_known(Known(nodes={"node1": known}))
    return folder, RunFolder.create(folder.runs, manifest)


def elsewhere(manifest: Manifest) -> Manifest:
    node2 = replace(NODES["node2"], target="postgresql+psycopg2://u@db9/d")
    return replace(manifest, nodes={**manifest.nodes, "node2": node2})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one, ""),
        (lambda one: replace(one, control=True, moment=None, seed=PLAN.seed), ""),
        (lambda one: replace(one, control=True, moment=None), ""),  # its third try
        (lambda one: replace(one, seed=9), "its seed is 9"),
        (lambda one: replace(one, moment=None), "its seed is"),  # of a single run
        (lambda one: replace(one, promise=Promise.ALL), "it tests the promise all"),
        (lambda one: replace(one, site=SiteKind.SEMI_SYNC), "on another site"),
        (elsewhere, "on another site"),
        (on_other_data, "system_identifier was 1 and is 2"),
    ],
)
def test_a_run_of_another_cluster_is_not_settled(
    tmp_path: Path, change: Callable[[Manifest], Manifest], why: str
) -> None:
    folder, run = begin(tmp_path, change(OF_PAIR))
    nodes = {
        name: SimpleNamespace(engine=SimpleNamespace(target=node.target), pods=None)
        for name, node in NODES.items()
    }
    site: Any = SimpleNamespace(kind=SiteKind.STREAMING, nodes=nodes)
    rig = replace(rig_of(RecordingListener()), site=site)
    if not why:
        require_own_run(folder, site, run)
        copy = run.path.with_name("20260102-030405-abcdef")
        shutil.copytree(run.path, copy)
        run, why = RunFolder.open(copy), "it is a copy of run"
    kind = TargetChanged if "system_identifier" in why else UsageError
    id = ErrorId.RUN_NOT_OF_CAMPAIGN
    id = ErrorId.TARGET_CHANGED if kind is TargetChanged else id
    with refused(id, kind, naming=why):
        require_own_run(folder, site, run)
    with refused(id, kind, naming=why):
        campaign._settle_all(rig, folder)
    assert len(folder.cycles()) == 1


def in_pods(manifest: Manifest) -> Manifest:
    """Return the manifest of the same cluster in pods, which had other addresses."""
    target = "postgresql+psycopg2://u@10.0.0.9/d"
    nodes = {
        name: replace(node, target=target, pod=replace(POD, name=name))
        for name, node in manifest.nodes.items()
    }
    return replace(manifest, nodes=nodes)


def one_less(manifest: Manifest) -> Manifest:
    nodes = {"node1": manifest.nodes["node1"], "node9": manifest.nodes["node2"]}
    return replace(manifest, nodes=nodes)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (in_pods, ""),
        (lambda one: one, "on another site"),  # on hosts
        (lambda one: one_less(in_pods(one)), "on another site"),
        (lambda one: on_other_data(in_pods(one)), "system_identifier was 1 and is 2"),
    ],
)
def test_a_pod_is_the_same_node_at_any_address(
    tmp_path: Path, change: Callable[[Manifest], Manifest], why: str
) -> None:
    folder, run = begin(tmp_path, change(OF_PAIR))
    nodes = {
        name: SimpleNamespace(engine=SimpleNamespace(target=name), pods=showing())
        for name in NODES
    }
    site: Any = SimpleNamespace(kind=SiteKind.STREAMING, nodes=nodes)
    is_other = "system_identifier" in why
    id = ErrorId.TARGET_CHANGED if is_other else ErrorId.RUN_NOT_OF_CAMPAIGN
    with refused(id, naming=why) if why else nullcontext():
        require_own_run(folder, site, run)


PAIR = Entry(
    *("node1", "postgresql+psycopg2://u@node1/d"),
    cluster="pair",
    topology="streaming",
    standbys=(Entry("node2", "postgresql+psycopg2://u@node2/d"),),
    survives=(GONE, "all"),
)
THIRD = Entry("node3", "postgresql+psycopg2://u@node3/d")
MOVED = Entry("node2", "postgresql+psycopg2://u@db9/d")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (PAIR, ""),
        (replace(PAIR, stagger_s=3.0), ""),  # the cut of the writer alone
        (
            replace(PAIR, standbys=(MOVED,)),
            "node2 was postgresql+psycopg2://u@node2/d, and is",
        ),
        (replace(PAIR, standbys=(*PAIR.standbys, THIRD)), "node3 was not one of it"),
        (replace(PAIR, standbys=(THIRD,)), "and is none of it"),
        (replace(PAIR, standbys=(), cluster=""), "and is none of it"),
        (replace(PAIR, topology="semi-sync"), "topology was streaming"),
        (replace(PAIR, survives="all"), "its promise was writer-gone"),
    ],
)
def test_the_cluster_of_a_campaign_stays_the_same(
    tmp_path: Path, entry: Entry, why: str
) -> None:
    folder = folder_of(tmp_path, plan_of())
    RunFolder.create(folder.runs, OF_PAIR)
    ends = refused(ErrorId.CAMPAIGN_OF_OTHER_TARGET, UsageError, naming=why)
    with ends if why else nullcontext():
        campaign_run._require_same_nodes(entry, folder)


IN_PODS = KubernetesSettings("app=orders")
PAIR_IN_PODS = replace(
    PAIR,
    target="postgresql+psycopg2://u@10.0.0.7/d",
    kubernetes=IN_PODS,
    standbys=(replace(MOVED, kubernetes=IN_PODS),),
)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (PAIR_IN_PODS, ""),
        (PAIR, "node1 was in a pod, and is postgresql"),
        (
            replace(PAIR_IN_PODS, standbys=(replace(THIRD, kubernetes=IN_PODS),)),
            "node2 was in a pod, and is none of it",
        ),
    ],
)
def test_the_pods_of_a_campaign_stay_the_same_ones(
    tmp_path: Path, entry: Entry, why: str
) -> None:
    folder = folder_of(tmp_path, plan_of())
    RunFolder.create(folder.runs, in_pods(OF_PAIR))
    ends = refused(ErrorId.CAMPAIGN_OF_OTHER_TARGET, UsageError, naming=why)
    with ends if why else nullcontext():
        campaign_run._require_same_nodes(entry, folder)


def test_pods_are_looked_up_anew_before_the_first_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign that is resumed was placed as its newest run."""
    now: Any = SimpleNamespace(promise=Promise.WRITER_GONE)
    then: Any = SimpleNamespace(promise=Promise.WRITER_GONE, writer_name="node1")
    asked = list[str]()

    def find_nodes(leads: str) -> Any:
        asked.append(leads)
        return now

    monkeypatch.setattr(campaign, "lead_by_writer", lambda site: site)
    rig = replace(rig_of(RecordingListener()), site=then, find_nodes=find_nodes)
    assert campaign._make_whole(rig, folder_of(tmp_path, plan_of())).site is now
    assert asked == ["node1"]


def test_cuts_that_come_one_after_the_other_are_not_counted_with_others(
    tmp_path: Path,
) -> None:
    folder = folder_of(tmp_path, plan_of())
    staggered = replace(OF_PAIR, promise=Promise.ALL, stagger_s=3.0)
    RunFolder.create(folder.runs, staggered)
    campaign_run._require_same_nodes(replace(PAIR, stagger_s=3.0), folder)
    with refused(ErrorId.CAMPAIGN_OF_OTHER_TARGET, UsageError, naming="by 3 s"):
        campaign_run._require_same_nodes(PAIR, folder)


STRAY = EngineError("node1 follows no other", id=ErrorId.NODE_NOT_IN_CLUSTER)


@pytest.mark.parametrize(
    ("found", "is_cut", "stray", "is_refused"),
    [
        ({"lost": None}, True, STRAY, True),
        ({"lost": None}, True, None, False),  # somebody repaired it
        ({"lost": None}, False, STRAY, False),
        ({}, True, STRAY, False),
    ],
)
def test_a_cluster_whose_cut_was_never_read_is_not_overwritten(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: dict[str, Any],
    is_cut: bool,
    stray: EngineError | None,
    is_refused: bool,
) -> None:
    """As where another cluster answered; the reading before it is known."""
    run_id = OF_PAIR.run_id
    cycle = replace(cycle_of(2, OPEN, **found), run=run_id)
    folder = folder_of(tmp_path, plan_of(), cycle_of(1), cycle)
    folder.write_known(Known(run=run_id))
    run = RunFolder.create(folder.runs, OF_PAIR)
    if is_cut:
        run.write_cut_asked(CutAsked(1))

    def look(_: object) -> None:
        if stray:
            raise stray

    rebuilt: list[object] = []

    def note(rig: object, *_: object, **__: object) -> object:
        rebuilt.append(rig)
        return rig

    site = SimpleNamespace(promise=Promise.WRITER_GONE)
    rig: Any = SimpleNamespace(site=site, find_nodes=None)
    monkeypatch.setattr(campaign, "lead_by_writer", lambda site: site)
    monkeypatch.setattr(campaign, "require_all_in_place", look)
    monkeypatch.setattr(campaign, "rebuild_cluster", note)
    ends = refused(ErrorId.OLD_WRITER_NOT_READ, naming=(run_id, "follows no other"))
    with ends if is_refused else nullcontext():
        campaign._make_whole(rig, folder)
    assert bool(rebuilt) is not is_refused


@pytest.mark.parametrize("stray", ["", "node1 follows no other server"])
def test_an_old_writer_that_somebody_rebuilt_needs_no_reading(
    monkeypatch: pytest.MonkeyPatch, stray: str
) -> None:
    after = SimpleNamespace(reader_name="node2", elsewhere={})
    failed: Any = SimpleNamespace(manifest=lambda: OF_PAIR, after=lambda: after)
    site: Any = SimpleNamespace(brings_back=True, led_by=lambda name: name)
    monkeypatch.setattr(rebuild, "find_writer", lambda _, expected: expected)
    monkeypatch.setattr(rebuild, "_describe_stray", lambda led, name: stray)
    with refused(ErrorId.OLD_WRITER_NOT_READ) if stray else nullcontext():
        rebuild.require_old_writer_read(site, failed)


@pytest.mark.parametrize(
    ("promise", "counted"),
    [(Promise.ALL_WRITER_GONE, CutClass.RESET), (Promise.WRITER_GONE, CutClass.AC)],
)
def test_a_cut_is_counted_as_that_of_the_node_that_lost_its_power(
    tmp_path: Path, promise: Promise, counted: CutClass
) -> None:
    """A standby that was reset and is read shows nothing of the writer's plug."""
    path = tmp_path / RECORDED.name
    shutil.copytree(RECORDED, path)
    manifest = RunFolder.open(path).manifest()
    classes = {"node1": CutClass.AC, "node2": CutClass.RESET}
    nodes = {
        name: replace(node, cut_class=classes[name])
        for name, node in manifest.nodes.items()
    }
    changed = replace(manifest, promise=promise, nodes=nodes)
    (path / "manifest.json").write_bytes(stored.to_bytes(changed))
    outcome = judge_run(RunFolder.open(path), FrameLogReader())
    assert make_cycle(outcome, ended="").cut_class == counted.value
    assert outcome.result.cut_class is counted
