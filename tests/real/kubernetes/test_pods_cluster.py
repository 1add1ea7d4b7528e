"""A cluster of two pods on two nodes of a real Kubernetes: one loses its node.

Needs `python -m tools.kubernetes build`, which takes a quarter of an hour.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.stopping import has_lost
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Site
from dbcheck.rows.table import LEDGER
from tests.kit.kubernetes import pairs
from tests.kit.kubernetes.clusters import MARKS, cluster_in, find_item
from tests.kit.rigs import SEED, plan, quick
from tools.kubernetes.state import Cluster

pytestmark = MARKS


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("pair") / "cluster", 2) as made:
        yield made


def lose_primary(cluster: Cluster, folder: Path, *, behind: bool) -> Outcome:
    """Run a cycle in which the node of the first pod is lost.

    behind: the standby gets nothing of the load.
    """
    file = pairs.write_inventory(cluster, folder, dbcheck_promoted_by="sql")
    with pairs.rig_of_pair(cluster, file) as rig:
        assert rig.site.writer_name == pairs.FIRST  # its server was asked
        rig.site.writer.engine.prepare((LEDGER,))
        started = run_preflight(rig, quick(), SEED)
        if behind:
            nodes = started.manifest.nodes
            first, second = nodes[pairs.FIRST].pod, nodes[pairs.SECOND].pod
            assert first and second
            process = pairs.find_process(
                cluster.find_node(second.node), second.container_id
            )
            pairs.drop_stream(process, first.addresses[0])
        return finish_cycle(rig, started)


def test_a_standby_that_each_commit_waits_for_has_them_all(
    cluster: Cluster, tmp_path: Path
) -> None:
    pairs.start_pair(cluster, tmp_path / "data", awaited="*")
    outcome = lose_primary(cluster, tmp_path, behind=False)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert f"{pairs.SECOND} took over" in outcome.judgement.reasons[0]
    pod = find_item(outcome, ItemId.SAME_POD)
    assert pod.status is Status.PRESENT and pairs.SECOND in pod.reason
    assert find_item(outcome, ItemId.PROMOTED).status is Status.PRESENT
    assert find_item(outcome, ItemId.IN_SYNC).status is Status.PRESENT


def test_commits_that_no_standby_had_are_lost(cluster: Cluster, tmp_path: Path) -> None:
    pairs.start_pair(cluster, tmp_path / "data", awaited="")
    outcome = lose_primary(cluster, tmp_path, behind=True)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert f"{pairs.SECOND} took over" in outcome.judgement.reasons[0]
    assert find_item(outcome, ItemId.IN_SYNC).status is Status.ABSENT


@pytest.mark.timeout(1500)
def test_the_pods_are_found_again_after_each_cut(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The node of each writer starts again, and its pod has another address."""
    pairs.start_pair(cluster, tmp_path / "data", awaited="*")
    file = pairs.write_inventory(
        cluster,
        tmp_path,
        dbcheck_promoted_by="sql",
        dbcheck_rebuilt_by="command",
        dbcheck_rebuild=pairs.write_rebuild(cluster, tmp_path),
    )
    folder = CampaignFolder.create(tmp_path / "campaign", plan(cuts=3, name="pair"))
    with pairs.rig_of_pair(cluster, file) as rig:
        run_campaign(rig, folder)
    found = [(each.verdict.verdict, each.writer) for each in folder.cycles()]
    writers = (pairs.FIRST, pairs.SECOND, pairs.FIRST)
    assert found == [(Verdict.PASS, name) for name in writers]
    nodes = [run.nodes for run in folder.list_manifests()]
    for before, after, lost in zip(nodes, nodes[1:], writers, strict=False):
        for name in (pairs.FIRST, pairs.SECOND):
            then, now = before[name].pod, after[name].pod
            assert then and now and then.node == now.node
            assert (then.addresses != now.addresses) is (name == lost)


@pytest.mark.timeout(1500)
def test_an_operator_makes_the_old_writer_follow_after_a_control_too(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The old writer gets its power only once the rows were read."""
    pairs.start_pair(cluster, tmp_path / "data", awaited="*")
    more = {"dbcheck_promoted_by": "sql", "dbcheck_rebuilt_by": "auto"}
    file = pairs.write_inventory(cluster, tmp_path, **more)
    asked = plan(cuts=1, name="pair", control=True)
    folder = CampaignFolder.create(tmp_path / "campaign", asked)
    (operator,) = pairs.write_rebuild(cluster, tmp_path)
    with pairs.rig_of_pair(cluster, file) as rig:
        find_nodes, asked_for = rig.find_nodes, list[str]()
        assert find_nodes is not None

        def operate(leads: str) -> Site:
            site = find_nodes(leads)
            (other,) = {pairs.FIRST, pairs.SECOND} - {leads}
            if asked_for:  # after a cut
                subprocess.run([operator, other, leads], check=True)
            asked_for.append(leads)
            return site

        run_campaign(replace(rig, find_nodes=operate), folder)
    control, cycle = folder.cycles()
    assert control.control and has_lost(control.control)
    assert (control.writer, cycle.writer) == (pairs.FIRST, pairs.SECOND)
    assert cycle.verdict.verdict is Verdict.PASS, cycle.reason
