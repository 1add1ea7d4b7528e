"""Clusters of PostgreSQL: what each promise shows, and what must not convince."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle import watching
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.watching import FollowerWatch
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.lab import Lab
from dbcheck.lab.process import Process
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Node
from dbcheck.runner.lab_clusters import await_standbys
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of
from tests.kit.clusters import (
    await_end_of,
    client_of,
    cluster_of,
    cycle,
    promoting,
    status,
    without,
)
from tests.kit.lab_access import execute_on
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until


def promoted(node: Node) -> None:
    engine: Any = node.engine
    engine.promote()


def test_commits_survive_the_loss_of_the_writer(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node2"
    reason = outcome.judgement.reasons[0]
    assert "survived the loss of the writer" in reason
    assert "; node2 took over" in reason
    cluster = outcome.result.cluster
    assert cluster is not None
    assert cluster.left["node1"].behind == 0
    one, other = cluster.members["node1"], cluster.members["node2"]
    assert (one.cut, one.awaited) == (True, None)
    assert (other.cut, other.awaited) == (False, True)
    assert one.settings["synchronous_standby_names"]
    items = (ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED, ItemId.ALL_APPLIED)
    assert {status(outcome, item) for item in items} == {Status.PRESENT}
    seen = outcome.load.replication if outcome.load else None
    assert seen is not None
    assert seen.awaited() == ("node2",)
    # A stored run is judged the same, with what was left on the old writer.
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement
    assert again.result.cluster == cluster
    # So is its bundle, which holds what was read there.
    bundle = bundle_of(outcome.run.path, tmp_path / "run.tar.gz")
    assert bundle.verdict is Verdict.PASS


def test_a_client_that_gets_few_samples_gets_its_verdict_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is busy does: a slow machine needs longer, and nothing else."""
    monkeypatch.setattr(watching, "SAMPLE_S", 0.7)
    with cluster_of(tmp_path) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert status(outcome, ItemId.IN_SYNC) is Status.PRESENT


def test_an_asynchronous_standby_behind_a_link_that_is_down_loses(
    tmp_path: Path,
) -> None:
    with cluster_of(tmp_path, synchronous_standby_names="") as (cluster, rig):
        outcome = cycle(rig, cluster.take_links_down)
    assert outcome.verdict is Verdict.FAIL
    found, result = outcome.found, outcome.result
    assert found is not None
    lost = sum(found.own_counts.values())
    assert lost > 100
    left = outcome.case.left["node1"]
    assert left.behind > 0
    assert outcome.judgement.reasons[1].startswith("left-behind: node1 still has")
    assert status(outcome, ItemId.IN_SYNC) is Status.ABSENT
    assert status(outcome, ItemId.PROMISED_SETTINGS) is Status.ABSENT
    assert result.diagnosis[0].cause is Cause.REPLICATION
    assert "synchronous_standby_names is empty" in result.diagnosis[0].reason


@pytest.mark.wide
def test_the_writer_alone_is_cut_and_comes_back(tmp_path: Path) -> None:
    with cluster_of(tmp_path, promise=Promise.WRITER) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node1"
    assert outcome.after.promotion is None


@pytest.mark.wide
def test_all_nodes_are_cut_and_the_writer_is_read(tmp_path: Path) -> None:
    with cluster_of(tmp_path, promise=Promise.ALL) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.load is not None
    assert all(node.cut for node in outcome.load.nodes.values())


@pytest.mark.wide
def test_all_nodes_are_cut_and_a_standby_takes_over(tmp_path: Path) -> None:
    """A drive may have flushed all its canaries, so the cut is made several times."""
    promise = Promise.ALL_WRITER_GONE
    for number in range(8):
        folder = tmp_path / str(number)
        with cluster_of(folder, 2, promise, DriveSpec()) as (_, rig):
            outcome = cycle(rig)
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        assert outcome.case.tested_name == "node2"
        if outcome.result.shown_depth is Depth.DRIVE:
            break
    assert outcome.result.shown_depth is Depth.DRIVE


@pytest.mark.wide
def test_what_a_standby_had_only_written_is_lost_with_its_page_cache(
    tmp_path: Path,
) -> None:
    """A cut may meet a moment at which all is flushed, so it is made several times."""
    promise, drive = Promise.ALL_WRITER_GONE, DriveSpec(flush_ms=20)
    for number in range(8):
        folder = tmp_path / str(number)
        with cluster_of(
            folder, 2, promise, drive, synchronous_commit="remote_write"
        ) as (_, rig):
            outcome = cycle(rig)
        if outcome.verdict is Verdict.FAIL:
            break
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert outcome.result.diagnosis[0].cause is Cause.REPLICATION
    assert "remote_write" in outcome.result.diagnosis[0].reason


