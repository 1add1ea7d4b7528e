"""Clusters of MySQL and MariaDB: semi-synchronous replication, kept and not kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle import watching
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.preflight import members
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import Verdict
from tests.kit.clusters import WORKLOAD, cluster_of, cycle, promoting, status, without
from tests.kit.lab_access import execute_on
from tests.kit.refusals import refused
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

ENGINES = pytest.mark.parametrize("engine", ["mysql", "mariadb"])
WORDS = {"mysql": "source", "mariadb": "master"}


@pytest.fixture(autouse=True)
def has_server(request: pytest.FixtureRequest) -> None:
    skip_without_server(request.node.callspec.params["engine"])


@pytest.mark.wide_with("mysql")
@ENGINES
def test_commits_survive_the_loss_of_the_writer(tmp_path: Path, engine: str) -> None:
    with cluster_of(tmp_path, engine=engine) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node2"
    items = (ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED, ItemId.ALL_APPLIED)
    assert {status(outcome, item) for item in items} == {Status.PRESENT}
    assert outcome.case.left["node1"].behind == 0


@pytest.mark.parametrize("engine", ["mariadb"])
def test_a_client_that_gets_few_samples_gets_its_verdict_all_the_same(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is busy does: a slow machine needs longer, and nothing else."""
    monkeypatch.setattr(watching, "SAMPLE_S", 0.7)
    with cluster_of(tmp_path, engine=engine) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert status(outcome, ItemId.IN_SYNC) is Status.PRESENT


@pytest.mark.wide
@ENGINES
@pytest.mark.parametrize(
    ("setting", "value", "status_of_settings", "why"),
    [
        ("timeout", "100", Status.ASSUMED, "did not wait for node2 at the cut"),
        ("enabled", "OFF", Status.ABSENT, "semi-synchronous replication is off"),
    ],
    ids=["timeout", "off"],
)
def test_what_no_commit_waits_for_is_lost_behind_a_link_that_is_down(
    tmp_path: Path,
    engine: str,
    setting: str,
    value: str,
    status_of_settings: Status,
    why: str,
) -> None:
    """Past its timeout semi-synchronous replication is asynchronous."""
    given: Any = {f"rpl_semi_sync_{WORDS[engine]}_{setting}": value}
    # A busy machine commits few rows in the time of the other loads.
    longer = replace(WORKLOAD, cut_after_s=(3.0, 3.5))
    with cluster_of(tmp_path, engine=engine, **given) as (cluster, rig):
        outcome = cycle(rig, cluster.take_links_down, longer)
    assert outcome.verdict is Verdict.FAIL
    assert outcome.case.left["node1"].behind > 50
    assert status(outcome, ItemId.IN_SYNC) is Status.ABSENT
    assert status(outcome, ItemId.PROMISED_SETTINGS) is status_of_settings
    best = outcome.result.diagnosis[0]
    assert best.cause is Cause.REPLICATION
    assert why in best.reason


@pytest.mark.wide
@ENGINES
def test_a_replica_that_has_not_applied_all_is_not_promoted(
    tmp_path: Path, engine: str
) -> None:
    """The promotion would delete what it has received, and commits with it."""
    stop = "stop replica sql_thread"
    with cluster_of(tmp_path, engine=engine) as (cluster, rig):
        brief = replace(rig, limits=replace(rig.limits, return_s=4))
        outcome = cycle(brief, lambda: execute_on(cluster.labs["node2"], stop))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    (reason,) = outcome.judgement.reasons
    assert "waiting before the promotion, which would delete the rest" in reason


@pytest.mark.wide
@ENGINES
def test_a_replica_that_others_promoted_too_early_proves_nothing(
    tmp_path: Path, engine: str
) -> None:
    """It had received the commits, and whoever promoted it deleted them."""
    stop = "stop replica sql_thread"
    with cluster_of(tmp_path, engine=engine) as (cluster, rig):
        standby: Any = rig.site.nodes["node2"].engine
        site: Any = promoting(rig, lambda *_: None).site
        unapplied = site._describe_unapplied

        def promote_too_early() -> str:
            if waiting := unapplied():
                standby.promote()
            return str(waiting)

        site._describe_unapplied = promote_too_early
        rig = replace(rig, site=site)
        outcome = cycle(rig, lambda: execute_on(cluster.labs["node2"], stop))
    assert outcome.found is not None
    assert outcome.found.counts
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.ALL_APPLIED) is Status.CONTRADICTED


