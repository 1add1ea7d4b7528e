"""The old writer follows the new one again: what it then holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.config.workload_file import load
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import BY_DBCHECK, PATRONI
from dbcheck.model.verdict import Verdict
from dbcheck.rows.differences import OtherNode
from dbcheck.witness.log import FrameLogReader
from tests.kit.clusters import cluster_of, cycle, status
from tests.kit.lab_access import execute_on

pytestmark = pytest.mark.wide

TIMEOUT = {
    "mysql": "rpl_semi_sync_source_timeout",
    "mariadb": "rpl_semi_sync_master_timeout",
}

# What a session does then reaches no other node, although this one is a replica.
ALONE = ("set global super_read_only = off", "set sql_log_bin = 0")


def of_writer(others: Any) -> OtherNode:
    found = others["node1"]
    assert isinstance(found, OtherNode)
    return found


@pytest.mark.parametrize("promoted_by", [BY_DBCHECK, PATRONI])
def test_a_writer_that_was_rewound_has_the_rows_of_the_new_one(
    tmp_path: Path, promoted_by: str
) -> None:
    with cluster_of(tmp_path, 3, promoted_by=promoted_by, rejoin=True) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    others = outcome.after.others
    assert others.keys() == {"node1", "node2", "node3"} - {outcome.after.reader_name}
    assert outcome.found is not None
    for found in others.values():
        assert not found.not_done
        assert (found.differing, found.extra) == (0, 0)
        assert found.rows >= outcome.found.confirmed > 0
    assert status(outcome, ItemId.AGREE) is Status.PRESENT
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


def test_pg_rewind_takes_away_what_was_left_behind(tmp_path: Path) -> None:
    with cluster_of(tmp_path, rejoin=True, synchronous_standby_names="") as made:
        cluster, rig = made
        outcome = cycle(rig, cluster.take_links_down)
    assert outcome.verdict is Verdict.FAIL
    assert outcome.case.left["node1"].behind > 100
    found = of_writer(outcome.after.others)
    assert not found.not_done
    assert found.extra == 0


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_a_source_that_lost_nothing_follows_as_it_is(
    tmp_path: Path, engine: str
) -> None:
    """Unless the cut left it a commit that was sent to no replica, which is chance."""
    with cluster_of(tmp_path, engine=engine, rejoin=True) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    left, found = outcome.case.left["node1"], of_writer(outcome.after.others)
    if left.extra and engine == "mariadb":
        assert "it does not follow the new writer" in found.not_done
    else:
        assert found.extra == left.extra
    if not left.extra:
        assert not found.not_done
        assert status(outcome, ItemId.AGREE) is Status.PRESENT


@pytest.mark.parametrize("engine", sorted(TIMEOUT))
def test_a_source_keeps_what_the_new_one_never_had(tmp_path: Path, engine: str) -> None:
    """MySQL's follows until the new one hands out the same id; MariaDB's does not."""
    settings: Any = {TIMEOUT[engine]: "50"}
    with cluster_of(tmp_path, engine=engine, rejoin=True, **settings) as made:
        cluster, rig = made
        outcome = cycle(rig, cluster.take_links_down)
    assert outcome.verdict is Verdict.FAIL
    behind = outcome.case.left["node1"].behind
    assert behind > 20
    found = of_writer(outcome.after.others)
    if engine == "mariadb":
        assert "it does not follow the new writer" in found.not_done
        assert found.extra == 0
    else:
        assert "it does not apply all" in found.not_done
        assert found.extra >= behind
        assert status(outcome, ItemId.AGREE) is Status.ABSENT


def test_a_node_that_lost_a_row_as_it_rejoined_has_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that it alone has go first: with the ids of later ones they end it all."""
    rejoin = ClusterLab.rejoin

    def and_lose_a_row(cluster: ClusterLab, name: str, writer: str) -> None:
        rejoin(cluster, name, writer)
        query, of = "select id from dbcheck.ledger order by id", "from dbcheck.ledger"
        ids = [row_id for (row_id,) in execute_on(cluster.labs[writer], query)]
        execute_on(
            cluster.labs[name],
            *ALONE,
            f"delete {of} where id > {ids[-1]}",
            f"delete {of} where id = {ids[len(ids) // 2]}",
        )

    monkeypatch.setattr(ClusterLab, "rejoin", and_lose_a_row)
    with cluster_of(tmp_path, engine="mysql", rejoin=True) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.FAIL, outcome.after.others
    assert ": node1 and node2 differ" in outcome.judgement.reasons[0]
    assert "\ndiverged," in (outcome.run.path / "losses.csv").read_text()


def test_what_an_extra_operation_changed_in_other_tables_is_no_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It overwrote a register, which the new writer has as it was."""
    rejoin = ClusterLab.rejoin

    def with_an_extra(cluster: ClusterLab, name: str, writer: str) -> None:
        rejoin(cluster, name, writer)
        copied = "epoch, session, seq + 1000000, part, payload, checksum"
        execute_on(
            cluster.labs[name],
            *ALONE,
            "insert into dbcheck.ledger (id, epoch, session, seq, part, payload,"
            f" checksum) select id + 1000000, {copied} from dbcheck.ledger"
            " order by id desc limit 1",
            "update dbcheck.register set seq = seq + 1000000 order by id desc limit 1",
        )

    monkeypatch.setattr(ClusterLab, "rejoin", with_an_extra)
    workload = replace(load("registers"), cut_after_s=(0.8, 1.2))
    with cluster_of(tmp_path, engine="mysql", rejoin=True) as (_, rig):
        outcome = finish_cycle(rig, run_preflight(rig, workload, seed=1))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    found = of_writer(outcome.after.others)
    assert found.extra >= 1
    assert found.differing == 0
    assert found.not_done


def test_a_node_that_cannot_rejoin_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise LabError("it is refused", id=ErrorId.LAB_DAEMON_FAILED)

    monkeypatch.setattr(ClusterLab, "rejoin", refuse)
    with cluster_of(tmp_path, rejoin=True) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS
    found = of_writer(outcome.after.others)
    assert found.not_done == "it could not rejoin: it is refused"
    assert status(outcome, ItemId.AGREE) is Status.NOT_OBSERVABLE