@pytest.mark.wide
def test_the_standby_that_received_most_takes_over(tmp_path: Path) -> None:
    with cluster_of(tmp_path, nodes=3) as (cluster, rig):
        outcome = cycle(rig, lambda: cluster.take_links_down("node2"))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node3"


def test_a_promotion_of_the_wrong_standby_proves_nothing(tmp_path: Path) -> None:
    with cluster_of(tmp_path, nodes=3) as (cluster, rig):
        nodes = rig.site.nodes
        wrong = promoting(rig, lambda _name, _node: promoted(nodes["node2"]))
        outcome = cycle(wrong, lambda: cluster.take_links_down("node2"))
    assert outcome.found is not None
    assert outcome.found.counts  # rows are missing there, and node3 has them
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert (
        "node2 was promoted although node3 had received more"
        in (outcome.judgement.reasons[0])
    )


def test_an_old_writer_that_is_back_too_early_proves_nothing(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (_, rig):
        nodes = rig.site.nodes

        def early(_name: str, node: Node) -> None:
            promoted(node)
            nodes["node1"].power.restore()

        outcome = cycle(promoting(rig, early))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.WRITER_OFF) is Status.CONTRADICTED
    assert (
        "node1 was up again before the rows were read" in (outcome.judgement.reasons[0])
    )


@pytest.mark.wide
def test_a_standby_that_does_not_take_over_is_no_loss(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (_, rig):
        never = promoting(rig, lambda *_: None)
        limits = replace(rig.limits, return_s=4)
        outcome = cycle(replace(never, limits=limits))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.judgement.reasons[0].startswith("no other node took over")
    assert outcome.found is None


@pytest.mark.wide
def test_a_standby_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """It follows a server, and not the one that takes the load."""
    with (
        cluster_of(tmp_path / "one") as (_, rig),
        cluster_of(tmp_path / "other") as (_, strangers),
    ):
        stranger = strangers.site.nodes["node2"]
        nodes = {**rig.site.nodes, "node2": stranger}
        mixed = promoting(rig, lambda *_: None)
        site: Any = mixed.site
        site._nodes = nodes
        with refused(ErrorId.NODE_OF_OTHER_CLUSTER, EngineError, naming="node2"):
            cycle(mixed)
        alone = {"node1": nodes["node1"], "node2": strangers.site.nodes["node1"]}
        site._nodes = alone
        with refused(
            ErrorId.NODE_NOT_IN_CLUSTER,
            EngineError,
            naming=("node2", "follows no other server"),
        ):
            cycle(mixed)


def test_a_name_that_an_outsider_bears_as_well_is_refused(tmp_path: Path) -> None:
    """As all that were given none do: the name is then that of their cluster."""
    with cluster_of(tmp_path, 3, synchronous_standby_names="*") as (cluster, rig):
        receive(cluster.labs["node3"], application_name="node2")
        wait_until(lambda: len(listed(cluster, "node2")) == 2, "both of one name")
        with refused(ErrorId.NODES_SHARE_NAME, EngineError, naming="node2") as caught:
            cycle(without(rig, "node3"))
    assert caught.value.id is ErrorId.NODES_SHARE_NAME


def test_an_outsider_that_takes_the_name_of_a_node_proves_nothing(
    tmp_path: Path,
) -> None:
    """Commits wait for one of the two, and the list does not show for which."""
    with cluster_of(tmp_path, 3, synchronous_standby_names="*") as (cluster, rig):

        def take_name() -> None:
            receive(cluster.labs["node3"], application_name="node2")
            wait_until(lambda: len(listed(cluster, "node2")) == 2, "both of one name")

        outcome = cycle(without(rig, "node3"), take_name)
    assert outcome.after.reader_name == "node2"
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.IN_SYNC) is Status.CONTRADICTED


def test_a_standby_that_follows_another_node_is_refused(tmp_path: Path) -> None:
    """No commit ever waited for it, whoever bears its name at the writer.

    Left out of the inventory, it follows on, and the others are tested.
    """
    with cluster_of(tmp_path, 3) as (cluster, rig):
        other = make_url(cluster.labs["node2"].target_url).port
        execute_on(cluster.labs["node3"], "alter system set primary_slot_name = ''")
        receive(cluster.labs["node3"], port=other)
        engine: Any = rig.site.nodes["node2"].engine
        with contextlib.closing(engine.open_followers()) as followers:
            wait_until(followers.read, "the cascade")
        with refused(
            ErrorId.NODE_FOLLOWS_OTHER_NODE, EngineError, naming="node3"
        ) as caught:
            cycle(rig)
        outcome = cycle(without(rig, "node3"))
    assert caught.value.id is ErrorId.NODE_FOLLOWS_OTHER_NODE
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node2"