@pytest.mark.wide
@pytest.mark.parametrize("engine", ["mysql"])
def test_all_nodes_are_cut_and_a_replica_takes_over(
    tmp_path: Path, engine: str
) -> None:
    promise = Promise.ALL_WRITER_GONE
    with cluster_of(tmp_path, 2, promise, DriveSpec(), engine) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


@pytest.mark.wide
@pytest.mark.parametrize("engine", ["mariadb"])
def test_a_replica_of_mariadb_that_restarts_discards_its_relay_log(
    tmp_path: Path, engine: str
) -> None:
    """It had acknowledged the commits in it, flushed, and not applied them yet."""
    promise = Promise.ALL_WRITER_GONE
    stop = "stop replica sql_thread"
    with cluster_of(tmp_path, 2, promise, DriveSpec(), engine) as (cluster, rig):
        outcome = cycle(rig, lambda: execute_on(cluster.labs["node2"], stop))
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert "discards what it had received" in outcome.result.diagnosis[0].reason


@pytest.mark.wide
@ENGINES
def test_a_replica_of_another_server_is_refused(tmp_path: Path, engine: str) -> None:
    """MariaDB's have the same server_id as those of this cluster, and other ports."""
    with (
        cluster_of(tmp_path / "one", engine=engine) as (_, rig),
        cluster_of(tmp_path / "other", engine=engine) as (_, others),
    ):
        mixed = promoting(rig, lambda *_: None)
        site: Any = mixed.site
        site._nodes = {**rig.site.nodes, "node2": others.site.nodes["node2"]}
        why = {
            "mysql": ErrorId.NODE_OF_OTHER_CLUSTER,
            "mariadb": ErrorId.NODE_NOT_RECOGNISED,
        }
        with refused(why[engine], EngineError, naming="node2"):
            cycle(mixed)


@pytest.mark.wide
@ENGINES
def test_a_replica_that_applies_nothing_before_the_load_is_refused(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "REPLICATED_S", 2.0)
    with cluster_of(tmp_path, engine=engine) as (cluster, rig):
        execute_on(cluster.labs["node2"], "stop replica sql_thread")
        with refused(ErrorId.NODE_DOES_NOT_REPLICATE, EngineError, naming="node2"):
            cycle(rig)


@pytest.mark.wide
@ENGINES
@pytest.mark.parametrize(
    ("point", "lost"), [("AFTER_SYNC", False), ("AFTER_COMMIT", True)]
)
def test_rows_that_clients_see_before_a_replica_has_them_may_be_gone(
    tmp_path: Path, engine: str, point: str, lost: bool
) -> None:
    """No commit is acknowledged once the link is down; no promise is broken."""
    given: Any = {f"rpl_semi_sync_{WORDS[engine]}_wait_point": point}
    with cluster_of(tmp_path, engine=engine, **given) as (cluster, rig):
        started = run_preflight(rig, replace(WORKLOAD, readers=2), seed=1)
        cluster.take_links_down()
        outcome = finish_cycle(rig, started)
    assert outcome.after.reader_name == "node2"
    seen = outcome.result.seen
    assert seen is not None
    assert bool(seen.lost) == lost
    assert outcome.found is not None
    assert not outcome.found.counts


@pytest.mark.parametrize("engine", ["mariadb"])
def test_a_foreign_replica_of_a_nodes_name_is_not_the_node(
    tmp_path: Path, engine: str
) -> None:
    """MariaDB's source names its replicas by their server_id alone."""
    with cluster_of(tmp_path, 3, engine=engine) as (cluster, rig):
        foreign = cluster.labs["node3"]
        execute_on(foreign, "stop slave", "set global server_id = 2")
        replicas = "show replica hosts"
        writer = cluster.labs["node1"]
        wait_until(lambda: len(execute_on(writer, replicas)) == 1, "one replica")

        def replaced() -> None:
            execute_on(cluster.labs["node2"], "stop slave io_thread")
            execute_on(foreign, "start slave")
            port = make_url(foreign.target_url).port
            wait_until(
                lambda: [row[2] for row in execute_on(writer, replicas)] == [port],
                "the foreign replica",
            )

        outcome = cycle(without(rig, "node3"), replaced)
    assert outcome.found is not None
    assert outcome.found.counts  # the foreign one has them
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.IN_SYNC) is Status.CONTRADICTED
