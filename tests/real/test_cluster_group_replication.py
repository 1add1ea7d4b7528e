"""MySQL Group Replication: what a majority keeps, and what a cut of all members."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import mysql.connector
import pytest
from sqlalchemy.engine import make_url

from dbcheck.campaign.cycle import finish_cycle
from dbcheck.campaign.judging import judge_run
from dbcheck.campaign.preflight import preflight
from dbcheck.campaign.rig import Rig
from dbcheck.cli.lab import as_host
from dbcheck.core.depth import Depth
from dbcheck.core.loss import LossKind
from dbcheck.core.promise import Promise
from dbcheck.core.site import SiteKind
from dbcheck.core.verdict import Verdict
from dbcheck.engines.mysql.gtids import counts
from dbcheck.errors import EngineError
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Standing
from dbcheck.lab.cluster import ClusterLab
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import USER
from dbcheck.lab.spec import DriveSpec
from dbcheck.site.cluster import Cluster
from dbcheck.site.group import Group
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of
from tests.kit.clusters import WORKLOAD, cluster_of, cycle, standing
from tests.kit.waiting import wait_until

AT_DRIVE = pytest.mark.root
FLUSH = "innodb_flush_log_at_trx_commit"


@contextlib.contextmanager
def group(
    folder: Path,
    promise: Promise = Promise.WRITER_GONE,
    drive: DriveSpec | None = None,
    nodes: int = 3,
    **values: str,
) -> Iterator[tuple[ClusterLab, Rig]]:
    """Give a replication group, as cluster_of() does."""
    with cluster_of(
        folder, nodes, promise, drive, "mysql", topology="group-replication", **values
    ) as made:
        yield made


def run_on(lab: Lab, *statements: str) -> list[Any]:
    """Run these on the server of *lab*; return the rows of the last one."""
    url = make_url(lab.target_url)
    link = mysql.connector.connect(
        host=url.host,
        port=url.port or 0,
        user=USER,
        password=lab.password,
        autocommit=True,
    )
    with contextlib.closing(link):
        cursor: Any = link.cursor()
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.with_rows else []
        return rows


def test_commits_survive_the_loss_of_the_writer(tmp_path: Path) -> None:
    with group(tmp_path) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    name = outcome.after.reader_name
    assert name in ("node2", "node3")
    items = (ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED, ItemId.ALL_APPLIED)
    items = (*items, ItemId.AGREE)
    assert {standing(outcome, item) for item in items} == {Standing.PRESENT}
    nodes = outcome.run.manifest().nodes
    others = tuple(sorted(nodes[each].member for each in ("node2", "node3")))
    promotion = outcome.after.promotion
    assert promotion is not None
    assert promotion.received[name].members == others
    seen = outcome.load.replication if outcome.load else None
    assert seen is not None
    assert seen.awaited == others
    # A stored run, and its bundle, are judged the same.
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement
    assert bundle_of(outcome.run.path, tmp_path / "b.tar.gz").verdict is Verdict.PASS


@AT_DRIVE
def test_a_group_that_lost_its_power_has_every_commit(tmp_path: Path) -> None:
    with group(tmp_path, Promise.ALL, DriveSpec()) as (cluster, rig):
        outcome = cycle(rig)
        left = {
            run_on(lab, "select @@group_replication_bootstrap_group")[0][0]
            for lab in cluster.labs.values()
        }
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node1"
    assert outcome.result.shown_depth in (Depth.OS, Depth.DRIVE)
    items = (ItemId.NODES_CUT, ItemId.MEMBERS, ItemId.AGREE)
    assert {standing(outcome, item) for item in items} == {Standing.PRESENT}
    assert left == {0}  # none would begin a second group
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


@pytest.mark.parametrize("promise", [Promise.WRITER_GONE, Promise.ALL])
def test_a_member_that_lacks_a_row_is_found(tmp_path: Path, promise: Promise) -> None:
    """It is no longer what the others are, although it has applied all."""
    with group(tmp_path, promise) as (cluster, rig):
        started = preflight(rig, WORKLOAD, seed=1)
        epoch = started.run.manifest().epoch
        site: Any = rig.site
        found = site.promotion

        def without_a_row() -> Any:
            """Remove one from a member alone, before it is compared."""
            name = "node3" if site.reader_name != "node3" else "node2"
            run_on(
                cluster.labs[name],
                "set global super_read_only = off",
                "set sql_log_bin = 0",
                f"delete from dbcheck.ledger where epoch = {epoch} order by id limit 1",
            )
            return found()

        site.promotion = without_a_row
        outcome = finish_cycle(rig, started)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert outcome.result.losses == {LossKind.DIVERGED.value: 1}
    assert "1 row is not the same on" in outcome.judgement.reasons[0]
    assert standing(outcome, ItemId.AGREE) is Standing.CONTRADICTED
    assert "\ndiverged," in (outcome.run.path / "losses.csv").read_text()
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


@AT_DRIVE
@pytest.mark.parametrize("value", ["0", "2"])
def test_a_group_that_flushes_once_a_second_loses(tmp_path: Path, value: str) -> None:
    """A cut may come just after a flush, so it is made several times."""
    for number in range(4):
        folder = tmp_path / str(number)
        relaxed: Any = {FLUSH: value}
        with group(folder, Promise.ALL, DriveSpec(), **relaxed) as (_, rig):
            outcome = cycle(rig)
        if outcome.verdict is Verdict.FAIL:
            break
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert standing(outcome, ItemId.MEMBERS) is Standing.PRESENT
    assert outcome.result.diagnosis[0].cause is Cause.SETTING
    assert f"{FLUSH} = {value}" in str(outcome.result.diagnosis[0])


class Elsewhere(Group):
    """Begins the group from another node than the writer, if that has all, too."""

    def _begin(self) -> str:
        writer = self._received[self.writer_name]
        self._received[self.writer_name] = replace(writer, position=0)
        why = super()._begin()
        self._received[self.writer_name] = writer
        return super()._begin() if "no server has all" in why else why


def test_the_writer_may_return_as_a_secondary(tmp_path: Path) -> None:
    """It may have what no other received as it was cut, so several cuts are made."""
    for number in range(8):
        with group(tmp_path / str(number), Promise.ALL) as (cluster, rig):
            site = rig.site
            changed = Elsewhere(
                site.kind, site.nodes, "node1", Promise.ALL, begins=True
            )
            outcome = cycle(replace(rig, site=changed))
            ((read_only,),) = run_on(cluster.labs["node1"], "select @@super_read_only")
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        if read_only:
            break
    assert read_only


def test_members_that_join_at_their_start_are_waited_for(tmp_path: Path) -> None:
    """Each tries for a minute, as there is no group to join.

    MySQL Shell has members do so (group_replication_start_on_boot); here each is asked
    to, once it is back.
    """
    with group(tmp_path, Promise.ALL) as (cluster, rig), ThreadPoolExecutor(3) as pool:
        site: Any = rig.site
        restored, formed = site.restore, site._form
        tries: list[Future[Any]] = []
        said: list[str] = []

        def restore() -> Any:
            done = restored()
            for lab in cluster.labs.values():
                tries.append(pool.submit(run_on, lab, "start group_replication"))
            return done

        def form() -> str:
            said.append(formed())
            return said[-1]

        site.restore, site._form = restore, form
        limits = replace(rig.limits, return_s=150)
        outcome = cycle(replace(rig, limits=limits))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert any("still tries to join the group by itself" in each for each in said)
    assert all(each.exception() for each in tries)


def test_a_member_with_transactions_of_its_own_is_no_part_of_the_group(
    tmp_path: Path,
) -> None:
    """So no row is read, and no loss is claimed: what it has may be what is missed."""
    with group(tmp_path, Promise.ALL) as (cluster, rig):
        started = preflight(rig, WORKLOAD, seed=1)
        site: Any = rig.site
        formed = site._form

        def astray() -> str:
            """Give node3 a transaction before the group begins."""
            site._form = formed
            node, step = cluster.labs["node3"], formed()
            run_on(node, "set global super_read_only = off", "create database astray")
            return str(step)

        site._form = astray
        limits = replace(rig.limits, return_s=20)
        outcome = finish_cycle(replace(rig, limits=limits), started)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "no server has all transactions" in str(outcome.judgement.reasons)


@AT_DRIVE
def test_without_its_binary_log_no_member_can_join_again(tmp_path: Path) -> None:
    """What a cut leaves of it is chance, so several cuts are made."""
    for number in range(8):
        folder = tmp_path / str(number)
        with group(folder, Promise.ALL, DriveSpec(), sync_binlog="0") as (_, rig):
            limits = replace(rig.limits, return_s=25)
            outcome = cycle(replace(rig, limits=limits))
        reasons = str(outcome.judgement.reasons)
        if "joined the group and left it" in reasons:
            break
    assert "joined the group and left it" in reasons
    assert outcome.verdict is Verdict.INCONCLUSIVE


def test_a_member_that_was_refused_may_be_let_in_later(tmp_path: Path) -> None:
    """Of this docs/clusters.md warns: what it alone has is then on no other member."""
    with group(tmp_path) as (cluster, _):
        writer, stray = cluster.labs["node1"], cluster.labs["node3"]
        ((name,),) = run_on(writer, "select @@group_replication_group_name")
        ((held,),) = run_on(writer, "select @@gtid_executed")
        following = counts(held).get(name, 0) + 1
        run_on(
            stray,
            "stop group_replication",
            "set global super_read_only = off",
            f"set gtid_next = '{name}:{following}'",
            "create database astray",
        )
        with pytest.raises(mysql.connector.Error, match="not configured properly"):
            run_on(stray, "start group_replication")
        run_on(stray, "stop group_replication")
        run_on(writer, "create database another")  # has the same GTID
        run_on(stray, "start group_replication")
        wait_until(lambda: _online(writer) == 3, "the third member")
        assert run_on(stray, "show databases like 'astray'")
        assert not run_on(stray, "show databases like 'another'")
        assert run_on(writer, "show databases like 'another'")


def _online(lab: Lab) -> int:
    ((found,),) = run_on(
        lab,
        "select count(*) from performance_schema.replication_group_members"
        " where member_state = 'ONLINE'",
    )
    return int(found)


def test_a_server_of_another_kind_of_cluster_is_refused(tmp_path: Path) -> None:
    with group(tmp_path, nodes=4) as (_, rig):
        site: Any = rig.site
        for kind in (SiteKind.GALERA, SiteKind.SEMI_SYNC):
            type_ = Group if kind.is_group else Cluster
            other = type_(kind, site.nodes, "node1", Promise.WRITER_GONE)
            with pytest.raises(EngineError, match="node1 is not of a cluster") as at:
                preflight(replace(rig, site=other), WORKLOAD, seed=1)
            assert at.value.hint == "Set dbcheck_topology: group-replication."
        known = {name: site.nodes[name] for name in ("node1", "node2", "node3")}
        part = replace(rig, site=Group(site.kind, known, "node1", Promise.WRITER_GONE))
        with pytest.raises(EngineError, match="which is not one of the nodes"):
            preflight(part, WORKLOAD, seed=1)
        second = Group(site.kind, site.nodes, "node2", Promise.WRITER_GONE)
        with pytest.raises(EngineError, match="the server is read-only"):
            preflight(replace(rig, site=second), WORKLOAD, seed=1)


def test_a_group_of_an_inventory_is_cut_as_one_cluster(tmp_path: Path) -> None:
    with group(tmp_path, Promise.ALL) as (cluster, _):
        hosts = {name: as_host(lab) for name, lab in cluster.labs.items()}
        given = {
            "dbcheck_topology": "group-replication",
            "dbcheck_writer": "node1",
            "dbcheck_survives": "all",
        }
        file = tmp_path / "inventory.yml"
        children = {"gr": {"hosts": hosts, "vars": given}}
        file.write_text(json.dumps({"all": {"children": children}}))
        file.chmod(0o600)
        words = ["run", "gr", "--inventory", str(file), "--json"]
        done = dbcheck(*words, "--runs", str(tmp_path / "runs"), "--seed", "3")
    result = json.loads(done.stdout)
    assert done.returncode == 0, result["reasons"]
    assert result["cluster"]["promise"] == "all"
    assert result["cluster"]["read"] == "node1"


def test_a_lab_runs_it_from_the_command_line(tmp_path: Path) -> None:
    words = "lab run --engine mysql --topology group-replication --nodes 3"
    words += " --promise all --rung process"
    done = dbcheck(*words.split(), "--runs", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (cycle_of_it,) = json.loads(done.stdout)["cycles"]
    assert cycle_of_it["cluster"]["standbys"] == ["node2", "node3"]


def dbcheck(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dbcheck", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