def receive(standby: Lab, **changed: object) -> None:
    """Change how a standby connects to the server that it follows."""
    ((conninfo,),) = execute_on(standby, "show primary_conninfo")
    for name, value in changed.items():
        conninfo = re.sub(rf"\b{name}='?[^ ']+'?", f"{name}={value}", conninfo)
    text = conninfo.replace("'", "''")
    execute_on(
        standby,
        f"alter system set primary_conninfo = '{text}'",
        "select pg_reload_conf()",
    )


def listed(cluster: ClusterLab, name: str) -> list[Any]:
    """Return those that the writer lists by that name."""
    return execute_on(
        cluster.labs["node1"],
        f"select pid from pg_stat_replication where application_name = '{name}'"
        " and state = 'streaming'",
    )


@pytest.mark.wide
def test_a_standby_that_ends_its_recovery_early_is_refused(tmp_path: Path) -> None:
    """What it had received and not replayed would look lost."""
    with cluster_of(tmp_path) as (cluster, rig):
        standby = cluster.labs["node2"]
        standby.switch().cut()
        standby.configure({"recovery_target_lsn": "7F/0"})
        standby.switch().restore()
        await_standbys(rig, cluster)
        with refused(
            ErrorId.RECOVERY_ENDS_EARLY, EngineError, naming="recovery_target_lsn"
        ):
            cycle(rig)


def test_a_commit_whose_wait_was_cancelled_is_no_plain_ack(tmp_path: Path) -> None:
    """The standby is away, and each wait for it is cancelled: committed, and warned.

    The server sends clients no warnings, unless a session asks for them.
    """
    with cluster_of(tmp_path) as (cluster, rig):
        engine: Any = rig.site.writer.engine
        execute_on(
            cluster.labs["node1"],
            "alter system set client_min_messages = error",
            "select pg_reload_conf()",
        )
        ending: list[subprocess.Popen[bytes]] = []

        def cancelling() -> None:
            cluster.take_links_down()
            lab = cluster.labs["node1"]
            words = [sys.executable, "-c", _CANCEL, lab.target_url, lab.password]
            ending.append(subprocess.Popen(words))

        try:
            outcome = cycle(rig, cancelling)
        finally:
            for process in ending:
                process.kill()
                process.wait()
    load = outcome.load
    assert load is not None
    assert load.warned > 3
    assert "canceling wait for synchronous replication" in load.warnings[0]
    assert sum(load.sent.values()) - sum(load.acked.values()) >= load.warned
    assert outcome.verdict is Verdict.INCONCLUSIVE  # and those rows are no loss
    assert outcome.found is not None
    assert not outcome.found.counts
    assert engine.family == "postgresql"


_CANCEL = """
import sys, time
import psycopg2
from sqlalchemy.engine import make_url
url = make_url(sys.argv[1])
link = psycopg2.connect(host=url.host, port=url.port, user=url.username,
                        dbname=url.database, password=sys.argv[2])
link.autocommit = True
while True:
    link.cursor().execute(
        "select pg_cancel_backend(pid) from pg_stat_activity"
        " where wait_event = 'SyncRep'")
    time.sleep(0.02)
"""


def test_the_writer_is_asked_no_more_once_it_is_gone(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (_, rig):
        engine: Any = rig.site.writer.engine
        asking = FollowerWatch(engine.open_followers())
        wait_until(lambda: _samples(asking) > 5, "samples")
        rig.site.cut()
        wait_until(lambda: not asking._thread.is_alive(), "the end")
        seen = asking.seen()
    assert seen is not None
    assert seen.ended
    assert seen.awaited() == ("node2",)


def _samples(asking: FollowerWatch) -> int:
    seen = asking.seen()
    return seen.samples if seen else 0


_CLIENT = """
import os, sys
from pathlib import Path
from tests.kit.clusters import cluster_of

with cluster_of(Path(sys.argv[1])) as (cluster, rig):
    links = [link._process.pid for link in cluster._links.values()]
    print(*links, *(lab.name for lab in cluster.labs.values()), flush=True)
    sys.stdin.read()
"""


@pytest.mark.wide_with("2")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_cluster_whose_client_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    with client_of(_CLIENT, tmp_path) as (client, (link, *names)):
        relay = Process.of(int(link))
        assert relay is not None
        os.kill(client.pid, number)
        wait_until(lambda: not relay.alive(), "the end of the link")
    await_end_of(names)
