"""A standby that is cut while it takes over; an old writer that returns beside it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.spec import PATRONI_4, ClusterSpec
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_clusters import run_cluster_cycles
from dbcheck.site.cluster import Cluster
from tests.kit.clusters import cluster_of, cycle, status
from tests.kit.rigs import quick

pytestmark = pytest.mark.root

# It keeps what was flushed, and nothing else ever becomes stable by itself.
HONEST = DriveSpec(destage_age_s=0)
LYING = DriveSpec(personality="lying", destage_age_s=0)
ENGINES = pytest.mark.parametrize("engine", ["postgresql", "mysql", "mariadb"])
WIDE_ENGINES = pytest.mark.wide_with("mysql", "mariadb")
NO_SETTINGS: Mapping[str, str] = {}
# No commit waits for a standby.
ALONE = {
    "postgresql": {"synchronous_standby_names": ""},
    "mysql": {"rpl_semi_sync_source_enabled": "OFF"},
    "mariadb": {"rpl_semi_sync_master_enabled": "OFF"},
}


def run(
    folder: Path,
    spec: ClusterSpec,
    engine: str = "postgresql",
    drive: DriveSpec | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Outcome:
    """Run a cycle; drive: None if the server's process is killed."""
    cut = "drive" if drive else "process"
    lab = LabSpec(engine, cut=cut, drive=drive or DriveSpec(), settings=dict(settings))
    if lacking := list_missing(lab):
        pytest.skip("; ".join(lacking))
    progress = PlainProgress(Console(file=io.StringIO()))
    (outcome,) = run_cluster_cycles(lab, spec, quick(), 1, 1, progress, folder)
    return outcome


def cut_of_promoted(outcome: Outcome) -> None:
    promotion = outcome.after.promotion
    assert promotion is not None and promotion.cut is not None
    assert promotion.cut.node == outcome.after.reader_name == "node2"
    assert 0 < promotion.cut.gone_us - promotion.cut.asked_us < 5_000_000


@ENGINES
@WIDE_ENGINES
def test_what_a_standby_flushed_survives_its_cut_while_it_takes_over(
    tmp_path: Path, engine: str
) -> None:
    outcome = run(tmp_path, ClusterSpec(cut_promoted_ms=50), engine, HONEST)
    assert not outcome.result.losses
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert "and a cut of node2 while it took over" in outcome.judgement.reasons[0]
    cut_of_promoted(outcome)


@ENGINES
@WIDE_ENGINES
def test_a_drive_that_lies_loses_it_in_such_a_cut(tmp_path: Path, engine: str) -> None:
    """The control: the same drive keeps all as long as the standby keeps its power."""
    outcome = run(tmp_path, ClusterSpec(cut_promoted_ms=50), engine, LYING)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert "and a cut of node2 while it took over" in outcome.judgement.reasons[0]
    cut_of_promoted(outcome)


@pytest.mark.wide
@ENGINES
def test_that_drive_loses_nothing_without_such_a_cut(
    tmp_path: Path, engine: str
) -> None:
    outcome = run(tmp_path, ClusterSpec(), engine, LYING)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


STAYS_OFF = ClusterSpec(3, cut_promoted_ms=50, promoted_stays_off=True)


def lost_on_its_way(outcome: Outcome) -> None:
    promotion = outcome.after.promotion
    assert promotion is not None and promotion.cut is not None
    names = {promotion.cut.node, outcome.after.reader_name}
    assert names == {"node2", "node3"}
    assert promotion.cut.off is not None and not promotion.cut.off.is_back
    cluster = outcome.result.cluster
    assert cluster is not None and cluster.members[promotion.cut.node].cut
    assert outcome.after.elsewhere.keys() == {"node1"}
    says = f"and that of {promotion.cut.node} while it took over"
    assert says in outcome.judgement.reasons[0]


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
@pytest.mark.wide_with("mysql")
def test_what_two_standbys_have_survives_the_loss_of_the_one_that_takes_over(
    tmp_path: Path, engine: str
) -> None:
    outcome = run(tmp_path, STAYS_OFF, engine, HONEST)
    assert not outcome.result.losses
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    lost_on_its_way(outcome)


def test_what_one_standby_alone_has_is_lost_with_that_one(tmp_path: Path) -> None:
    """The control: ANY 1, and the other standby is cut off before the load."""
    with cluster_of(tmp_path, 3, drive=HONEST) as (cluster, rig):
        site = rig.site
        changed = Cluster(
            *(site.kind, site.nodes, site.writer_name, Promise.WRITER_GONE),
            cut_promoted_s=0.05,
            promoted_stays_off=True,
            brings_back=True,
            isolate=cluster.take_links_down,
        )
        outcome = cycle(
            replace(rig, site=changed), lambda: cluster.take_links_down("node3")
        )
    assert outcome.after.reader_name == "node3"
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert outcome.result.losses
    assert status(outcome, ItemId.PROMISED_SETTINGS) is Status.ABSENT
    lost_on_its_way(outcome)


@pytest.mark.wide
def test_what_no_commit_waited_for_is_lost_with_two_nodes(tmp_path: Path) -> None:
    spec = replace(STAYS_OFF, link_down_after_s=0.3)
    outcome = run(tmp_path, spec, drive=HONEST, settings=ALONE["postgresql"])
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    lost_on_its_way(outcome)


@ENGINES
@WIDE_ENGINES
def test_an_old_writer_that_returns_answers_commits_that_are_lost(
    tmp_path: Path, engine: str
) -> None:
    spec = ClusterSpec(network=True, old_writer_returns_s=3)
    outcome = run(tmp_path, spec, engine, settings=ALONE[engine])
    assert status(outcome, ItemId.WRITER_OFF) is Status.CONTRADICTED
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement.reasons
    reason = outcome.judgement.reasons[0]
    assert "and node2 lacks them: clients would have lost them" in reason
    outage = outcome.case.outage
    assert outage is not None
    lost = outage.list_acks_elsewhere("node1")
    kept = [ack for probed, ack in outage.lasting if probed.node == "node2"]
    assert lost and kept
    assert f"(number {lost[0].seq} to {lost[-1].seq})" in reason
    assert outcome.result.cluster is not None and outcome.result.cluster.returned


def test_an_old_writer_whose_commits_wait_answers_none(tmp_path: Path) -> None:
    """Its commits wait for a standby, which it no longer has."""
    spec = ClusterSpec(network=True, old_writer_returns_s=3)
    outcome = run(tmp_path, spec)
    assert status(outcome, ItemId.WRITER_OFF) is Status.ASSUMED
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert not outcome.result.losses
    (reason,) = (
        item.reason for item in outcome.judgement.items if item.id is ItemId.WRITER_OFF
    )
    assert "and answered no commit of dbcheck's probes" in reason


@pytest.mark.wide
def test_patroni_lets_no_old_leader_take_writes(tmp_path: Path) -> None:
    """It comes back below Patroni, which finds another leader.

    If Patroni shuts it down to rewind it, its log shows that, and no run passes.
    """
    spec = ClusterSpec(3, promoted_by=PATRONI_4, network=True, old_writer_returns_s=10)
    outcome = run(tmp_path, spec, settings={"synchronous_mode": "on"})
    assert status(outcome, ItemId.WRITER_OFF) is Status.ASSUMED
    assert not outcome.result.losses
    assert outcome.verdict is not Verdict.FAIL, outcome.judgement.reasons
